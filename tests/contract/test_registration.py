"""A ranker in one file takes part everywhere by its registration alone."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

from contract.example_ranker import LeastSquares
from contract.rankers import RANKERS
from robirank import load_model, make_ranking, save_letor, save_model
from robirank.cli.app import app


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data set of one fold."""
    root = tmp_path_factory.mktemp("data")
    data = make_ranking(n_queries=60, n_docs=8, n_features=4, noise=0.3, random_state=0)
    number = np.unique(data.qid, return_inverse=True)[1]
    for part, name in enumerate(("train", "vali", "test")):
        save_letor(root / f"{name}.txt", data.take(number % 3 == part))
    return root


def test_it_must_keep_the_contract():
    assert any(type(ranker) is LeastSquares for ranker in RANKERS)


def test_it_can_be_saved_and_loaded(tmp_path):
    data = make_ranking(n_queries=10, n_docs=8, n_features=3, random_state=0)
    model = LeastSquares(alpha=0.1).fit(data.X, data.y, qid=data.qid)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is LeastSquares
    assert loaded.alpha == 0.1
    assert_array_equal(loaded.predict(data.X), model.predict(data.X))


def test_it_is_compared_with_the_others_by_processes_of_their_own(folder, tmp_path):
    command = ["experiment", "ltr", str(folder), "--methods", "RoBiRank,LeastSquares"]
    result = CliRunner().invoke(app, [*command, "--output", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    table = (tmp_path / "run" / "table.md").read_text("utf-8")
    assert "LeastSquares" in table
    assert "RoBiRank" in table

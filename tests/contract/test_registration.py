"""A ranker in one file takes part everywhere by its registration alone."""

from numpy.testing import assert_array_equal

from contract.example_ranker import LeastSquares
from contract.rankers import RANKERS
from robirank import load_model, make_ranking, save_model


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

"""The demonstration, small: what it writes, what it says, and that its numbers are right."""

import builtins
import contextlib
import io
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from robirank import evaluate, load_interactions, load_model
from robirank.experiments.demo.features import (
    ALPHAS,
    MEASURES,
    METHODS,
    choose,
    make_ranking_data,
)
from robirank.experiments.demo.latent import (
    GENRES,
    LATENT_MEASURES,
    run_latent_demo,
    song_names,
)
from robirank.experiments.demo.parts import CUTOFFS
from robirank.experiments.demo.report import _TITLES, quality_table
from robirank.experiments.demo.run import run_demo
from robirank.metrics import evaluate_ranking, ndcg

SEED, N_QUERIES = 3, 20


@pytest.fixture(scope="module")
def told():
    return io.StringIO()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "new" / "folder"


@pytest.fixture(scope="module")
def result(told, folder):
    console = Console(file=told, width=80)
    return run_demo(folder, n_queries=N_QUERIES, random_state=SEED, console=console)


def test_every_file_it_names_is_there(result, folder):
    assert {p.name for p in result.files.values()} == {p.name for p in folder.iterdir()}
    pictures = [p for p in result.files.values() if p.suffix == ".png"]
    assert len(pictures) == 4
    for picture in pictures:
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG")
        width, height = np.frombuffer(content[16:24], dtype=">u4")
        assert width >= 1200
        assert height >= 600


def test_the_saved_model_is_the_one_in_the_table(result):
    test = make_ranking_data(N_QUERIES, SEED).test
    model = load_model(result.files["model"])
    measured = evaluate_ranking(test.y, model.predict(test.X), test.qid, metrics=MEASURES)
    assert result.features.methods["RoBiRank"].measures == pytest.approx(measured)


def test_the_penalty_is_the_best_on_validation(result):
    data = make_ranking_data(N_QUERIES, SEED)
    for name in ("Identity", "Pairwise logistic"):
        reached = {}
        for alpha in ALPHAS:
            model = METHODS[name](alpha, SEED, 0).fit(
                data.train.X, data.train.y, qid=data.train.qid
            )
            reached[alpha] = model.score(data.vali.X, data.vali.y, qid=data.vali.qid)
        assert reached[result.features.methods[name].model.alpha] == max(reached.values())


def test_the_report_has_every_method_and_number(result, told):
    text = told.getvalue()
    for name, row in result.features.methods.items():
        cells = [f"{value:.4f}" for value in row.measures.values()] + [f"{row.model.alpha:g}"]
        lines = [x.split() for x in text.splitlines() if x.strip().startswith(name)]
        assert cells in [line[len(name.split()) : -1] for line in lines]
    for name in ("Identity", "Type-II", "Pairwise logistic"):
        difference = result.differences[name]
        interval = f"{difference.low:+.4f} to {difference.high:+.4f}".replace("-", "−")
        assert any(name in x and interval in x for x in text.splitlines())
    for path in result.files.values():
        assert str(path) in text
    assert "Try next" in text
    assert max(map(len, text.splitlines()[:30])) <= 80


def test_the_best_of_each_column_is_bold(result):
    terminal = io.StringIO()
    console = Console(file=terminal, width=80, force_terminal=True, color_system="standard")
    console.print(quality_table(result.features, _TITLES))
    for measure in MEASURES:
        best = max(row.measures[measure] for row in result.features.methods.values())
        assert f"\x1b[1m{best:.4f}" in terminal.getvalue()
    worst = min(row.measures["map"] for row in result.features.methods.values())
    assert f"\x1b[1m{worst:.4f}" not in terminal.getvalue()


def test_summary_is_json_with_all_methods(result):
    summary = json.loads(json.dumps(result.summary(), allow_nan=False))
    assert list(summary["methods"]) == list(METHODS)
    for row in summary["methods"].values():
        assert set(row["measures"]) == set(MEASURES)
        change = row["ndcg@10_less_robirank"]
        assert change["low"] <= change["value"] <= change["high"]


def test_differences_are_paired_and_to_robirank(result):
    robirank = result.features.methods["RoBiRank"]
    assert set(result.differences) == set(METHODS) - {"RoBiRank"}
    for name, difference in result.differences.items():
        row = result.features.methods[name]
        expected = row.measures["ndcg@10"] - robirank.measures["ndcg@10"]
        assert difference.difference == pytest.approx(expected, abs=1e-9)
        assert len(row.curve) == len(CUTOFFS)
        assert row.curve[9] == pytest.approx(row.measures["ndcg@10"])


def test_only_lists_to_learn_from_have_outliers():
    data = make_ranking_data(40, 0)
    clean = ndcg(data.test.y, data.test.X @ data.coef, data.test.qid, k=10)
    dirty = ndcg(data.train.y, data.train.X @ data.coef, data.train.qid, k=10)
    assert clean > 0.8
    assert dirty < 0.7
    ids = [set(part.qid.tolist()) for part in (data.train, data.vali, data.test)]
    assert [len(i) for i in ids] == [40, 20, 80]
    assert len(set.union(*ids)) == 140


def test_robust_beats_convex_where_there_are_outliers():
    """The point of the demonstration, for each of a few seeds."""
    for seed in range(3):
        data = make_ranking_data(60, seed)
        reached = {}
        for name in ("RoBiRank", "Identity"):
            model, _ = choose(METHODS[name], data, seed, 0)
            reached[name] = model.score(data.test.X, data.test.y, qid=data.test.qid)
        assert reached["RoBiRank"] > reached["Identity"] + 0.01


# The second part: who played what


def test_the_saved_latent_model_is_the_one_in_the_table(result):
    files, latent = result.files, result.latent
    model = load_model(files["latent model"])
    train = load_interactions(files["plays, train"], users=model.user_ids_, items=model.item_ids_)
    test = load_interactions(files["plays, test"], users=model.user_ids_, items=model.item_ids_)
    found = evaluate(model, train=train, test=test)
    measured = {name: found[name] for name in LATENT_MEASURES}
    assert latent.methods["RoBiRank"].measures == pytest.approx(measured)
    # Most popular, counted here.
    plays = np.bincount(train.indices, minlength=train.n_items)
    hits = []
    for user in range(train.n_users):
        own = train.matrix[user].indices
        best = int(np.argmax(np.where(np.isin(np.arange(train.n_items), own), -1, plays)))
        hits.append(best in test.matrix[user].indices)
    has_test = test.lengths > 0
    expected = np.mean(np.array(hits)[has_test])
    assert latent.bounds["Most popular"].measures["precision@1"] == pytest.approx(expected)


def test_tastes_are_found():
    """The point of this part: near to the truth, far above popularity."""
    latent = run_latent_demo_quietly(600)
    ndcg20 = {name: row.measures["ndcg@20"] for name, row in latent.methods.items()}
    popular, planted = (row.measures["ndcg@20"] for row in latent.bounds.values())
    assert ndcg20["RoBiRank"] > 1.5 * popular
    assert ndcg20["RoBiRank"] > 0.75 * planted
    assert ndcg20["RoBiRank"] > ndcg20["Identity"]


def run_latent_demo_quietly(n_users):
    with tempfile.TemporaryDirectory() as folder:
        return run_latent_demo(
            Path(folder),
            n_users=n_users,
            random_state=0,
            num_threads=0,
            working=lambda _: contextlib.nullcontext(),
        )


def test_recommendations_stand_beside_what_was_played(result, told):
    text = told.getvalue()
    lines = [line.split() for line in text.splitlines()]
    for taste in result.latent.tastes:
        assert not set(taste.has) & set(taste.recommended)
        assert len(taste.recommended) == len(taste.right) == 6
        for i, (song, right) in enumerate(zip(taste.recommended, taste.right, strict=True)):
            left = taste.has[i].split() if i < 5 else ["and", str(len(taste.has) - 5), "more"]
            row = [*([] if i else [str(taste.user)]), *left, *song.split()]
            assert [*row, *(["✓", "was", "hidden"] if right else [])] in lines
    ratio = (
        result.latent.methods["RoBiRank"].measures["ndcg@20"]
        / result.latent.bounds["Most popular"].measures["ndcg@20"]
    )
    assert f"{ratio:.1f} times" in text


def test_songs_are_called_by_their_genre():
    serves = np.zeros((4, len(GENRES)), dtype=np.float32)
    serves[[0, 1, 2], 6] = [0.2, 0.5, 0.1]
    serves[3, 0] = 0.1
    assert song_names(serves) == ["Jazz 2", "Jazz 1", "Jazz 3", "Ambient 1"]


def test_too_few_queries(tmp_path):
    with pytest.raises(ValueError, match="n_queries must be an integer ≥ 10; got 3"):
        run_demo(tmp_path, n_queries=3)


def test_without_matplotlib_the_error_names_the_extra(tmp_path, monkeypatch):
    real = builtins.__import__

    def no_matplotlib(name, *args, **kwargs):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    with pytest.raises(ImportError, match=r"pip install 'robirank\[plots\]'"):
        run_demo(tmp_path / "out", n_queries=10)
    assert not (tmp_path / "out").exists()

"""The demonstration, small: what it writes, what it says, and that its numbers are right."""

import io

import numpy as np
import pytest
from rich.console import Console

from robirank import RoBiRank, evaluate, load_dataset, load_interactions, load_model
from robirank.metrics import ndcg
from robirank_lab.demo import (
    GENRES,
    LATENT_METRICS,
    METHODS,
    METRICS,
    make_documents,
    metric_table,
    rank_documents,
    run_demo,
    song_names,
)
from robirank_lab.ltr.results import LtrResults
from robirank_lab.run_dir import RunDirectory

SEED, N_QUERIES = 3, 20


@pytest.fixture(scope="module")
def told():
    return io.StringIO()


@pytest.fixture(scope="module")
def folder(told, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    run_demo(folder, queries=N_QUERIES, seed=SEED, console=Console(file=told, width=80))
    return folder


@pytest.fixture(scope="module")
def run(folder):
    return RunDirectory.open(folder / "comparison")


def rows_of(text):
    return [line.split() for line in text.splitlines()]


def test_what_it_writes(folder, told):
    names = {p.name for p in folder.iterdir()}
    assert names == {
        "comparison",
        "robirank.safetensors",
        "latent.safetensors",
        *(f"{part}.txt.gz" for part in ("train", "vali", "test")),
        *(f"plays-{part}.tsv.gz" for part in ("train", "test")),
    }
    for name in names - {"comparison"}:
        assert name in told.getvalue()
    assert str(folder / "comparison" / "report.html") in told.getvalue()
    assert (folder / "comparison" / "report.html").stat().st_size > 50_000


def test_the_table_has_every_method_and_number(folder, run, told):
    results, rows = LtrResults(run), rows_of(told.getvalue())
    less = {c.method: c for c in run.significance().comparisons if c.metric == "ndcg@10"}
    for name in METHODS:
        means = [f"{results.means(name)[metric]:.4f}" for metric in METRICS]
        c = less.get(name)
        text = f"{c.difference:+.4f} [{c.low:+.4f}, {c.high:+.4f}]" if c else ""
        assert [name, *means, *text.replace("-", "−").split()] in rows
    assert "Try next" in told.getvalue()


def test_the_saved_model_is_the_one_in_the_table(folder, run):
    test = load_dataset(folder)[0].test
    model = load_model(folder / "robirank.safetensors")
    assert model.alpha == run.fit("RoBiRank", "folder").params["alpha"]
    value = ndcg(test.y, model.predict(test.X), test.qid, k=10)
    assert value == pytest.approx(LtrResults(run).means("RoBiRank")["ndcg@10"])


def test_it_can_be_repeated_with_other_data(tmp_path):
    for queries in (10, 12):
        rank_documents(tmp_path, queries, 0, None, Console(quiet=True))
        assert RunDirectory.open(tmp_path / "comparison").data.queries == 2 * queries


def test_the_best_of_each_column_is_bold():
    terminal = io.StringIO()
    console = Console(file=terminal, width=80, force_terminal=True, color_system="standard")
    means = {"A": {"map": 0.5}, "B": {"map": 0.4}, "Bound": {"map": 0.9}}
    console.print(metric_table(means, {"map": "MAP"}, ["Bound"]))
    assert "\x1b[1m0.5000" in terminal.getvalue()
    assert "\x1b[1m0.4000" not in terminal.getvalue()
    assert "\x1b[1m0.9000" not in terminal.getvalue()


def test_only_lists_to_learn_from_have_outliers():
    parts, coef = make_documents(40, 0)
    clean, dirty = (
        ndcg(part.y, part.X @ coef, part.qid, k=10) for part in (parts["test"], parts["train"])
    )
    assert clean > 0.8
    assert dirty < 0.7
    ids = [set(part.qid.tolist()) for part in parts.values()]
    assert [len(i) for i in ids] == [40, 20, 80]
    assert len(set.union(*ids)) == 140


@pytest.mark.parametrize("seed", range(3))
def test_robust_beats_convex_where_there_are_outliers(seed):
    """The point of the demonstration, for each of a few seeds."""
    parts, _ = make_documents(60, seed)

    def reached(rho):
        models = [RoBiRank(a, rho=rho).fit(parts["train"]) for a in (1e-4, 1e-3, 1e-2, 1e-1, 1.0)]
        return max(models, key=lambda m: m.score(parts["vali"])).score(parts["test"])

    assert reached("log") > reached("identity") + 0.01


# The second part: who played what


def test_the_saved_latent_model_is_the_one_in_the_table(folder, told):
    model = load_model(folder / "latent.safetensors")
    ids = {"users": model.user_ids_, "items": model.item_ids_}
    train, test = (
        load_interactions(folder / f"plays-{part}.tsv.gz", **ids) for part in ("train", "test")
    )
    reached = evaluate(model, train=train, test=test)
    cells = [f"{reached[metric]:.4f}" for metric in LATENT_METRICS]
    rows = rows_of(told.getvalue())
    assert any(row[:1] == ["RoBiRank"] and row[1:-1] == cells for row in rows)
    # Most popular, counted here.
    plays = np.bincount(train.indices, minlength=train.n_items)
    hits = []
    for user in np.flatnonzero(test.lengths):
        owned = train.matrix[user].indices
        best = int(np.argmax(np.where(np.isin(np.arange(train.n_items), owned), -1, plays)))
        hits.append(best in test.matrix[user].indices)
    assert any(row[:3] == ["Most", "popular", f"{np.mean(hits):.4f}"] for row in rows)
    # The point of this part: near to the truth, far above popularity.
    (planted,) = (row for row in rows if row[:2] == ["Planted", "tastes"])
    (popular,) = (row for row in rows if row[:2] == ["Most", "popular"])
    assert reached["ndcg@20"] > 1.5 * float(popular[4])
    assert reached["ndcg@20"] > 0.6 * float(planted[4])
    assert f"{reached['ndcg@20'] / float(popular[4]):.1f} times" in told.getvalue()


def test_recommendations_stand_beside_what_was_played(folder, told):
    model = load_model(folder / "latent.safetensors")
    ids = {"users": model.user_ids_, "items": model.item_ids_}
    train, test = (
        load_interactions(folder / f"plays-{part}.tsv.gz", **ids) for part in ("train", "test")
    )
    rows = rows_of(told.getvalue())
    users = [row for row in rows if len(row) >= 5 and row[0].isdigit() and row[1] in GENRES]
    assert len(users) == 3
    for row in users:
        user, first = int(row[0]), " ".join(row[3:5])
        best, _ = model.recommend(user, train.matrix[user], N=1)
        assert train.items[best[0]] == first
        hidden = best[0] in test.matrix[user].indices
        assert row[5:] == (["✓", "was", "hidden"] if hidden else [])


def test_songs_are_called_by_their_genre():
    serves = np.zeros((4, len(GENRES)), dtype=np.float32)
    serves[[0, 1, 2], 6] = [0.2, 0.5, 0.1]
    serves[3, 0] = 0.1
    assert song_names(serves) == ["Jazz 2", "Jazz 1", "Jazz 3", "Ambient 1"]

"""The learning-to-rank experiment, from a folder of files to a report."""

import io
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from markdown_it import MarkdownIt
from numpy.testing import assert_allclose
from rich.console import Console

from robirank import RoBiRank, load_dataset, make_ranking, save_letor
from robirank.metrics import ndcg
from robirank_lab.ltr.methods import (
    IDENTITY_FIELD,
    PAPER_FIELD,
    START_FIELD,
    all_methods,
)
from robirank_lab.ltr.runner import run_ltr
from robirank_lab.ltr.tables import write_tables
from robirank_lab.ltr.units import hold_out, load_fold, run_unit, validate
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import Fit, LtrExperiment

QUIET = Console(quiet=True)
QUICK = LtrExperiment(grid_points=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two folds of three parts each."""
    root = tmp_path_factory.mktemp("data") / "Toy"
    data = make_ranking(n_queries=90, n_docs=10, n_features=5, noise=0.4, random_state=0)
    number = np.unique(data.qid, return_inverse=True)[1]
    for fold in range(2):
        for part, name in enumerate(("train", "vali", "test")):
            path = root / f"Fold{fold + 1}" / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            save_letor(path, data.take((number + fold) % 3 == part))
    return root


def test_unit_chooses_on_validation_and_measures_on_test(folder):
    experiment = LtrExperiment(select="ndcg@5")
    fold = load_fold(folder, "Fold1", experiment)
    fit, results = run_unit(all_methods()["RoBiRank"], fold, experiment)
    by_hand = []
    for params in all_methods()["RoBiRank"].grid:
        model = RoBiRank(**params, num_threads=1).fit(
            fold.train.X, fold.train.y, qid=fold.train.qid
        )
        value = ndcg(
            fold.vali.y, model.predict(fold.vali.X), fold.vali.qid, k=5, convention="letor"
        )
        by_hand.append((value, model))
    assert_allclose([g.validation for g in fit.grid], [v for v, _ in by_hand])
    value, model = max(by_hand, key=lambda pair: pair[0])
    assert fit.validation == pytest.approx(value)
    expected = ndcg(
        fold.test.y,
        model.predict(fold.test.X),
        fold.test.qid,
        k=3,
        convention="letor",
        per_query=True,
    )
    got = results.filter((pl.col("metric") == "ndcg") & (pl.col("k") == 3))
    assert got["qid"].to_list() == [str(q) for q in fold.test.queries.ids]
    assert_allclose(got["value"].to_numpy(), expected)


def test_mean_of_several_cut_offs_can_choose(folder):
    experiment = LtrExperiment(select="ndcg@2-4")
    vali = load_fold(folder, "Fold1", experiment).vali
    scores = vali.X[:, 0]
    each = [ndcg(vali.y, scores, vali.qid, k=k, convention="letor") for k in (2, 3, 4)]
    assert validate(scores, vali, experiment) == pytest.approx(np.mean(each))
    with pytest.raises(ValueError, match="count upwards"):
        validate(scores, vali, LtrExperiment(select="ndcg@4-2"))


def test_a_model_that_scores_all_alike_does_not_profit_from_the_order_of_the_file(folder):
    vali = load_fold(folder, "Fold1", QUICK).vali
    best_first = vali.take(np.lexsort((-vali.y, vali.qid)))
    constant = np.zeros(len(vali))
    assert validate(constant, best_first, QUICK) < 0.6
    assert validate(constant, best_first, QUICK) == validate(constant, vali, QUICK)


def test_missing_validation_part_is_held_out_by_query():
    data = make_ranking(n_queries=20, n_docs=5, n_features=2, random_state=0)
    train, vali = hold_out(data, 0.25, seed=0)
    assert (train.n_queries, vali.n_queries) == (15, 5)
    assert not set(train.qid) & set(vali.qid)
    assert (hold_out(data, 0.25, seed=0)[1].qid == vali.qid).all()
    assert set(hold_out(data, 0.25, seed=1)[1].qid) != set(vali.qid)


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """Three methods on two folds; tests that change it copy it."""
    methods = ["RoBiRank", "RankSVM", "Identity"]
    return run_ltr(folder, QUICK, tmp_path_factory.mktemp("run"), methods, console=QUIET, n_jobs=2)


@pytest.fixture
def copy(finished, tmp_path):
    shutil.copytree(finished.path, tmp_path / "copy")
    return RunDirectory.open(tmp_path / "copy")


def test_whole_run(finished):
    assert [fit.unit for fit in finished.fits()] == [
        (m, f"Fold{i}") for m in finished.methods for i in (1, 2)
    ]
    results = finished.results()
    assert results["qid"].n_unique() == 60
    significance = finished.significance()
    assert {c.method for c in significance.comparisons} == {"RankSVM", "Identity"}
    text = (finished.path / "table.md").read_text()
    mean = results.filter(
        (pl.col("method") == "RankSVM") & (pl.col("metric") == "ndcg") & (pl.col("k") == 10)
    )["value"].mean()
    assert f"{mean:.4f}" in text
    assert "alpha = " in text
    assert "C = " in text


def test_a_random_method_is_tested_with_several_seeds(folder, tmp_path):
    experiment = LtrExperiment(seed=3, seeds=2, grid_points=1)
    methods = ["LightGBM rank_xendcg", "RankSVM"]
    run = run_ltr(folder, experiment, tmp_path, methods, console=QUIET)
    assert {f.unit: len(f.by_seed) for f in run.fits()} == {
        (m, f"Fold{i}"): n for m, n in zip(methods, (2, 0), strict=True) for i in (1, 2)
    }
    by_seed = [[], []]
    for name in ("Fold1", "Fold2"):
        fold = load_fold(folder, name, experiment)
        train, test = fold.train, fold.test
        for values, seed in zip(by_seed, (3, 4), strict=True):
            method = all_methods()["LightGBM rank_xendcg"]
            model = method.make(method.grid[0], seed)
            model.fit(train.X, train.y, qid=train.qid, validation=fold.vali)
            rule = {"k": 10, "convention": "letor", "per_query": True}
            values.extend(ndcg(test.y, model.predict(test.X), test.qid, **rule))
    assert by_seed[0] != by_seed[1]
    at_10 = (pl.col("metric") == "ndcg") & (pl.col("k") == 10)
    got = run.results().filter(at_10 & (pl.col("method") == "LightGBM rank_xendcg"))
    assert_allclose(got["value"], np.mean(by_seed, axis=0))
    text = (tmp_path / "table.md").read_text()
    assert "Means over queries and over 2 seeds" in text
    cells = next(x for x in text.splitlines() if x.startswith("| LightGBM")).split(" | ")
    assert cells[-2] == f"{np.mean(by_seed, axis=1).std(ddof=1):.4f}"
    assert next(x for x in text.splitlines() if x.startswith("| RankSVM")).split(" | ")[-2] == "–"
    other = LtrExperiment(seed=3, grid_points=1)
    with pytest.raises(ValueError, match="seeds"):
        run_ltr(folder, other, tmp_path, methods, console=QUIET)


def test_starts_have_a_mean_and_a_spread(folder, tmp_path):
    methods = ["zeros", "random start 0", "random start 1"]
    run = run_ltr(folder, QUICK, tmp_path, methods, console=QUIET)
    results = run.results().filter((pl.col("metric") == "ndcg") & (pl.col("k") == 1))
    each = [results.filter(pl.col("method") == f"random start {i}")["value"].mean() for i in (0, 1)]
    line = next(x for x in (tmp_path / "table.md").read_text().splitlines() if "mean ± sd" in x)
    assert f"| {np.mean(each):.4f} ± {np.std(each, ddof=1):.4f} |" in line


def test_finished_units_are_not_repeated_and_new_methods_join(folder, copy):
    def times():
        return {f.name: f.stat().st_mtime_ns for f in (copy.path / "units").iterdir()}

    before = times()
    run = run_ltr(folder, QUICK, copy.path, ["ListNet", "RoBiRank"], console=QUIET)
    assert {name: times()[name] for name in before} == before
    assert len(times()) == len(before) + 4
    assert run.methods == ["ListNet", "RoBiRank", "RankSVM", "Identity"]
    with pytest.raises(ValueError, match="other experiment: seed=0"):
        run_ltr(folder, LtrExperiment(grid_points=2, seed=5), copy.path, ["MART"], console=QUIET)


def test_a_method_that_fails_is_reported_and_sinks_nothing(folder, tmp_path):
    broken = tmp_path / "Broken"
    for fold in load_dataset(folder):
        for part in ("train", "vali", "test"):
            data = getattr(fold, part)
            path = broken / fold.name / f"{part}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            hopeless = fold.name == "Fold2" and part == "train"
            save_letor(path, data if not hopeless else data.take(data.y == 0))
    run = run_ltr(broken, QUICK, tmp_path / "run", ["RoBiRank"], console=QUIET)
    errors = {fit.case: fit.error for fit in run.fits()}
    assert errors["Fold1"] is None
    assert "no relevant document" in errors["Fold2"]
    assert "failed on 1 of 2 folds" in (tmp_path / "run" / "table.md").read_text()


def test_a_failed_baseline_is_not_named_in_the_comparison(copy):
    copy.append_fit(Fit(method="RoBiRank", case="Fold2", error="it fell over"))
    copy.finish()
    write_tables(copy)
    text = (copy.path / "table.md").read_text()
    assert "failed on 1 of 2 folds: it fell over" in text
    assert "## Differences to RankSVM" in text
    assert "Differences to RoBiRank" not in text
    assert text.count("**") >= 2 * 6  # the best of the methods that have a mean


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"select": "foo@3"}, "foo"),
        ({"select": "ndcg@5-1"}, "count upwards"),
        ({"convention": "foo"}, "Invalid enum value 'foo'"),
        ({"seeds": 0}, "seeds"),
    ],
)
def test_wrong_settings_are_noticed_before_the_work(folder, tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        run_ltr(folder, LtrExperiment(**settings), tmp_path / "run", ["RoBiRank"], console=QUIET)
    assert not (tmp_path / "run").exists()


def test_changed_data_does_not_mix_with_an_old_run(folder, copy, tmp_path):
    shutil.copytree(folder, tmp_path / "Toy")
    with (tmp_path / "Toy" / "Fold1" / "train.txt").open("a") as file:
        file.write("1 qid:9999 1:0.5\n")
    with pytest.raises(ValueError, match="other data: files"):
        run_ltr(tmp_path / "Toy", QUICK, copy.path, ["RankSVM"], console=QUIET)


def test_brackets_in_names_are_only_brackets(folder, tmp_path):
    run = run_ltr(folder, QUICK, tmp_path / "run [/a]", ["RankSVM"])
    assert run.results().height > 0


def test_killed_run_goes_on_where_it_stopped(folder, tmp_path):
    methods = ["RoBiRank", "RankSVM", "Identity"]
    command = [sys.executable, "-m", "robirank", "experiment", "ltr", str(folder)]
    command += ["-o", str(tmp_path), "--methods", ",".join(methods), "--jobs", "1"]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("units/*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = RunDirectory.open(tmp_path).fits()
    assert 0 < len(done) < 6
    told = io.StringIO()
    again = run_ltr(folder, LtrExperiment(), tmp_path, methods, console=Console(file=told))
    assert len(again.fits()) == 6
    assert f"{len(done)} done before" in told.getvalue()


def test_unknown_method_is_named(folder, tmp_path):
    with pytest.raises(ValueError, match="SortNet"):
        run_ltr(folder, QUICK, tmp_path, ["SortNet"], console=QUIET)


def test_the_field_is_the_papers():
    assert PAPER_FIELD[0] == "RoBiRank"
    assert len(PAPER_FIELD) == 14
    assert sum(name.startswith("random start") for name in START_FIELD) == 10
    assert IDENTITY_FIELD == ("RoBiRank", "Identity", "Type-II")
    for name in (*PAPER_FIELD, *START_FIELD, *IDENTITY_FIELD):
        method = all_methods()[name]
        for params in method.grid:
            method.make(params, seed=0)


def test_a_fit_says_why_its_first_document_is_first(folder):
    experiment = LtrExperiment(select="ndcg@5", grid_points=2)
    fold = load_fold(folder, "Fold1", experiment)
    fit, _ = run_unit(all_methods()["RoBiRank"], fold, experiment)
    assert set(fit.why) == {str(q) for q in fold.test.queries.ids}
    model = RoBiRank(**fit.params, num_threads=1).fit(
        fold.train.X, fold.train.y, qid=fold.train.qid
    )
    rows = np.flatnonzero(fold.test.qid == fold.test.qid[0])
    first, second = rows[np.argsort(-model.predict(fold.test.X[rows]))[:2]]
    effects = model.coef_ * (fold.test.X[first] - fold.test.X[second])
    strongest = np.argsort(-np.abs(effects))[:3]
    told = fit.why[str(fold.test.qid[0])]
    assert [name for name, _ in told] == [f"f{j + 1}" for j in strongest]
    assert_allclose([effect for _, effect in told], effects[strongest], atol=1e-4)
    network, _ = run_unit(all_methods()["RankNet"], fold, experiment)
    assert network.why == {}


def test_a_path_is_no_markup_in_the_table(folder, tmp_path):
    hostile = tmp_path / "<img src=x onerror=alert(1)>"
    shutil.copytree(folder, hostile)
    command = f"robirank experiment ltr '{hostile}' `id`"
    output = tmp_path / "run"
    run = run_ltr(hostile, QUICK, output, ["RankSVM"], console=QUIET, command=command)
    run.append_fit(Fit(method="RankSVM", case="Fold2", error="<b>no</b> | a `file`"))
    run.finish()
    write_tables(run)
    text = (tmp_path / "run" / "table.md").read_text()
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    inside = [child for token in tokens for child in token.children or ()]
    assert not [t for t in (*tokens, *inside) if t.type in ("html_inline", "html_block", "image")]
    assert inside[0].content == hostile.name
    shown = [child.content for child in inside]
    assert any(content.endswith(f"Command: {command}") for content in shown)
    assert "failed on 1 of 2 folds: <b>no</b> | a `file`" in shown


@pytest.mark.parametrize(
    ("name", "end"),
    [("Robirank", "got ['Robirank']; did you mean 'RoBiRank'?"), ("x", "got ['x']")],
)
def test_an_unknown_method_is_named_with_the_nearest(folder, tmp_path, name, end):
    with pytest.raises(ValueError, match="methods must be some of RoBiRank, ") as caught:
        run_ltr(folder, QUICK, tmp_path / "run", ["RankSVM", name], console=QUIET)
    assert str(caught.value).endswith(end)
    assert "random start N" in str(caught.value)
    assert "random start 7" not in str(caught.value)

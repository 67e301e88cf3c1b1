"""The latent experiment, from files to a report."""

import json
import re
import time

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace
from numpy.testing import assert_allclose
from rich.console import Console
from typer.testing import CliRunner

import robirank as rr
from robirank import DivergenceError, LatentRoBiRank, evaluate
from robirank.cli.app import app
from robirank_lab.latent import units as latent_module
from robirank_lab.latent.data import load_parts
from robirank_lab.latent.methods import LATENT_FIELD
from robirank_lab.latent.results import learning_curves, lift
from robirank_lab.latent.runner import run_latent
from robirank_lab.latent.units import METRICS, run_unit, search, snapshot_epochs
from robirank_lab.report.data import report_data
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import Fit, GridPoint, LatentExperiment

QUIET = Console(quiet=True)
SGD, WARP, EXACT = "RoBiRank sgd", "WARP", "RoBiRank exact"
WARP_MODEL = rr.WARP()


SMALL = LatentExperiment(factors=4, iterations=8, threads=1, rates=False)
WITH_RATES = LatentExperiment(factors=4, iterations=8, threads=1)
TWO_STARTS = LatentExperiment(factors=4, iterations=8, threads=1, seeds=2)


@pytest.fixture(scope="module")
def parts(latent_folder):
    return load_parts(latent_folder, {}, 0)


# The data


def test_parts_have_the_same_users_and_items(parts):
    assert parts.train.shape == parts.valid.shape == parts.test.shape == parts.learned.shape
    assert parts.left_out == 2
    assert len(parts.learned) == len(parts.train) + len(parts.valid)
    both = parts.train.matrix + parts.valid.matrix
    assert (parts.learned.matrix != both).nnz == 0
    assert parts.train.users == parts.test.users


def test_one_file_is_cut_in_three(latent_folder):
    parts = load_parts(latent_folder / "train.tsv", {}, 0)
    whole = sum(1 for _ in (latent_folder / "train.tsv").open())
    assert len(parts.train) + len(parts.valid) + len(parts.test) == whole
    assert len(parts.test) == pytest.approx(0.2 * whole, rel=0.15)
    assert (parts.train.lengths > 0).all()
    again = load_parts(latent_folder / "train.tsv", {}, 0)
    assert (again.test.matrix != parts.test.matrix).nnz == 0


def test_a_folder_without_a_part(tmp_path):
    (tmp_path / "train.tsv").write_text("a\tb\n")
    with pytest.raises(ValueError, match=r"such as valid.tsv.gz; it has no valid file"):
        load_parts(tmp_path, {}, 0)
    for name in ("valid.tsv", "valid.csv"):
        (tmp_path / name).write_text("a\tb\n")
    with pytest.raises(ValueError, match="it has several valid file"):
        load_parts(tmp_path, {}, 0)


# A unit


def test_the_setting_is_chosen_on_validation_and_measured_on_test(parts):
    fit, results = run_unit(LATENT_FIELD[SGD], parts, SMALL, "seed 0")
    best = max(fit.grid, key=lambda entry: entry.validation)
    assert fit.params == best.params
    options = {"factors": 4, "iterations": 8, "solver": "sgd", "random_state": 0, "num_threads": 1}
    chosen = LatentRoBiRank(**options, **best.params).fit(parts.train, show_progress=False)
    found = evaluate(chosen, train=parts.train, test=parts.valid, k=10)
    assert best.validation == pytest.approx(found["ndcg@10"])
    final = LatentRoBiRank(**options, **best.params).fit(parts.learned, show_progress=False)
    found = evaluate(final, train=parts.learned, test=parts.test)
    last = results.filter(pl.col("epoch") == 8)
    assert dict(zip(last["metric"], last["value"], strict=True)) == pytest.approx(
        {name: found[name] for name in METRICS}
    )
    assert results["epoch"].unique().sort().to_list() == sorted(snapshot_epochs(8))
    assert fit.final_seconds == results["seconds"].max()


def test_the_clock_stands_while_snapshots_are_taken(parts, monkeypatch):
    real, asked = rr.evaluate, []

    def evaluate_slowly(*args, **options):
        asked.append(time.sleep(0.05))
        return real(*args, **options)

    monkeypatch.setattr(latent_module.rr, "evaluate", evaluate_slowly)
    fit, _ = run_unit(LATENT_FIELD[WARP], parts, SMALL, "seed 0")
    assert len(asked) > len(snapshot_epochs(8))
    assert fit.final_seconds < 0.05 * len(snapshot_epochs(8))


def fake_validation(monkeypatch, value_of):
    tried = []

    def attempt(method, params, parts, experiment, seed):
        tried.append(params)
        return GridPoint(params=params, validation=value_of(params), seconds=0.0)

    monkeypatch.setattr(latent_module, "_attempt", attempt)
    return tried


def test_the_search_goes_on_at_the_edge(parts, monkeypatch):
    middle = WARP_MODEL.learning_rate
    tried = fake_validation(monkeypatch, lambda p: p["learning_rate"])
    search(LATENT_FIELD[WARP], parts, WITH_RATES, 0, lambda _: None)
    expected = [middle * 3.0**step for step in (0, -1, 1, 2, 3)]
    assert_allclose([p["learning_rate"] for p in tried][:5], expected, rtol=0.01)
    tried = fake_validation(monkeypatch, lambda p: -abs(np.log(p["learning_rate"] / middle)))
    search(LATENT_FIELD[WARP], parts, WITH_RATES, 0, lambda _: None)
    at = [p["learning_rate"] for p in tried]
    assert_allclose(at, [*expected[:3], middle, middle], rtol=0.01)  # then two penalties


def test_a_quick_search_leaves_the_step_size_alone(parts, monkeypatch):
    tried = fake_validation(monkeypatch, lambda _: 0.5)
    search(LATENT_FIELD[WARP], parts, SMALL, 0, lambda _: None)
    assert len({p["learning_rate"] for p in tried}) == 1
    assert len({p["regularization"] for p in tried}) == 3


def test_then_other_penalties_at_the_best_step_size(parts, monkeypatch):
    rate = WARP_MODEL.learning_rate
    penalty = LATENT_FIELD[WARP].setting(0, 0, factors=4, train=parts.train)["regularization"]

    def value(params):  # best at three times the step size and half of the penalty
        off = np.log(
            [params["learning_rate"] / rate / 3, params["regularization"] * 1.96 / penalty]
        )
        return 1 - np.abs(off).sum() / 100

    tried = fake_validation(monkeypatch, value)
    search(LATENT_FIELD[WARP], parts, WITH_RATES, 0, lambda _: None)
    places = [(p["learning_rate"] / rate, p["regularization"] / penalty) for p in tried]
    expected = [(1, 1), (1 / 3, 1), (3, 1), (9, 1), (3, 1.4**-1), (3, 1.4**-2), (3, 1.4**-3)]
    assert_allclose(places, expected, rtol=0.01)


@pytest.mark.parametrize("name", LATENT_FIELD)
def test_the_search_begins_at_the_defaults(parts, name):
    """A fit without settings is, but for three digits, one with those in the middle."""
    method, data = LATENT_FIELD[name], parts.train
    middle = method.setting(0, 0, factors=4, train=data)
    options = {"factors": 4, "iterations": 2, "random_state": 0, "num_threads": 1}
    models = [method.make(p, **options).fit(data, show_progress=False) for p in ({}, middle)]
    assert_allclose(models[0].item_factors, models[1].item_factors, rtol=0.01, atol=2e-3)


def test_popularity_takes_part(parts):
    """It has nothing to search, and one value, that of the test part."""
    fit, results = run_unit(LATENT_FIELD["Popularity"], parts, WITH_RATES, "seed 0")
    assert fit.params == {}
    assert len(fit.grid) == 1
    model = rr.Popularity().fit(parts.learned)
    found = evaluate(model, train=parts.learned, test=parts.test, k=(1, 10, 20))
    assert dict(results.select("metric", "value").iter_rows()) == {m: found[m] for m in METRICS}
    assert results["epoch"].unique().to_list() == [1]


def test_a_run_can_be_given_a_title(latent_run, latent_folder):
    assert report_data(latent_run)["facts"]["Data"] == latent_folder.name
    asked = (latent_folder, TWO_STARTS, latent_run.path, [SGD, WARP])
    try:
        run = run_latent(*asked, title="Songs", console=QUIET)
        assert report_data(run)["title"] == "Songs"
        assert (run.path / "table.md").read_text().startswith("# Songs\n")
    finally:
        run_latent(*asked, console=QUIET)


def test_a_setting_that_diverges_is_not_chosen(parts, monkeypatch):
    real = latent_module.fit_model

    def fit(model, data, callbacks=()):
        if model.learning_rate > WARP_MODEL.learning_rate / 2:
            raise DivergenceError("too fast")
        real(model, data, callbacks)

    monkeypatch.setattr(latent_module, "fit_model", fit)
    found, _ = run_unit(LATENT_FIELD[WARP], parts, WITH_RATES, "seed 0")
    assert found.params["learning_rate"] < WARP_MODEL.learning_rate / 2
    assert [entry.validation is None for entry in found.grid][:3] == [True, False, False]
    always = lambda *_: (_ for _ in ()).throw(DivergenceError())  # noqa: E731
    monkeypatch.setattr(latent_module, "fit_model", always)
    with pytest.raises(DivergenceError, match="WARP diverged with every setting"):
        run_unit(LATENT_FIELD[WARP], parts, SMALL, "seed 0")


def test_ctrl_c_ends_the_run_and_not_only_a_fit(latent_folder, tmp_path, monkeypatch):
    """A fit takes the first Ctrl-C for a wish to stop and returns; the run must not go on."""
    real = latent_module.LatentMethod.make

    def make(method, params, **options):
        model = real(method, params, **options)
        fit = model.fit

        def broken_off(data, callbacks, **more):
            fit(data, callbacks=(*callbacks, lambda _: True), **more)
            model.stopped_ = "interrupted"

        model.fit = broken_off
        return model

    monkeypatch.setattr(latent_module.LatentMethod, "make", make)
    with pytest.raises(KeyboardInterrupt):
        run_latent(latent_folder, SMALL, tmp_path / "r", [WARP], console=QUIET)
    assert RunDirectory.open(tmp_path / "r").fits() == []


# A run


def test_a_run_has_a_unit_for_each_method_and_start(latent_run):
    fits = latent_run.fits()
    assert [fit.unit for fit in fits] == [(m, f"seed {s}") for m in (SGD, WARP) for s in (0, 1)]
    assert [bool(fit.grid) for fit in fits] == [True, False] * 2  # searched once
    assert fits[0].params == fits[1].params
    results = latent_run.results()
    assert len(results) == 4 * len(snapshot_epochs(8)) * len(METRICS)
    one, other = (results.filter(case=f"seed {s}")["value"] for s in (0, 1))
    assert (one != other).any()


def test_a_finished_run_is_not_repeated_and_others_join(latent_run, latent_folder, monkeypatch):
    calls = []
    real = latent_module.run_unit
    monkeypatch.setattr(
        "robirank_lab.latent.runner.run_unit",
        lambda method, *a, **k: calls.append(method.name) or real(method, *a, **k),
    )
    asked = (latent_run.path, [SGD, WARP])
    run_latent(latent_folder, TWO_STARTS, *asked, console=QUIET)
    assert calls == []
    (latent_run.path / "units" / "WARP__seed 1.json").unlink()
    run_latent(latent_folder, TWO_STARTS, *asked, console=QUIET)
    assert calls == [WARP]
    with pytest.raises(ValueError, match="holds a run with other experiment: factors=4"):
        run_latent(latent_folder, replace(TWO_STARTS, factors=5), *asked, console=QUIET)


def test_a_method_that_fails_sinks_nothing_else(latent_folder, tmp_path, monkeypatch):
    real = latent_module.run_unit

    def sometimes(method, *args, **options):
        if method.name == WARP:
            raise RuntimeError("a | b\nand more")
        return real(method, *args, **options)

    monkeypatch.setattr("robirank_lab.latent.runner.run_unit", sometimes)
    run = run_latent(latent_folder, SMALL, tmp_path / "r", [WARP, SGD], console=QUIET)
    assert [fit.error is None for fit in run.fits()] == [False, True]
    table = (run.path / "table.md").read_text()
    assert "| WARP | failed: RuntimeError: a \\| b |" in table
    shown = report_data(run)
    assert [m["state"] for m in shown["methods"]] == ["failed", "ok"]
    assert any("Failed, and so without a result: WARP" in text for text in shown["findings"])


def test_wrong_settings_are_seen_before_the_work(latent_folder, tmp_path):
    with pytest.raises(ValueError, match=r"methods must be some of RoBiRank .*; got \['x'\]"):
        run_latent(latent_folder, SMALL, tmp_path / "r", ["x"])
    with pytest.raises(ValueError, match=r"select must be one of precision@k, .*; got 'auc'"):
        run_latent(latent_folder, LatentExperiment(select="auc"), tmp_path / "r", [WARP])
    assert not (tmp_path / "r").exists()


def frame(method="A", case="seed 0", **changes):
    columns = {
        "method": method,
        "case": case,
        "epoch": [1, 1, 2, 2],
        "seconds": [1.0, 1.0, 3.0, 3.0],
        "metric": ["precision@1", "precision@10"] * 2,
        "value": [0.1, 0.2, 0.4, 0.3],
        "error": [0.01] * 4,
    }
    return pl.DataFrame(columns | changes)


FIT = Fit(method="A", case="seed 0", params={"learning_rate": 0.1}, validation=0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": ["a", "b", "a", "c"]}, "one value for each epoch and metric"),
        ({"method": "B"}, "results of 'B' on 'seed 0', which run.json does not list"),
        ({"more": 1}, "must have the columns"),
    ],
)
def test_snapshots_that_make_no_sense_are_refused(tmp_path, latent_run, changes, message):
    settings = replace(latent_run.settings, methods=["A"])
    run = RunDirectory.create(tmp_path / "r", settings)
    run.append_fit(FIT, frame())
    with pytest.raises(ValueError, match=re.escape(message)):
        run.append_fit(FIT, frame(**changes))


def test_curves_are_means_over_starts():
    slower = {"seconds": [2.0, 2.0, 5.0, 5.0], "value": [0.2, 0.2, 0.6, 0.3]}
    both = pl.concat([frame(), frame(case="seed 1", **slower)])
    curve = learning_curves(both, ["B", "A"])["A"]
    assert curve.epochs == [1, 2]
    assert_allclose(curve.seconds, [1.5, 4.0])
    assert_allclose(curve.values["precision@1"], [0.15, 0.5])
    assert curve.last("precision@10") == pytest.approx(0.3)
    expected = np.std([[0.1, 0.2], [0.4, 0.6]], axis=1, ddof=1)
    assert_allclose(curve.spread["precision@1"], expected)
    assert_allclose(curve.error["precision@1"], [0.01, 0.01])
    assert curve.seconds_to("precision@1", 0.4) == 4.0
    assert curve.seconds_to("precision@1", 0.7) is None
    named = learning_curves(
        pl.concat([frame(EXACT), frame("Identity sgd", value=[0.1, 0.1, 0.2, 0.1])]),
        [EXACT, "Identity sgd"],
    )
    assert lift(named, "precision@1") == pytest.approx(2.0)
    assert lift({"WARP": curve}, "precision@1") is None


def test_due_epochs():
    for epochs in (1, 2, 5, 64, 1000):
        assert {1, epochs} <= snapshot_epochs(epochs) <= set(range(1, epochs + 1))
    assert len(snapshot_epochs(1000)) <= 25


def test_command_writes_table_and_report(latent_folder, tmp_path):
    out = tmp_path / "run"
    options = ["--factors", "4", "--quick", "--threads", "1", "--methods", "WARP, RoBiRank sgd"]
    command = ["experiment", "latent", str(latent_folder), "-o", str(out), *options, "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert [fit["method"] for fit in told["fits"]] == ["WARP", "RoBiRank sgd"]
    for name in ("table.md", "report.html"):
        assert (out / name).stat().st_size > 500
    run = RunDirectory.open(out)
    curves = learning_curves(run.results(), run.methods)
    table = (out / "table.md").read_text()
    for method in run.methods:
        line = next(x for x in table.splitlines() if x.startswith(f"| {method} |"))
        for metric in METRICS:
            assert f"{curves[method].last(metric):.4f}" in line
    assert run.experiment.iterations == 16

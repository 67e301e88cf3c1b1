"""The latent experiment, from files to a report."""

import dataclasses
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
from robirank.data.records import as_records
from robirank.experiments.latent import units as latent_module
from robirank.experiments.latent.methods import LATENT_FIELD
from robirank.experiments.latent.results import learning_curves, lift
from robirank.experiments.latent.runner import run_latent
from robirank.experiments.latent.units import (
    MEASURES,
    LatentExperiment,
    load_parts,
    run_unit,
    search,
    snapshot_epochs,
)
from robirank.experiments.report.data import report_data
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import GridPoint, LatentFit

QUIET = Console(quiet=True)
SGD, WARP, EXACT = "RoBiRank sgd", "WARP", "RoBiRank exact"
WARP_MODEL = rr.WARP()


@pytest.fixture
def small(latent_folder):
    return LatentExperiment(latent_folder, factors=4, iterations=8, threads=1, rates=False)


# The data


def test_parts_have_the_same_users_and_items(small):
    parts = load_parts(small)
    assert parts.train.shape == parts.valid.shape == parts.test.shape == parts.learned.shape
    assert parts.left_out == 2
    assert len(parts.learned) == len(parts.train) + len(parts.valid)
    both = parts.train.matrix + parts.valid.matrix
    assert (parts.learned.matrix != both).nnz == 0
    assert parts.train.users == parts.test.users


def test_one_file_is_cut_in_three(latent_folder):
    experiment = LatentExperiment(latent_folder / "train.tsv")
    parts = load_parts(experiment)
    whole = sum(1 for _ in (latent_folder / "train.tsv").open())
    assert len(parts.train) + len(parts.valid) + len(parts.test) == whole
    assert len(parts.test) == pytest.approx(0.2 * whole, rel=0.15)
    assert (parts.train.lengths > 0).all()
    again = load_parts(experiment)
    assert (again.test.matrix != parts.test.matrix).nnz == 0


def test_a_folder_without_a_part(tmp_path):
    (tmp_path / "train.tsv").write_text("a\tb\n")
    with pytest.raises(ValueError, match=r"such as valid.tsv.gz; it has no valid file"):
        load_parts(LatentExperiment(tmp_path))
    for name in ("valid.tsv", "valid.csv"):
        (tmp_path / name).write_text("a\tb\n")
    with pytest.raises(ValueError, match="it has several valid file"):
        load_parts(LatentExperiment(tmp_path))


# A unit


def test_the_setting_is_chosen_on_validation_and_measured_on_test(small):
    parts = load_parts(small)
    fit, results = run_unit(LATENT_FIELD[SGD], parts, small, 0)
    best = max(fit.grid, key=lambda entry: entry.validation)
    assert fit.params == best.params
    options = {"factors": 4, "iterations": 8, "solver": "sgd", "random_state": 0, "num_threads": 1}
    chosen = LatentRoBiRank(**options, **best.params).fit(parts.train, show_progress=False)
    found = evaluate(chosen, train=parts.train, test=parts.valid, k=10)
    assert best.validation == pytest.approx(found["ndcg@10"])
    final = LatentRoBiRank(**options, **best.params).fit(parts.learned, show_progress=False)
    found = evaluate(final, train=parts.learned, test=parts.test)
    last = results.filter(pl.col("epoch") == 8)
    assert dict(zip(last["measure"], last["value"], strict=True)) == pytest.approx(
        {name: found[name] for name in MEASURES}
    )
    assert results["epoch"].unique().sort().to_list() == sorted(snapshot_epochs(8))
    assert fit.final_seconds == results["seconds"].max()


def test_the_clock_stands_while_snapshots_are_taken(small, monkeypatch):
    slow = latent_module.evaluate

    def evaluate_slowly(*args, **options):
        time.sleep(0.2)
        return slow(*args, **options)

    monkeypatch.setattr(latent_module, "evaluate", evaluate_slowly)
    fit, _ = run_unit(LATENT_FIELD[WARP], load_parts(small), small, 0)
    assert fit.final_seconds < 0.2 * len(snapshot_epochs(8))


def fake_validation(monkeypatch, value_of):
    tried = []

    def attempt(method, params, parts, experiment, seed):
        tried.append(params)
        return GridPoint(params=params, validation=value_of(params), seconds=0.0)

    monkeypatch.setattr(latent_module, "_attempt", attempt)
    return tried


def with_rates(experiment):
    return dataclasses.replace(experiment, rates=True)


def test_the_search_goes_on_at_the_edge(small, monkeypatch):
    parts = load_parts(small)
    middle = WARP_MODEL.learning_rate
    tried = fake_validation(monkeypatch, lambda p: p["learning_rate"])
    search(LATENT_FIELD[WARP], parts, with_rates(small), 0, lambda _: None)
    expected = [middle * 3.0**step for step in (0, -1, 1, 2, 3)]
    assert_allclose([p["learning_rate"] for p in tried][:5], expected, rtol=0.01)
    tried = fake_validation(monkeypatch, lambda p: -abs(np.log(p["learning_rate"] / middle)))
    search(LATENT_FIELD[WARP], parts, with_rates(small), 0, lambda _: None)
    at = [p["learning_rate"] for p in tried]
    assert_allclose(at, [*expected[:3], middle, middle], rtol=0.01)  # then two penalties


def test_a_quick_search_leaves_the_step_size_alone(small, monkeypatch):
    tried = fake_validation(monkeypatch, lambda _: 0.5)
    search(LATENT_FIELD[WARP], load_parts(small), small, 0, lambda _: None)
    assert len({p["learning_rate"] for p in tried}) == 1
    assert len({p["regularization"] for p in tried}) == 3


def test_then_other_penalties_at_the_best_step_size(small, monkeypatch):
    rate = WARP_MODEL.learning_rate
    records = as_records(load_parts(small).train)
    penalty = LATENT_FIELD[WARP].setting(0, 0, factors=4, records=records)["regularization"]

    def value(params):  # best at three times the step size and half of the penalty
        off = np.log(
            [params["learning_rate"] / rate / 3, params["regularization"] * 1.96 / penalty]
        )
        return 1 - np.abs(off).sum() / 100

    tried = fake_validation(monkeypatch, value)
    experiment = with_rates(small)
    search(LATENT_FIELD[WARP], load_parts(small), experiment, 0, lambda _: None)
    places = [(p["learning_rate"] / rate, p["regularization"] / penalty) for p in tried]
    expected = [(1, 1), (1 / 3, 1), (3, 1), (9, 1), (3, 1.4**-1), (3, 1.4**-2), (3, 1.4**-3)]
    assert_allclose(places, expected, rtol=0.01)


@pytest.mark.parametrize("name", LATENT_FIELD)
def test_the_search_begins_at_the_defaults(small, name):
    """A fit without settings is, but for three digits, one with those in the middle."""
    method, data = LATENT_FIELD[name], load_parts(small).train
    middle = method.setting(0, 0, factors=4, records=as_records(data))
    options = {"factors": 4, "iterations": 2, "random_state": 0, "num_threads": 1}
    models = [method.make(p, **options).fit(data, show_progress=False) for p in ({}, middle)]
    assert_allclose(models[0].item_factors, models[1].item_factors, rtol=0.01, atol=2e-3)


def test_popularity_takes_part(small):
    """It has nothing to search, and one value, that of the test part."""
    parts = load_parts(small)
    fit, results = run_unit(LATENT_FIELD["Popularity"], parts, with_rates(small), 0)
    assert fit.params == {}
    assert len(fit.grid) == 1
    model = rr.Popularity().fit(parts.learned)
    found = evaluate(model, train=parts.learned, test=parts.test, k=(1, 10, 20))
    assert dict(results.select("measure", "value").iter_rows()) == {m: found[m] for m in MEASURES}
    assert results["epoch"].unique().to_list() == [1]


def test_a_run_can_be_given_a_title(latent_run, latent_folder):
    same = LatentExperiment(latent_folder, factors=4, iterations=8, threads=1, seeds=2)
    assert report_data(latent_run)["facts"]["Data"] == latent_folder.name
    try:
        run = run_latent(same, latent_run.path, [SGD, WARP], title="Songs", console=QUIET)
        assert report_data(run)["title"] == "Songs"
        assert (run.path / "table.md").read_text().startswith("# Songs\n")
    finally:
        run_latent(same, latent_run.path, [SGD, WARP], console=QUIET)


def test_a_setting_that_diverges_is_not_chosen(small, monkeypatch):
    parts = load_parts(small)

    def fit(model, data, callbacks):
        if model.learning_rate > WARP_MODEL.learning_rate / 2:
            raise DivergenceError("too fast")
        model.fit(data, show_progress=False, callbacks=callbacks)
        model.stopped_ = ""

    monkeypatch.setattr(latent_module, "_fit", fit)
    found, _ = run_unit(LATENT_FIELD[WARP], parts, with_rates(small), 0)
    assert found.params["learning_rate"] < WARP_MODEL.learning_rate / 2
    assert [entry.validation is None for entry in found.grid][:3] == [True, False, False]
    monkeypatch.setattr(latent_module, "_fit", lambda *_: (_ for _ in ()).throw(DivergenceError()))
    with pytest.raises(DivergenceError, match="WARP diverged with every setting"):
        run_unit(LATENT_FIELD[WARP], parts, small, 0)


def test_ctrl_c_ends_the_run_and_not_only_a_fit(small, tmp_path, monkeypatch):
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
        run_latent(small, tmp_path / "r", [WARP], console=QUIET)
    assert RunDirectory.open(tmp_path / "r").fits() == []


# A run


def test_a_run_has_a_unit_for_each_method_and_start(latent_run):
    fits = latent_run.fits()
    assert [fit.unit for fit in fits] == [(m, s) for m in (SGD, WARP) for s in (0, 1)]
    assert [bool(fit.grid) for fit in fits] == [True, False] * 2  # searched once
    assert fits[0].params == fits[1].params
    results = latent_run.results()
    assert len(results) == 4 * len(snapshot_epochs(8)) * len(MEASURES)
    one, other = (results.filter(seed=s)["value"] for s in (0, 1))
    assert (one != other).any()


def test_a_finished_run_is_not_repeated_and_others_join(latent_run, latent_folder, monkeypatch):
    calls = []
    real = latent_module.run_unit
    monkeypatch.setattr(
        "robirank.experiments.latent.runner.run_unit",
        lambda method, *a, **k: calls.append(method.name) or real(method, *a, **k),
    )
    same = LatentExperiment(latent_folder, factors=4, iterations=8, threads=1, seeds=2)
    run_latent(same, latent_run.path, [SGD, WARP], console=QUIET)
    assert calls == []
    (latent_run.path / "units" / "WARP__1.json").unlink()
    run_latent(same, latent_run.path, [SGD, WARP], console=QUIET)
    assert calls == [WARP]
    other = LatentExperiment(latent_folder, factors=5, iterations=8, threads=1, seeds=2)
    with pytest.raises(ValueError, match=r"holds a run with factors=4, not 5"):
        run_latent(other, latent_run.path, [SGD, WARP], console=QUIET)


def test_a_method_that_fails_sinks_nothing_else(latent_folder, tmp_path, monkeypatch):
    experiment = LatentExperiment(latent_folder, factors=4, iterations=4, threads=1, rates=False)
    real = latent_module.run_unit

    def sometimes(method, *args, **options):
        if method.name == WARP:
            raise RuntimeError("a | b\nand more")
        return real(method, *args, **options)

    monkeypatch.setattr("robirank.experiments.latent.runner.run_unit", sometimes)
    run = run_latent(experiment, tmp_path / "r", [WARP, SGD], console=QUIET)
    assert [fit.error is None for fit in run.fits()] == [False, True]
    table = (run.path / "table.md").read_text()
    assert "| WARP | failed: RuntimeError: a \\| b |" in table
    shown = report_data(run)
    assert [m["state"] for m in shown["methods"]] == ["failed", "ok"]
    assert any("Failed, and so without a result: WARP" in text for text in shown["findings"])


def test_wrong_settings_are_seen_before_the_work(latent_folder, tmp_path):
    with pytest.raises(ValueError, match=r"methods must be some of RoBiRank .*; got \['x'\]"):
        run_latent(LatentExperiment(latent_folder), tmp_path / "r", ["x"])
    with pytest.raises(ValueError, match=r"select must be one of precision@k, .*; got 'auc'"):
        run_latent(LatentExperiment(latent_folder, select="auc"), tmp_path / "r", [WARP])
    assert not (tmp_path / "r").exists()


def frame(method="A", seed=0, **changes):
    columns = {
        "method": method,
        "seed": seed,
        "epoch": [1, 1, 2, 2],
        "seconds": [1.0, 1.0, 3.0, 3.0],
        "measure": ["precision@1", "precision@10"] * 2,
        "value": [0.1, 0.2, 0.4, 0.3],
        "error": [0.01] * 4,
    }
    return pl.DataFrame(columns | changes)


FIT = LatentFit(method="A", seed=0, params={"learning_rate": 0.1}, validation=0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": [0.1, 0.2, 0.4, 1.3]}, "values must be from 0 to 1; got 1.3"),
        ({"seconds": [3.0, 3.0, 1.0, 1.0]}, "seconds must be ≥ 0 and rise"),
        ({"seconds": [1.0, 2.0, 3.0, 3.0]}, "the same for all measures of an epoch"),
        ({"measure": ["a", "b", "a", "c"]}, "one value for each epoch and measure"),
        ({"method": "B"}, "column 'method' must be 'A'; got {'B'}"),
        ({"more": 1}, "must have the columns"),
    ],
)
def test_snapshots_that_make_no_sense_are_refused(tmp_path, latent_run, changes, message):
    settings = replace(latent_run.settings, methods=["A"])
    run = RunDirectory.create(tmp_path / "r", settings)
    run.append_fit(FIT, frame())
    with pytest.raises(ValueError, match=re.escape(message)):
        run.append_fit(FIT, frame(**changes))
    with pytest.raises(ValueError, match="at least one row"):
        run.append_fit(FIT, frame().clear())


def test_curves_are_means_over_starts():
    slower = {"seconds": [2.0, 2.0, 5.0, 5.0], "value": [0.2, 0.2, 0.6, 0.3]}
    both = pl.concat([frame(), frame(seed=1, **slower)])
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


def test_command_writes_table_figures_and_report(latent_folder, tmp_path):
    out = tmp_path / "run"
    options = ["--factors", "4", "--quick", "--threads", "1", "--methods", "WARP, RoBiRank sgd"]
    command = ["experiment", "latent", str(latent_folder), "-o", str(out), *options, "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert [fit["method"] for fit in told["fits"]] == ["WARP", "RoBiRank sgd"]
    for name in ("table.md", "report.html", "figures/precision.png", "figures/precision.svg"):
        assert (out / name).stat().st_size > 500
    run = RunDirectory.open(out)
    curves = learning_curves(run.results(), run.methods)
    table = (out / "table.md").read_text()
    for method in run.methods:
        line = next(x for x in table.splitlines() if x.startswith(f"| {method} |"))
        for measure in MEASURES:
            assert f"{curves[method].last(measure):.4f}" in line
    assert run.settings.iterations == 16

"""The experiment on noise: what is learned from, what is measured, what the run says."""

import json

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

import robirank as rr
from lab.conftest import QUIET, TINY_ATTACK, TINY_NOISE
from robirank.cli.app import app
from robirank_lab.noise import runner
from robirank_lab.noise.data import Lists, Table, find_data, joined, spoiled_fold
from robirank_lab.noise.kinds import LIST_KINDS, spoils_lists
from robirank_lab.noise.methods import LIST_FIELD, TABLE_FIELD, list_methods, table_methods
from robirank_lab.noise.results import NoiseResults
from robirank_lab.noise.runner import run_noise
from robirank_lab.noise.units import generator, honest_values, run_lists
from robirank_lab.report.data import report_data
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import Fit, JudgedData, NoiseCell


def facts(folds):
    return JudgedData(
        name="x", folds=folds, queries=1, documents=1, features=1, labels={}, files={}
    )


def test_seeds_take_the_folds_in_turn():
    asked = replace(TINY_NOISE, kinds=("spam",), shares=(0, 0.2), seed=7, seeds=3)
    cells = asked.cells(facts(["A", "B"]))
    assert [cell.name for cell in cells] == [
        "clean, A, seed 7", "spam 0.2, A, seed 7",
        "clean, B, seed 8", "spam 0.2, B, seed 8",
        "clean, A, seed 9", "spam 0.2, A, seed 9",
    ]  # fmt: skip


def test_one_row_a_run(noise_run):
    frame = noise_run.results()
    assert frame.height == 2 * 2 * (1 + 2 * 2)  # methods, seeds, training sets
    assert frame["metric"].unique().to_list() == ["ndcg@10"]
    assert frame.filter(pl.col("share") == 0)["kind"].unique().to_list() == [""]
    fit = noise_run.fit("Log to Type-II", "winners 0.4, made, seed 1")
    assert fit.params["t"] in (0.0, 0.5, 1.0)
    assert len(fit.grid) == 2


def test_only_the_test_part_is_clean():
    data = Lists(None, 40)
    fold = data.fold("made")
    whole = joined(fold.train, fold.vali)
    assert whole.n_queries == fold.train.n_queries + fold.vali.n_queries
    dirty = LIST_KINDS["winners"].spoil(whole, 1.0, generator("winners", 0))
    spoiled = spoiled_fold(fold, dirty)
    for part, before in (("train", fold.train), ("vali", fold.vali)):
        after = getattr(spoiled, part)
        assert_array_equal(after.X, before.X)
        assert after.n_queries == before.n_queries
        for codes in (before.queries.codes(), after.queries.codes()):
            assert codes[0] == 0
        assert (after.y != before.y).any()
    assert spoiled.test is fold.test


def test_a_model_is_chosen_on_spoiled_lists_and_measured_on_clean_ones():
    data, cell = Lists(None, 40), TINY_NOISE.cells(facts(["made"]))[2]
    assert cell.name == "winners 0.4, made, seed 0"
    fit, values = run_lists(data, list_methods()["RankSVM"], cell, TINY_NOISE)
    fold = data.fold("made")
    whole = LIST_KINDS["winners"].spoil(joined(fold.train, fold.vali), 0.4, generator("winners", 0))
    spoiled = spoiled_fold(fold, whole)
    model = rr.RankSVM(**fit.params).fit(spoiled.train)
    test, vali = fold.test, spoiled.vali
    assert_allclose(
        values["ndcg@10"], rr.metrics.ndcg(test.y, model.predict(test.X), test.qid, k=10)
    )
    reached = rr.metrics.ndcg(vali.y, model.predict(vali.X), vali.qid, k=10)
    assert_allclose(fit.validation, reached, rtol=1e-6)


def test_planted_winners_cost_quality(noise_run):
    results = NoiseResults(noise_run)
    for method in results.methods:
        curve = results.curve("ndcg@10", method, "winners")
        assert curve.mean[0] > curve.mean[-1]


def test_an_area_is_the_mean_height(noise_run):
    results = NoiseResults(noise_run)
    frame = noise_run.results().filter(method="RoBiRank")
    by_share = [
        frame.filter(kind=kind, share=share).sort("seed")["value"].to_numpy()
        for kind, share in (("", 0.0), ("spam", 0.2), ("spam", 0.4))
    ]
    expected = (by_share[0] + 2 * by_share[1] + by_share[2]) / 4
    assert_allclose(results.areas("ndcg@10", "RoBiRank", "spam"), expected)
    assert results.kept("ndcg@10", "RoBiRank", "spam") == pytest.approx(
        by_share[2].mean() / by_share[0].mean()
    )


def test_bands_leave_out_the_level_of_a_sample(noise_run):
    """What is added to all values of a seed changes no band."""
    results, shifted = NoiseResults(noise_run), NoiseResults(noise_run)
    shifted._values = {key: v + np.array([0.3, 0.0]) for key, v in shifted._values.items()}
    for method in results.methods:
        one, other = (r.curve("ndcg@10", method, "spam") for r in (results, shifted))
        assert_allclose(other.half, one.half)
        assert_allclose(other.mean, one.mean + 0.15)
    centred = []
    for method in results.methods:
        values = results._values["ndcg@10", method, "spam"]
        centred.append(values)
    centred = np.array(centred) - np.mean(centred, axis=(0, 1)) + np.mean(centred)
    sd = centred[0].std(axis=1, ddof=1)
    expected = 12.706 * sd / np.sqrt(2) * np.sqrt(6 / 5)  # t(0.975; 1); six cells
    assert_allclose(results.curve("ndcg@10", "RoBiRank", "spam").half, expected, rtol=1e-3)


def test_comparisons_are_paired_and_adjusted(noise_run):
    results = NoiseResults(noise_run)
    (found,) = results.comparisons("ndcg@10", "winners")
    assert (found.method, found.baseline) == ("Log to Type-II", "RoBiRank")
    areas = [results.areas("ndcg@10", m, "winners") for m in (found.method, found.baseline)]
    assert found.difference == pytest.approx(np.mean(areas[0] - areas[1]))
    assert found.low <= found.difference <= found.high


def test_folds_are_the_samples_where_there_are_several(noise_run, tmp_path):
    experiment = replace(TINY_NOISE, seeds=3)
    changes = {"methods": ["RoBiRank"], "data": facts(["A", "B"]), "experiment": experiment}
    run = RunDirectory.create(tmp_path / "run", replace(noise_run.settings, **changes))
    for cell in experiment.cells(run.data):
        frame = pl.DataFrame(
            {
                "method": "RoBiRank", "case": cell.name, "kind": cell.kind,
                "share": cell.share, "seed": cell.seed, "metric": "ndcg@10",
                "value": {0: 0.1, 1: 0.5, 2: 0.3}[cell.seed],
            }
        )  # fmt: skip
        run.append_fit(Fit(method="RoBiRank", case=cell.name), frame)
    assert_allclose(NoiseResults(run).areas("ndcg@10", "RoBiRank", "spam"), [0.2, 0.5])


def test_an_attack_raises_its_item(attack_run):
    results = NoiseResults(attack_run)
    assert results.metrics == ["ndcg@10", "pushed", "pushed_above"]
    for method in ("RoBiRank exact", "Popularity"):
        curve = results.curve("pushed_above", method, "shilling")
        assert curve.mean[1] > curve.mean[0] + 0.2
        assert results.curve("pushed_above", method, "bots") is None


def test_honest_values_by_hand():
    """Three users of four items; the attacker behind them does not count."""
    import scipy.sparse as sp

    class Model:
        user_factors = np.array([[1.0], [1.0], [1.0], [9.0]], np.float32)
        item_factors = np.array([[4.0], [3.0], [2.0], [1.0]], np.float32)

    clean = sp.csr_matrix(np.array([[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]], np.float32))
    test = sp.csr_matrix(np.array([[0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]], np.float32))
    values = honest_values(Model, clean, test, k=1, pushed=2)
    # The first item that is left is the test item of the first user, not of the second.
    assert values["ndcg@1"] == 0.5
    # Item 2 has one item above it of two for the first user, two of three for the third.
    assert values["pushed"] == 0.0
    assert values["pushed_above"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert honest_values(Model, clean, test, k=2, pushed=2)["pushed"] == 0.5
    Model.item_factors = np.ones((4, 1), np.float32)  # ties count by half
    assert honest_values(Model, clean, test, k=1, pushed=2)["pushed_above"] == 0.5


def test_a_run_goes_on_where_it_stopped(noise_run, monkeypatch):
    monkeypatch.setattr(runner, "work", None)
    again = run_noise(
        Lists(None, 40), TINY_NOISE, noise_run.path, noise_run.methods, n_jobs=1, console=QUIET
    )
    assert again.todo() == []


def test_the_table_says_what_was_spoiled(noise_run, attack_run):
    text = (noise_run.path / "table.md").read_text("utf-8")
    assert LIST_KINDS["winners"].words in text
    assert (
        "| NDCG@10 | s = 0 | s = 0.2 | s = 0.4 | area | kept | area less RoBiRank's | p |" in text
    )
    assert "paired over seeds" in text
    assert "who are shown the pushed item" in (attack_run.path / "table.md").read_text("utf-8")


def test_the_report_has_a_curve_for_every_kind_and_method(attack_run, tmp_path):
    page = report_data(attack_run)
    assert page["sections"] == ["noise", "areas"]
    assert [(c["kind"], c["metric"]) for c in page["curves"]] == [
        ("bots", "ndcg@10"), ("shilling", "ndcg@10"),
        ("shilling", "pushed"), ("shilling", "pushed_above"),
    ]  # fmt: skip
    assert len(page["curves"][0]["methods"]) == 2
    assert page["findings"][0].startswith("bots: RoBiRank exact has the largest area of 2 methods")
    empty = RunDirectory.create(tmp_path / "run", attack_run.settings)
    assert report_data(empty)["findings"] == [
        "This run is not finished: 12 fits are still to be done."
    ]


def test_a_kind_is_one_function():
    @spoils_lists("constant", "all grades are 1")
    def level(data, share, rng):
        return rr.RankingData(data.X, np.ones(len(data)), data.qid)

    try:
        cell = NoiseCell("constant", 0.5, "made", 0)
        fit, _ = run_lists(Lists(None, 40), list_methods()["RankSVM"], cell, TINY_NOISE)
        assert fit.validation == 1.0
    finally:
        del LIST_KINDS["constant"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kinds": ("winers",)}, "kinds must be some of winners, .*; did you mean 'winners'"),
        ({"shares": (0.2, 0.4)}, r"shares must begin with 0 and rise, .* got \[0.2, 0.4\]"),
        ({"shares": (0, 0.4, 0.2)}, "shares must begin with 0 and rise"),
        ({"shares": (0, 1.0)}, r"Expected `float` < 1.0"),
        ({"seeds": 0}, r"Expected `int` >= 1 - at `\$\.seeds`"),
    ],
)
def test_bad_settings(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        run_noise(Lists(None, 40), replace(TINY_NOISE, **change), tmp_path, ["RankSVM"])


def test_kinds_of_tables_are_not_those_of_lists(tmp_path):
    with pytest.raises(rr.ArgumentError, match="kinds must be some of random, bots, shilling"):
        run_noise(Table(None, {}), TINY_NOISE, tmp_path, ["WARP"], console=QUIET)
    with pytest.raises(rr.ArgumentError, match="methods must be some of"):
        run_noise(Table(None, {}), TINY_ATTACK, tmp_path, ["RankSVM"], console=QUIET)


def test_every_method_of_the_field_is_known():
    assert set(LIST_FIELD) <= set(list_methods())
    assert set(TABLE_FIELD) <= set(table_methods())


def test_data_are_told_apart(tmp_path, latent_folder):
    data = Lists(None, 6).fold("made")
    folder = tmp_path / "letor"
    folder.mkdir()
    for name, part in (("train", data.train), ("vali", data.vali), ("test", data.test)):
        rr.save_letor(folder / f"{name}.txt.gz", part)
    assert find_data(folder, {}) == Lists(folder)
    assert find_data(latent_folder, {}) == Table(latent_folder, {})
    learned, test = Table(latent_folder, {}).matrices()
    assert learned.shape == test.shape
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        find_data(tmp_path / "nothing", {})


def test_a_table_without_a_valid_file(tmp_path, latent_folder):
    for part in ("train", "test"):
        (tmp_path / f"{part}.tsv").write_text((latent_folder / f"{part}.tsv").read_text())
    learned, test = Table(tmp_path, {}).matrices()
    assert learned.shape == test.shape
    assert learned.nnz < Table(latent_folder, {}).matrices()[0].nnz


def test_the_command(tmp_path):
    asked = ["experiment", "noise", "--quick", "--kinds", "winners", "--methods", "RankSVM"]
    answer = CliRunner().invoke(app, [*asked, "-o", str(tmp_path / "run"), "--json"])
    assert answer.exit_code == 0, answer.stderr
    cases = [fit["case"] for fit in json.loads(answer.stdout)["fits"]]
    assert cases == [
        f"{noise}, made, seed {seed}" for seed in (0, 1) for noise in ("clean", "winners 0.4")
    ]
    assert (tmp_path / "run" / "report.html").is_file()
    bad = CliRunner().invoke(app, ["experiment", "noise", "--shares", "0,half"])
    assert bad.exit_code == 2
    assert "0,half" in bad.output

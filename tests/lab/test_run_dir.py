"""The folder of a run: nothing half there, nothing mixed up, nothing done twice."""

import json
import re

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from lab.synthetic_run import facts, failed, fit, frame, settings
from robirank_lab import run_dir
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import Significance
from robirank_lab.statistics import Comparison

A, B = "RoBiRank", "RankSVM"
VALUES = {"q1": [0.5, 0.75, 0.6, 0.4], "q2": [0.0, 0.25, 0.2, 0.1]}


def small_settings(methods=(A, B), **changes):
    given = {"k_max": 2, "data": facts(name="toy", folds=["Fold1", "Fold2"])}
    return settings(methods, **given | changes)


def unit(method, fold, values=VALUES):
    return fit(method, fold), frame(method, fold, values, k_max=2)


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(tmp_path / "run", small_settings())


@pytest.fixture
def complete(run):
    for method in (A, B):
        for fold in ("Fold1", "Fold2"):
            run.append_fit(*unit(method, fold))
    return run


def test_what_is_written_is_read_again(complete):
    again = RunDirectory.open(complete.path)
    assert again.settings == small_settings()
    assert [(f.method, f.case) for f in again.fits()] == [
        (A, "Fold1"), (A, "Fold2"), (B, "Fold1"), (B, "Fold2"),
    ]  # fmt: skip
    assert again.fit(A, "Fold1") == fit(A, "Fold1")
    one = again.results().filter(pl.col("method") == B, pl.col("case") == "Fold2")
    assert one.sort("qid", "metric", "k").equals(
        frame(B, "Fold2", VALUES, 2).cast({"k": pl.Int32}).sort("qid", "metric", "k")
    )


def test_the_finished_file_holds_all_units_with_the_documented_types(complete):
    units = complete.results()
    complete.finish()
    written = pl.read_parquet(complete.path / "results.parquet")
    assert written.equals(units)
    assert written.equals(complete.results())
    assert dict(written.schema) == {
        "method": pl.String, "case": pl.String, "qid": pl.String,
        "metric": pl.String, "k": pl.Int32, "value": pl.Float64,
    }  # fmt: skip
    assert written.height == 2 * 2 * 2 * 4


def test_each_unit_is_a_pair_of_files(run):
    run.append_fit(*unit(A, "Fold1"))
    names = sorted(p.name for p in (run.path / "units").iterdir())
    assert names == ["RoBiRank__Fold1.json", "RoBiRank__Fold1.parquet"]


@pytest.mark.parametrize("last_file", ["parquet", "json"])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_unit_that_was_being_written_does_not_count(run, monkeypatch, last_file, replaced):
    """Killed before the given file was written, the unit is to be done again."""
    run.append_fit(*unit(B, "Fold1"))
    if replaced:
        run.append_fit(*unit(A, "Fold1"))

    def killed(*_):
        raise KeyboardInterrupt

    name = "write_whole" if last_file == "parquet" else "write_json"
    other = unit(A, "Fold1", {q: [0.9] * 4 for q in VALUES})
    monkeypatch.setattr(run_dir, name, killed)
    with pytest.raises(KeyboardInterrupt):
        run.append_fit(*other)
    monkeypatch.undo()
    again = RunDirectory.open(run.path)
    assert again.fit(A, "Fold1") is None
    assert again.missing() == [(A, "Fold1"), (A, "Fold2"), (B, "Fold2")]
    assert again.results()["method"].unique().to_list() == [B]
    again.append_fit(*unit(A, "Fold1"))
    assert (A, "Fold1") not in again.missing()


def test_a_run_is_taken_up_again(run):
    run.append_fit(*unit(A, "Fold1"))
    again = RunDirectory.create(run.path, small_settings(created="later", cores=64))
    assert again.fit(A, "Fold1") is not None
    assert again.fit(B, "Fold1") is None


def test_more_methods_join_a_run(complete):
    complete.finish()
    more = RunDirectory.create(complete.path, small_settings([A, "MART"], command="new"))
    assert more.methods == [A, "MART", B]
    assert more.settings.command == small_settings().command  # it runs two of the three
    assert more.missing() == [("MART", "Fold1"), ("MART", "Fold2")]
    all_of_them = RunDirectory.create(complete.path, small_settings([B, "MART", A], command="all"))
    assert all_of_them.settings.command == "all"


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"convention": "standard"}, {"select": "map"}, {"versions": {"robirank": "2"}}],
    ids=str,
)
def test_runs_with_other_settings_do_not_mix(run, change):
    (name,) = change
    with pytest.raises(ValueError, match=rf"holds a run with other (experiment: {name}=|versions)"):
        RunDirectory.create(run.path, small_settings(**change))


def test_runs_on_other_data_do_not_mix(run):
    other = replace(run.settings.data, queries=run.settings.data.queries + 1)
    with pytest.raises(ValueError, match="holds a run with other data: queries; choose another"):
        RunDirectory.create(run.path, replace(small_settings(), data=other))


def test_runs_of_another_kind_do_not_mix(run, latent_run):
    with pytest.raises(ValueError, match=r"holds a run with other experiment: .*kind='ltr'"):
        RunDirectory.create(run.path, latent_run.settings)


def test_a_new_unit_outdates_what_was_made_of_the_old_ones(complete):
    complete.finish()
    complete.write_significance(Significance(comparisons=[]))
    complete.append_fit(*unit(A, "Fold2", {q: [1.0] * 4 for q in VALUES}))
    assert not (complete.path / "results.parquet").exists()
    assert complete.significance() is None
    part = complete.results().filter(pl.col("method") == A, pl.col("case") == "Fold2")
    assert set(part["value"]) == {1.0}


def test_failed_fits_are_kept_with_their_message(complete):
    complete.append_fit(failed(B, "Fold2", "out of memory"))
    assert complete.fit(B, "Fold2").error == "out of memory"
    assert complete.results().filter(pl.col("method") == B)["case"].unique().to_list() == ["Fold1"]
    complete.finish()  # a failure is an outcome, not a gap
    assert (complete.path / "results.parquet").is_file()


def test_finish_says_what_is_missing(run):
    with pytest.raises(ValueError, match="missing: RoBiRank on Fold1, RankSVM on Fold1, RoBiRank"):
        run.finish()
    run.append_fit(*unit(A, "Fold1"))
    run.append_fit(*unit(A, "Fold2"))
    run.append_fit(failed(B, "Fold2", "no"))
    assert run.todo() == [(B, "Fold1"), (B, "Fold2")]  # what failed is tried again
    with pytest.raises(ValueError, match=r"not complete; missing: RankSVM on Fold1$"):
        run.finish()
    assert not (run.path / "results.parquet").exists()


def test_a_lost_file_is_named(complete):
    (complete.path / "units" / "RankSVM__Fold2.parquet").unlink()
    with pytest.raises(ValueError, match=r"RankSVM__Fold2\.parquet is missing"):
        complete.results()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: pl.concat([f, f.head(1)]), "one value for each qid and metric"),
        (lambda f: f.head(-1), "one value for each qid and metric"),
        (lambda f: f.with_columns(method=pl.lit("MART")), "results of 'MART' on 'Fold1'"),
        (lambda f: f.with_columns(case=pl.lit("Fold7")), "'Fold7', which run.json does not list"),
        (lambda f: f.with_columns(value=pl.lit("high")), "wrong type"),
        (lambda f: f.drop("k"), "must have the columns"),
        (lambda f: f.drop("case"), "must have the columns"),
        (lambda f: f.with_columns(qid=pl.lit(None, pl.String)), "no value .* column 'qid'"),
        (lambda f: f.with_columns(value=pl.lit(None, pl.Float64)), "no value .* column 'value'"),
    ],
)
def test_results_that_are_not_whole_are_refused(run, spoil, message):
    good_fit, good = unit(A, "Fold1")
    with pytest.raises(ValueError, match=message):
        run.append_fit(good_fit, spoil(good))
    assert run.fits() == []
    assert list((run.path / "units").iterdir()) == []


def test_a_results_file_from_elsewhere_is_checked_too(complete):
    complete.finish()
    path = complete.path / "results.parquet"
    pl.read_parquet(path).head(-1).write_parquet(path)
    with pytest.raises(ValueError, match=r"results\.parquet: RankSVM, Fold2 must have one value"):
        complete.results()


def test_queries_that_the_convention_leaves_out_are_not_numbers(run):
    nan = float("nan")
    run.append_fit(*unit(A, "Fold1", {"q1": [nan] * 4, "q2": [0.5] * 4}))
    assert run.results()["value"].is_nan().sum() == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "MART"}, "MART on Fold1 is no unit of this run"),
        ({"method": ""}, r"Fit: Expected `str` of length >= 1 - at `\$\.method`"),
        ({"case": 1}, r"Expected `str`, got `int` - at `\$\.case`"),
        ({"params": None}, r"Expected `object`, got `null` - at `\$\.params`"),
        ({"search_seconds": -1}, r"Expected `float` >= 0.0 - at `\$\.search_seconds`"),
        ({"final_seconds": float("nan")}, r"Expected `float`, got `null` - at `\$\.final_seconds"),
        ({"validation": "high"}, r"got `str` - at `\$\.validation`"),
        ({"grid": [{"validation": 0.5}]}, r"missing required field `params` - at `\$\.grid\[0\]`"),
    ],
)
def test_fits_that_make_no_sense_are_refused(run, changes, message):
    with pytest.raises(ValueError, match=message):
        run.append_fit(fit(**{"method": A, "fold": "Fold1", **changes}), unit(A, "Fold1")[1])
    assert list((run.path / "units").iterdir()) == []


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, r"run\.json has format 2; this version reads 3"),
        ({"format": True}, r"run\.json has format True; this version reads 3"),
        ({"experiment": {"kind": "search"}}, r"Invalid value 'search' - at `\$\.experiment\.kind`"),
        ({"methods": []}, r"`array` of length >= 1 - at `\$\.methods`"),
        ({"methods": ["", A]}, r"`str` of length >= 1 - at `\$\.methods\[0\]`"),
        ({"experiment": {"kind": "ltr", "k_max": 0}}, r"`int` >= 1 - at `\$\.experiment\.k_max`"),
        (
            {"experiment": {"kind": "ltr", "k_max": True}},
            r"got `bool` - at `\$\.experiment\.k_max`",
        ),
        ({"cores": "two"}, r"run\.json: Expected `int`, got `str` - at `\$\.cores`"),
        (
            {"data": {"kind": "judged", "name": "x"}},
            r"missing required field `folds` - at `\$\.data`",
        ),
        ({"weather": "fine"}, "unknown field `weather`"),
    ],
)
def test_settings_that_make_no_sense_are_refused(run, changes, message):
    file = run.path / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(ValueError, match=message):
        RunDirectory.open(run.path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"\0" * 64, DEEP.encode(), b'{"format": NaN}', b'{"format": 3}'],
    ids=["empty", "cut off", "not UTF-8", "zeros", "deep", "NaN", "bare"],
)
@pytest.mark.parametrize("name", ["run.json", "significance.json", "units/RankSVM__Fold2.json"])
def test_damaged_files_are_named(complete, name, content):
    (complete.path / name).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(str(complete.path / name))):  # noqa: PT012
        run = RunDirectory.open(complete.path)
        run.significance()
        run.fits()


@pytest.mark.parametrize("content", [b"", b"PAR1" + b"\0" * 64, b"method,fold\n"])
@pytest.mark.parametrize("name", ["results.parquet", "units/RankSVM__Fold2.parquet"])
def test_damaged_tables_are_named(complete, name, content):
    (complete.path / name).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(f"{complete.path / name} is not a Parquet")):
        complete.results()


def test_each_kind_of_run_has_cases_of_its_own(latent_run, scaling_run):
    assert latent_run.fit("WARP", "seed 1").unit == ("WARP", "seed 1")
    assert latent_run.results()["case"].unique(maintain_order=True).to_list() == [
        "seed 0",
        "seed 1",
    ]
    assert scaling_run.fit("RoBiRank 2", "").params == {
        "engine": "threads", "workers": 2, "parts": 2,
    }  # fmt: skip


def test_other_folders_are_no_runs(tmp_path):
    with pytest.raises(FileNotFoundError, match="no run directory"):
        RunDirectory.open(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"has no run\.json"):
        RunDirectory.open(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        RunDirectory.open(tmp_path)


@pytest.mark.parametrize("name", ["results.parquet", "letter.txt", "units/a"])
def test_a_folder_of_others_is_refused(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("of a stranger")
    with pytest.raises(FileExistsError, match=r"no run\.json, so it belongs to something else"):
        RunDirectory.create(tmp_path, small_settings([A]))
    assert (tmp_path / name).read_text() == "of a stranger"
    assert not (tmp_path / "run.json").exists()


def test_a_run_json_of_others_is_refused(tmp_path):
    (tmp_path / "run.json").write_text('["0.2.0", {"class": "LatentRoBiRank"}]')
    with pytest.raises(ValueError, match=r"run\.json: Expected `object`, got `array`"):
        RunDirectory.create(tmp_path, small_settings([A]))
    assert (tmp_path / "run.json").read_text().startswith("[")


def test_fits_are_in_the_order_of_the_folds(tmp_path):
    folds = ["Fold1", "Fold9", "Fold10"]
    run = RunDirectory.create(tmp_path, small_settings([A], data=facts(folds=folds)))
    for fold in reversed(folds):
        run.append_fit(*unit(A, fold))
    assert [f.case for f in run.fits()] == folds


def test_significance_round_trip(run):
    comparison = Comparison("ndcg@2", A, B, -0.1, -0.2, 0.0, 0.04, 0.08)
    assert run.significance() is None
    run.write_significance(Significance(comparisons=[comparison]))
    assert run.significance() == Significance(comparisons=[comparison])
    with pytest.raises(ValueError, match=r"got `null` - at `\$\.comparisons\[0\]\.p`"):
        run.write_significance(Significance(comparisons=[replace(comparison, p=float("nan"))]))


names = st.text("aA_%/.é", min_size=1, max_size=4)  # what could be mixed up


@example("a__b", "c", "a", "b__c")
@example("a_", "b", "a", "_b")
@example("a%5F", "b", "a_", "b")
@given(names, names, names, names)
def test_units_never_share_a_file_whatever_their_names(
    tmp_path_factory, fold, method, fold2, method2
):
    run = RunDirectory(tmp_path_factory.getbasetemp(), small_settings())
    first, second = (run._file(unit, ".json") for unit in ((method, fold), (method2, fold2)))
    assert (first == second) == ((method, fold) == (method2, fold2))
    assert first.parent == run.path / "units"


@pytest.mark.parametrize("name", ["../../etc", "a/b", "a__b", "_", ".", "%", "λ-MART (7 leaves)"])
def test_odd_names_are_names(tmp_path, name):
    run = RunDirectory.create(tmp_path / "run", small_settings([name], data=facts(folds=[name])))
    run.append_fit(*unit(name, name))
    assert run.fits()[0].method == name
    assert run.results()["case"].unique().to_list() == [name]
    outside = [p for p in tmp_path.rglob("*") if run.path not in p.parents and p != run.path]
    assert outside == []

"""The report of a run: right numbers, and one file that asks for nothing else."""

import base64
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib import resources

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace
from numpy.testing import assert_allclose
from scipy import stats

from lab.synthetic_run import HOSTILE, METHODS, facts, failed, fit, frame, settings
from robirank_lab.ltr.results import mean_interval
from robirank_lab.report import write as report_module
from robirank_lab.report.data import report_data
from robirank_lab.report.ltr import MISSING, lead_metric
from robirank_lab.report.write import write_report
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import Significance
from robirank_lab.statistics import Comparison


@pytest.fixture
def run(synthetic_run):
    return synthetic_run


@pytest.fixture
def tiny(tmp_path):
    """Two methods, three queries on two folds, cut-offs 1 and 2: numbers to work out by hand."""
    data = facts(name="toy", folds=["Fold1", "Fold2"])
    run = RunDirectory.create(tmp_path / "tiny", settings(["RoBiRank", "B"], k_max=2, data=data))
    rows = {
        ("RoBiRank", "Fold1"): {"x": [0.5, 0.6, 0.7, 0.8], "y": [0.1, 0.2, 0.3, 0.4]},
        ("RoBiRank", "Fold2"): {"x": [0.3, 0.4, 0.2, 0.0]},
        ("B", "Fold1"): {"x": [0.4, 0.6, 0.7, 0.8], "y": [0.1, 0.5, 0.3, 0.4]},
        ("B", "Fold2"): {"x": [0.1, 0.1, 0.2, 0.0]},
    }
    for (method, fold), values in rows.items():
        run.append_fit(fit(method, fold), frame(method, fold, values, 2))
    return run


class Elements(HTMLParser):
    """Collects the elements of a page as a browser's parser would see them."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


# The numbers


def test_means_are_over_all_queries_of_all_folds(tiny):
    data = report_data(tiny)
    assert data["metrics"] == ["ndcg@1", "ndcg@2", "mean_ndcg", "map"]
    assert data["means"][0] == {"ndcg@1": 0.3, "ndcg@2": 0.4, "mean_ndcg": 0.4, "map": 0.4}
    assert data["means"][1]["ndcg@2"] == 0.4
    everything, fold1, fold2 = data["scopes"]
    assert everything["curves"][1]["mean"] == [0.2, 0.4]
    assert_allclose(everything["curves"][1]["difference"], [-0.1, 0.0], atol=1e-9)
    assert (fold1["name"], fold1["queries"], fold2["queries"]) == ("Fold1", 2, 1)
    assert fold1["curves"][1]["mean"] == [0.25, 0.55]
    assert fold2["curves"][1]["half"] == [None, None]  # one query has no interval


def test_the_same_query_id_in_two_folds_is_two_queries(tiny):
    data = report_data(tiny)
    assert data["queries"] == {"id": ["x", "y", "x"], "fold": [0, 0, 1]}


def test_several_seeds_are_among_the_facts(tmp_path, tiny):
    several = RunDirectory.create(tmp_path / "several", settings(["A"], seeds=3))
    assert report_data(several)["facts"]["Seeds"] == "3"
    assert "Seeds" not in report_data(tiny)["facts"]


def test_values_travel_with_four_digits(run):
    data = report_data(run)
    packed = np.frombuffer(base64.b64decode(data["values"]), dtype="<u2")
    values = packed.reshape(len(METHODS), len(data["metrics"]), 106) / 10_000
    assert_allclose(values.mean(axis=2)[:, 9], [m["ndcg@10"] for m in data["means"]], atol=5e-5)
    frame = run.results().filter(
        pl.col("method") == "MART", pl.col("metric") == "ndcg", pl.col("k") == 3
    )
    expected = dict(zip(frame["qid"], frame["value"], strict=True))
    mart = list(METHODS).index("MART")
    shown = dict(zip(data["queries"]["id"], values[mart, 2], strict=True))
    assert set(shown) == set(expected)
    assert all(abs(shown[q] - expected[q]) <= 5.1e-5 for q in shown)


def test_intervals_are_students():
    values = np.random.default_rng(0).random((3, 17))
    mean, half = mean_interval(values)
    for row, m, h in zip(values, mean, half, strict=True):
        low, high = stats.t.interval(0.95, 16, loc=row.mean(), scale=stats.sem(row))
        assert_allclose([m - h, m + h], [low, high])


def test_intervals_leave_out_what_is_no_number():
    values = np.array([[0.2, np.nan, 0.6, 0.4]])
    assert_allclose(mean_interval(values), mean_interval(values[:, [0, 2, 3]]))


def test_queries_without_a_value_are_marked(tmp_path):
    run = RunDirectory.create(tmp_path, settings(["A"], k_max=1, data=facts(folds=["Fold1"])))
    nan = float("nan")
    run.append_fit(fit("A", "Fold1"), frame("A", "Fold1", {"1": [nan] * 3, "2": [0.5] * 3}, 1))
    data = report_data(run)
    assert data["means"][0]["ndcg@1"] == 0.5
    packed = np.frombuffer(base64.b64decode(data["values"]), dtype="<u2")
    assert packed.tolist() == [MISSING, 5000] * 3


def test_findings_say_who_leads_and_what_is_certain(run):
    data = report_data(run)
    means = {
        m["name"]: mean["ndcg@10"] for m, mean in zip(data["methods"], data["means"], strict=True)
    }
    first, second = sorted(means, key=means.get, reverse=True)[:2]
    assert (first, second) == ("Coordinate ascent", "RoBiRank")
    leads, certain = data["findings"]
    value = f"{means[first]:.4f}".removeprefix("0")
    assert leads.startswith(
        f"Coordinate ascent has the highest mean NDCG@10 of 12 methods, {value}"
    )
    assert "RoBiRank has place 2 with" in leads
    against = [c for c in run.significance().comparisons if c.metric == "ndcg@10"]
    behind = sum(c.p_adjusted < 0.05 and c.difference < 0 for c in against)
    assert f"ahead of {behind} methods and behind none" in certain
    assert f"{11 - behind} methods cannot be told apart" in certain


COMPARISON = Comparison("ndcg@1", "RoBiRank", "B", -0.1, -0.15, -0.05, 0.01, 0.01)


def test_the_sign_of_a_difference_decides_who_is_ahead(tiny):
    tiny.write_significance(Significance(comparisons=[COMPARISON]))
    first = replace(tiny.settings, experiment=replace(tiny.experiment, select="ndcg@1"))
    by_first = dataclasses.replace(tiny, settings=first)
    assert "RoBiRank is ahead of one method and behind none" in report_data(by_first)["findings"][1]


@pytest.mark.parametrize(
    ("select", "lead"), [("ndcg@5", "ndcg@5"), ("map", "map"), ("ndcg@1-10", "ndcg@10")]
)
def test_the_measure_that_chose_the_settings_leads_where_it_is_shown(select, lead):
    assert lead_metric(settings(select=select).experiment) == lead


def test_a_method_that_failed_on_a_fold_has_no_mean(tiny):
    tiny.append_fit(failed("B", "Fold2", "diverged"))
    data = report_data(tiny)
    assert data["methods"][1] == {"name": "B", "state": "failed", "note": "failed on Fold2"}
    assert data["means"][1] == {}
    assert [s["curves"][1] is None for s in data["scopes"]] == [True, False, True]
    assert "Failed, and so without a result: B." in data["findings"]


def test_an_unfinished_run_says_so(tmp_path):
    run = RunDirectory.create(tmp_path, settings(["RoBiRank", "B"], k_max=1))
    assert report_data(run)["findings"] == [
        "This run is not finished: 10 fits are still to be done."
    ]
    run.append_fit(fit("B", "Fold1"), frame("B", "Fold1", {"1": [0.5] * 3}, 1))
    data = report_data(run)
    assert "9 fits are still to be done" in data["findings"][-1]
    assert [m["state"] for m in data["methods"]] == ["missing", "ok"]


@pytest.mark.parametrize(
    ("methods", "emphasis"),
    [(["MART", "RoBiRank"], "RoBiRank"), (["MART", "AdaRank"], "MART")],
)
def test_the_page_is_about_robirank_where_it_is_there(tmp_path, methods, emphasis):
    run = RunDirectory.create(tmp_path, settings(methods))
    assert methods[report_data(run)["emphasis"]] == emphasis


def test_the_page_knows_what_to_explain(tiny, run):
    how = report_data(tiny)["how"]
    assert (how["convention"], how["discount"], how["folds"]) == ("letor", "letor", 2)
    assert not how["tested"]
    assert report_data(run)["how"]["tested"]


# The file


def test_the_page_is_written_where_it_is_asked_for(run, tmp_path):
    assert write_report(run.path) == run.path / "report.html"
    assert write_report(run.path, tmp_path / "x.html") == tmp_path / "x.html"
    assert (tmp_path / "x.html").read_bytes() == (run.path / "report.html").read_bytes()


def test_a_report_that_cannot_be_made_leaves_the_old_one(tiny):
    page = write_report(tiny.path)
    before = page.read_bytes()
    (tiny.path / "units" / "B__Fold1.parquet").write_bytes(b"not a table")
    with pytest.raises(ValueError, match="is not a Parquet file"):
        write_report(tiny.path)
    assert page.read_bytes() == before
    assert not list(tiny.path.glob(".*"))


def test_no_text_of_a_run_becomes_markup(stress_report_file):
    text = stress_report_file.read_text("utf-8")
    elements = Elements(text).tags
    assert [attrs.get("type") for tag, attrs in elements if tag == "script"] == [
        "application/json",
        None,
    ]
    assert not [attrs for tag, attrs in elements if tag == "img"]
    assert text.lower().count("</script") == 2
    assert HOSTILE not in text


def test_the_page_names_no_other_address(report_file):
    text = report_file.read_text("utf-8")
    assert set(re.findall(r"https?://[^\"'\s)]+", text)) == {"http://www.w3.org/2000/svg"}
    linked = [
        a.get("src") or a.get("href") for _, a in Elements(text).tags if {"src", "href"} & set(a)
    ]
    assert all(link.startswith("#") or link == "data:," for link in linked)


def test_the_policy_allows_only_the_pages_own_code(report_file):
    text = report_file.read_text("utf-8")
    policy = next(a["content"] for _, a in Elements(text).tags if "http-equiv" in a)
    for tag in ("script", "style"):
        (body,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_every_script_of_the_page_is_in_the_package_and_used():
    folder = resources.files("robirank_lab.report") / "page"
    found = {entry.name for entry in folder.iterdir() if entry.name.endswith(".js")}
    assert found == set(report_module._SCRIPTS)


def test_the_data_of_the_page_is_json(report_file):
    text = report_file.read_text("utf-8")
    found = re.search(r'id="report-data">(.*?)</script>', text, re.DOTALL)
    assert json.loads(found[1])["title"] == "OHSUMED"

"""The report of quality against time: what it says, and how it looks in a browser."""

import pytest

from experiments.report.browser import count, errors, settle, texts
from robirank.experiments.latent.units import snapshot_frame
from robirank.experiments.report.data import report_data
from robirank.experiments.report.write import write_report
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import LatentFacts, QualityFit, QualitySettings

# Recall@20 after epochs 1, 2 and 4, and the seconds; the NDCG is half of it.
CURVES = {
    "RoBiRank": ([0.02, 0.15, 0.19], [70.0, 80.0, 234.0]),
    "RoBiRank, λ given": ([0.02, 0.15, 0.19], [10.0, 20.0, 174.0]),
    "ALS": ([0.05, 0.14, 0.12], [0.5, 1.25, 2.0]),
}


class Found(dict):
    @property
    def errors(self):
        return dict.fromkeys(self, 0.001)


@pytest.fixture
def begun(tmp_path):
    """A run without any fit."""
    settings = QualitySettings(
        title="gowalla",
        methods=list(CURVES),
        seed=0,
        versions={"robirank": "0.2.0"},
        machine={"cores": 2},
        command="python benchmarks/time_to_quality.py",
        created="2025-03-14T09:26:53+00:00",
        columns={},
        factors=64,
        data=LatentFacts(
            name="gowalla",
            users=29858,
            items=40981,
            train=719081,
            valid=91047,
            test=217242,
            test_users=29858,
            left_out=0,
            split="as given",
            files={},
        ),
        threads=2,
        published={"recall@20": 0.1941, "ndcg@20": 0.07},
        source="ChebyCF, NESCL",
    )
    return RunDirectory.create(tmp_path / "gowalla", settings)


@pytest.fixture
def run(begun):
    for method, (recall, seconds) in CURVES.items():
        taken = [
            (epoch, second, Found({"recall@20": value, "ndcg@20": value / 2}))
            for epoch, second, value in zip((1, 2, 4), seconds, recall, strict=True)
        ]
        fit = QualityFit(method=method, params={"alpha": 30.0}, wall_seconds=2 * seconds[-1])
        begun.append_fit(fit, snapshot_frame(method, taken, ("recall@20", "ndcg@20")))
    begun.finish()
    return begun


def test_goals_are_the_best_of_rivals_and_the_best_published(run):
    data = report_data(run)
    assert data["goals"] == [
        {"name": "ALS", "value": 0.14, "seconds": [80.0, 20.0, 1.25]},
        {"name": "best published", "value": 0.1941, "seconds": [None, None, None]},
    ]


def test_findings_say_when_goals_are_reached(run):
    assert report_data(run)["findings"] == [
        "RoBiRank ends with a recall@20 of .1900 after 234 seconds.",
        "What ALS has at best, .1400 after 1.2 seconds, RoBiRank has after 80.",
        "The best published figure, .1941 (ChebyCF, NESCL), RoBiRank does not reach.",
    ]


def test_a_method_that_fails_has_no_curve(run):
    run.append_fit(QualityFit(method="ALS", error="MemoryError: too large"))
    data = report_data(run)
    assert data["learning"][2] is None
    assert [goal["name"] for goal in data["goals"]] == ["best published"]
    assert data["methods"][2] == {"name": "ALS", "state": "failed", "note": "failed"}


def test_the_page_shows_curves_and_the_published_figure(open_page, run):
    page = open_page(write_report(run.path))
    assert errors(page) == []
    sections = [section.get_attribute("id") for section in page.locator("main > section").all()]
    assert sections == ["learning", "goals", "method"]
    assert count(page, "#learning .curve") == 2 * len(CURVES)
    assert count(page, "#learning .level") == 2
    shown = " ".join(texts(page, "#learning figure svg"))
    assert "best published, .1941" in shown
    assert "best published, .0700" in shown
    assert "processor time ÷ 2 (log scale)" in shown
    # The highest thing of the left panel is the published line, within the chart.
    line, title = (page.locator(f"#learning svg {what}").first for what in (".level", ".strong"))
    assert line.bounding_box()["y"] > title.bounding_box()["y"] + title.bounding_box()["height"]


def test_the_table_has_a_row_a_method_the_best_first(open_page, run):
    page = open_page(write_report(run.path))
    heads = texts(page, "#goals thead th")
    assert heads == [
        "Method", "Recall@20", "NDCG@20", "Fit,\u00a0s",
        "to ALS, .1400", "to best published, .1941", "Wall,\u00a0s", "Setting",
    ]  # fmt: skip
    rows = [texts(page, f"#goals tbody tr:nth-child({n}) > *") for n in (1, 2, 3)]
    assert rows[0] == ["RoBiRank", ".1900", ".0950", "234.0", "80.0", "–", "468.0", "alpha = 30"]
    assert rows[1][0] == "RoBiRank, λ given"
    assert rows[2] == ["ALS", ".1200", ".0600", "2.0", "1.3", "–", "4.0", "alpha = 30"]


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out_of_the_page(open_page, run, width):
    page = open_page(write_report(run.path), width=width)
    page.click("#learning summary")
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert errors(page) == []


def test_a_run_without_results_still_has_a_page(open_page, begun):
    page = open_page(write_report(begun.path))
    assert errors(page) == []
    assert "3 fits are still to be done" in page.text_content("#findings")
    assert report_data(begun)["methods"][0]["note"] == "not yet run"

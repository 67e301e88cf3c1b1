"""Runs and reports that several tests look at; made once."""

import pytest

from experiments.browser import Browser, find_chromium
from experiments.synthetic_run import HOSTILE, MANY, make_run
from robirank.experiments.report.write import write_report


@pytest.fixture(scope="session")
def synthetic_run(tmp_path_factory):
    """Twelve methods, five folds, 106 queries."""
    return make_run(tmp_path_factory.mktemp("run") / "ohsumed")


@pytest.fixture(scope="session")
def report_file(synthetic_run):
    return write_report(synthetic_run.path)


@pytest.fixture(scope="session")
def stress_report_file(tmp_path_factory):
    """Twenty methods, two of which fail, queries and messages that try to be markup."""
    failures = {("ListNet", "Fold3"): f"loss is NaN {HOSTILE}"}
    failures |= {("Type-II", f"Fold{i}"): "out of memory" for i in range(1, 6)}
    run = make_run(
        tmp_path_factory.mktemp("stress") / "run",
        methods=MANY,
        n_queries=50,
        failures=failures,
        query_name=HOSTILE + "{}",
        title=HOSTILE,
        seed=1,
        significance=["ndcg@10"],
    )
    return write_report(run.path)


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium; tests that need it are skipped where there is none."""
    program = find_chromium()
    if program is None:
        pytest.skip("no chromium or google-chrome on this machine (set CHROMIUM to its path)")
    with Browser(program) as started:
        yield started


@pytest.fixture
def open_page(browser):
    """Open a report in a window of a given size, as if for the first time."""

    def open_it(file, width=1280, height=900, scheme="light"):
        browser.media(prefers_color_scheme=scheme)
        browser.resize(width, height, mobile=width < 600)
        browser.open(file)
        if browser.js("localStorage.length"):
            browser.js("localStorage.clear()")
            browser.open(file)
        return browser

    return open_it

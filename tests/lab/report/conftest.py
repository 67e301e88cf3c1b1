"""Reports, and a browser to look at them."""

import pytest

from lab.report.browser import FLAGS, find_chromium
from lab.synthetic_run import HOSTILE, MANY, make_run
from robirank_lab.report.write import write_report


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


@pytest.fixture(scope="module")  # Playwright occupies the thread's event loop while it runs
def browser():
    """The system's Chromium; tests that need it are skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = find_chromium()
    if program is None:
        pytest.skip("no chromium or google-chrome on this machine (set CHROMIUM to its path)")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def open_page(browser):
    """Open a report in a window of a given size, as if for the first time."""
    contexts = []

    def open_it(file, width=1280, height=900, scheme="light"):
        phone = width < 600
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            device_scale_factor=2 if phone else 1,
            is_mobile=phone,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.goto(file.as_uri())
        return page

    yield open_it
    for context in contexts:
        context.close()

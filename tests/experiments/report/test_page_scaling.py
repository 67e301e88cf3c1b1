"""The report of a scaling run in a browser."""

from experiments.report.browser import count, errors, tab_to, texts
from robirank.experiments.report.write import write_report


def test_the_page_draws_itself(scaling_run, open_page):
    page = open_page(write_report(scaling_run.path))
    lines = "#speed figure:first-child .curve"
    assert count(page, lines) == 4
    page.check("input[name=speed-simulated][value=yes]", force=True)
    assert count(page, lines) == 5
    assert count(page, "#simulated rect[data-kind=compute]") == 11  # 1 to 1,024 machines
    page.check("input[name=simulated-driver][value=yes]", force=True)
    assert count(page, "#simulated rect[data-kind=driver]") > 0
    assert count(page, "#check tbody tr") == 2
    words = " ".join(texts(page, "#method dl"))
    assert "Between machines there are 10\u00a0Gb/s" in words
    assert "Ray" not in words
    assert errors(page) == []


def test_runs_can_be_read_with_keys(scaling_run, open_page):
    page = open_page(write_report(scaling_run.path))
    tab_to(page, "#speed figure:first-child svg")
    page.keyboard.press("Home")
    assert page.text_content("#tooltip strong") == "RoBiRank 1"
    assert "epoch1" in page.text_content("#tooltip")
    assert count(page, "#speed .dot") == 2  # the other panel marks the same point
    page.keyboard.press("Escape")
    assert count(page, "#speed .dot") == 0
    tab_to(page, "#parts figure svg")
    page.keyboard.press("End")
    assert "epoch3" in page.text_content("#tooltip")

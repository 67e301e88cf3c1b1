"""The report of a scaling run in a browser."""

from experiments.report.browser import count, errors, texts
from robirank.experiments.report.write import write_report


def test_the_page_draws_itself(scaling_run, open_page):
    page = open_page(write_report(scaling_run.path))
    lines = "#speed figure:first-child [data-line]"
    assert count(page, lines) == 4
    page.check("input[name=speed-simulated][value=yes]", force=True)
    assert count(page, lines) == 5
    assert count(page, "#simulated rect[data-kind=compute]") == 11  # 1 to 1,024 machines
    page.check("input[name=simulated-driver][value=yes]", force=True)
    assert count(page, "#simulated rect[data-kind=driver]") > 0
    assert count(page, "#check tbody tr") == 2
    words = " ".join(texts(page, "#method dl"))
    assert "Between machines there are 10 Gb/s" in words
    assert "Ray" not in words
    assert errors(page) == []

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


def test_every_line_is_told_apart_by_its_key(scaling_run, open_page):
    """Beside each name there is a piece of its line; no two look alike."""
    page = open_page(write_report(scaling_run.path))
    page.check("input[name=speed-simulated][value=yes]", force=True)
    looks = """selector => [...document.querySelectorAll(selector)].map(node => [
        node.dataset.method, getComputedStyle(node).stroke, node.getAttribute("stroke-dasharray"),
    ])"""
    figure = "#speed figure:first-child"
    keys = {name: look for name, *look in page.evaluate(looks, f"{figure} .key")}
    assert keys == {name: look for name, *look in page.evaluate(looks, f"{figure} .curve")}
    assert len({tuple(look) for look in keys.values()}) == len(keys) == 5


def test_the_table_beside_the_page_has_the_same_times(scaling_run, open_page):
    page = open_page(write_report(scaling_run.path))
    heads = [head.lower() for head in texts(page, "#work thead th")]
    table = (scaling_run.path / "table.md").read_text("utf-8").splitlines()
    line = next(line for line in table if line.startswith("| run"))
    assert [head.strip() for head in line.strip("|").split("|")] == heads

"""The report of a scaling run in a browser."""

from lab.report.browser import count, errors, tab_to, texts
from robirank_lab.report.write import write_report


def test_the_page_draws_itself(scaling_run, open_page):
    page = open_page(write_report(scaling_run.path))
    assert count(page, "#speed figure:first-child .curve") == 4
    assert count(page, "#parts .curve") == 3
    assert count(page, "#work tbody tr") == 5
    words = " ".join(texts(page, "#method dl"))
    assert "Work is the processor time of a run" in words
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
    looks = """selector => [...document.querySelectorAll(selector)].map(node => [
        node.dataset.method, getComputedStyle(node).stroke, node.getAttribute("stroke-dasharray"),
    ])"""
    figure = "#speed figure:first-child"
    keys = {name: look for name, *look in page.evaluate(looks, f"{figure} .key")}
    assert keys == {name: look for name, *look in page.evaluate(looks, f"{figure} .curve")}
    assert len({tuple(look) for look in keys.values()}) == len(keys) == 4


def test_the_table_beside_the_page_has_the_same_columns(scaling_run, open_page):
    page = open_page(write_report(scaling_run.path))
    heads = [head.lower() for head in texts(page, "#work thead th")]
    table = (scaling_run.path / "table.md").read_text("utf-8").splitlines()
    line = next(line for line in table if line.startswith("| run"))
    assert [head.strip() for head in line.strip("|").split("|")] == heads

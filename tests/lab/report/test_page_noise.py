"""The report of a run on noise in a browser."""

from lab.report.browser import count, errors, tab_to, texts
from robirank_lab.report.write import write_report


def test_the_page_draws_itself(attack_run, open_page):
    page = open_page(write_report(attack_run.path))
    assert count(page, "#noise .curve") == 2
    assert count(page, "#areas tbody tr") == 2
    assert "10,000 items drawn at random" in page.text_content("#noise .lede")
    words = " ".join(texts(page, "#method dl"))
    assert "means over honest users" in words
    assert "a query without any relevant document" not in words
    assert errors(page) == []


def test_an_attack_has_metrics_of_its_own(attack_run, open_page):
    page = open_page(write_report(attack_run.path))
    assert count(page, "#noise select") == 0
    page.check("#noise input[value=shilling]")
    assert "pushed item" in page.text_content("#noise .lede")
    page.select_option("#noise select", "pushed")
    assert "who are shown the pushed item" in page.text_content("#noise svg")
    page.check("#noise input[value=bots]")
    assert count(page, "#noise select") == 0
    assert "NDCG@10" in page.text_content("#noise svg")
    assert errors(page) == []


def test_curves_can_be_read_with_keys(noise_run, open_page):
    page = open_page(write_report(noise_run.path))
    tab_to(page, "#noise figure svg")
    page.keyboard.press("End")
    assert page.text_content("#tooltip strong") in noise_run.methods
    assert "noise.40" in page.text_content("#tooltip")


def test_the_page_has_the_figures_of_the_table(noise_run, open_page):
    page = open_page(write_report(noise_run.path), width=390)
    table = (noise_run.path / "table.md").read_text("utf-8")
    row = next(line for line in table.splitlines() if line.startswith("| RoBiRank"))
    cells = [cell.strip() for cell in row.strip("|").split("|")][1:5]
    shown = texts(page, "#areas tbody tr:has(th:text-is('RoBiRank')) td")[:4]
    assert shown == [cell.removeprefix("0") for cell in cells]
    assert errors(page) == []

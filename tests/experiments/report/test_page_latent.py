"""The report of a latent run in a browser."""

import pytest

from experiments.report.browser import count, errors, settle, tab_to
from robirank.experiments.latent.results import learning_curves
from robirank.experiments.latent.units import snapshot_epochs
from robirank.experiments.report.write import write_report
from robirank.experiments.run_dir import RunDirectory

SGD, WARP = "RoBiRank sgd", "WARP"


def lines_shown(page):
    return sorted(
        line.get_attribute("data-method") for line in page.locator("#learning .curve").all()
    )


def test_the_page_shows_the_curves(open_page, latent_run):
    page = open_page(write_report(latent_run.path))
    assert errors(page) == []
    sections = [section.get_attribute("id") for section in page.locator("main > section").all()]
    assert sections == ["learning", "reached", "settings", "times", "method"]
    assert page.text_content("#overline") == "Recommending, a comparison"
    assert lines_shown(page) == sorted([SGD, WARP] * 2)
    page.click("#learning .chip")
    assert lines_shown(page) == [WARP] * 2
    curves = learning_curves(latent_run.results(), latent_run.methods)
    value = f"{curves[WARP].last('precision@1'):.4f}".removeprefix("0")
    assert value in page.text_content(f"#reached tr[data-method='{WARP}']")
    page.click("#learning summary")
    settle(page)
    assert count(page, "#learning tbody tr") == len(snapshot_epochs(8))


def test_a_point_of_a_curve_can_be_read(open_page, latent_run):
    page = open_page(write_report(latent_run.path))
    tab_to(page, "#learning svg[role=group]")
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    shown = page.text_content("#tooltip")
    curves = learning_curves(latent_run.results(), latent_run.methods)
    first = latent_run.methods[0]
    value = f"{curves[first].values['precision@10'][-2]:.4f}".removeprefix("0")
    assert first in shown
    assert f"Precision@10{value}" in shown
    assert f"epoch {curves[first].epochs[-2]}" in shown
    page.keyboard.press("Escape")
    assert page.is_hidden("#tooltip")


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out_of_the_page(open_page, latent_run, width):
    page = open_page(write_report(latent_run.path), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert errors(page) == []


def test_settings_name_the_starting_point(open_page, latent_run):
    page = open_page(write_report(latent_run.path))
    (chosen,) = page.locator("#settings circle[aria-label]").all()
    assert chosen.get_attribute("aria-label").startswith("seed 0: learning_rate = ")


def test_a_run_without_results_still_has_a_page(open_page, latent_run, tmp_path):
    run = RunDirectory.create(tmp_path / "r", latent_run.settings)
    page = open_page(write_report(run.path))
    assert errors(page) == []
    assert "Every setting is fitted to the training part for 8 epochs" in " ".join(
        page.text_content("#method dl").split()
    )
    assert "4 fits are still to be done" in page.text_content("#findings")

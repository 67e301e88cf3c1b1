"""The report of a latent run in a browser."""

import polars as pl
import pytest
from msgspec.structs import replace

from lab.conftest import QUIET
from lab.report.browser import count, errors, settle, tab_to, texts
from robirank_lab.latent.methods import LATENT_FIELD
from robirank_lab.latent.results import learning_curves
from robirank_lab.latent.runner import run_latent
from robirank_lab.latent.units import snapshot_epochs
from robirank_lab.report.write import write_report
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import LatentExperiment

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


@pytest.fixture(scope="module")
def field_run(latent_folder, tmp_path_factory):
    """Seven methods that need no search for a step size, one of them without training."""
    experiment = LatentExperiment(factors=4, iterations=2, threads=1, rates=False)
    methods = [name for name, method in LATENT_FIELD.items() if not method.missing]
    output = tmp_path_factory.mktemp("run") / "field"
    return run_latent(latent_folder, experiment, output, methods, console=QUIET)


def test_popularity_is_a_level_across_the_chart(open_page, field_run):
    page = open_page(write_report(field_run.path))
    assert errors(page) == []
    curves = learning_curves(field_run.results(), field_run.methods)
    value = f"{curves['Popularity'].last('precision@1'):.4f}".removeprefix("0")
    first = "#learning figure:first-child"
    assert texts(page, f"{first} .level-name") == [f"Popularity, {value}"]
    assert "Popularity" not in lines_shown(page)
    assert "Popularity" in " ".join(texts(page, "#method dt"))
    page.click("#learning .chip:has-text('Popularity')")
    assert count(page, f"{first} .level") == 0
    page.click("#learning .shortcuts button:last-child")
    page.click("#learning .chip.emphasis")  # nothing is left
    assert lines_shown(page) == []
    assert errors(page) == []


def test_the_best_five_lines_are_shown_at_first(open_page, field_run):
    page = open_page(write_report(field_run.path))
    curves = learning_curves(field_run.results(), field_run.methods)
    trained = [name for name in curves if name != "Popularity"]
    best = sorted(trained, key=lambda name: -curves[name].last("precision@1"))[:5]
    assert set(lines_shown(page)) == {*best, "RoBiRank exact"}


def test_a_band_is_the_interval_over_users(open_page, field_run):
    page = open_page(write_report(field_run.path))
    curve = learning_curves(field_run.results(), field_run.methods)["RoBiRank exact"]
    assert count(page, "#learning figure:first-child .band") == 1
    tab_to(page, "#learning svg[role=group]")
    page.keyboard.press("End")
    value, half = curve.last("precision@1"), 1.96 * curve.error["precision@1"][-1]
    told = " ± ".join(f"{number:.4f}".removeprefix("0") for number in (value, half))
    assert f"Precision@1{told}" in page.text_content("#tooltip")


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


def test_published_figures_are_a_line_across_the_charts(open_page, latent_run, tmp_path):
    experiment = replace(
        latent_run.experiment, published={"recall@20": 0.9, "ndcg@20": 0.8}, source="ChebyCF"
    )
    run = RunDirectory.create(tmp_path / "r", replace(latent_run.settings, experiment=experiment))
    for fit in latent_run.fits():
        here = (pl.col("method") == fit.method) & (pl.col("case") == fit.case)
        run.append_fit(fit, latent_run.results().filter(here))
    page = open_page(write_report(run.path))
    assert errors(page) == []
    assert texts(page, "#learning .level-name") == [
        "best published, .9000",
        "best published, .8000",
    ]
    assert texts(page, "#learning figure text.strong") == ["Recall@20", "NDCG@20"]
    words = " ".join(page.text_content("#method dl").split())
    assert "by ChebyCF" in words
    assert "Each method is searched alike" not in words

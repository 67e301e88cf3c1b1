"""The documentation as people read it: on a phone, and in the reference."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.report.browser import FLAGS, find_chromium

ROOT = Path(__file__).parents[1]

#: Pages with wide formulas, wide tables and long signatures.
PAGES = [
    *("guide/features", "guide/measure", "guide/reasons", "guide/rules", "guide/training"),
    *("guide/variety", "reference/recommend"),
    *("method/features", "method/latent", "method/results", "reference/field", "reference/latent"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="the site is built by mkdocs")
    pytest.importorskip("mkdocstrings", reason="the site is built by mkdocs")
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = find_chromium()
    if program is None:
        pytest.skip("no chromium or google-chrome on this machine (set CHROMIUM to its path)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def phone(browser):
    return browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True).new_page()


@pytest.fixture(scope="module")
def laptop(browser):
    return browser.new_context(viewport={"width": 1280, "height": 800}).new_page()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_not_wider_than_a_phone(site, phone, page):
    phone.goto((site / page / "index.html").as_uri())
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("page", PAGES)
def test_no_block_of_code_is_cut_on_a_laptop(site, laptop, page):
    laptop.goto((site / page / "index.html").as_uri())
    cut = (
        """blocks => blocks.filter(b => b.scrollWidth > b.clientWidth + 1).map(b => b.innerText)"""
    )
    assert laptop.eval_on_selector_all("pre > code", cut) == []


def test_the_front_page_shows_its_result_on_the_first_screen(site, laptop):
    laptop.goto((site / "index.html").as_uri())
    for what in ("pre >> text=pip install robirank", "table >> nth=0", "img[src*=tutorial]"):
        box = laptop.locator(what).bounding_box()
        assert box["y"] + box["height"] / 2 < 800, what


def test_headings_of_the_reference_are_public_names_with_signatures(site):
    text = (site / "reference" / "latent" / "index.html").read_text("utf-8")
    assert 'id="robirank.LatentRoBiRank"' in text
    assert "factors</span><span" in text.replace(" ", "")  # its signature
    for method in ("fit", "partial_fit", "recommend", "recommend_for", "similar_items", "save"):
        for model in ("LatentRoBiRank", "WARP"):
            assert f'id="robirank.{model}.{method}"' in text


def test_no_formula_shows_its_source(site):
    """What the converter does not know it would print as it stands."""
    for page in site.rglob("index.html"):
        formulas = re.findall(r"<math.*?</math>", page.read_text("utf-8"), re.DOTALL)
        assert not [f for f in formulas if "\\" in f], page


def test_every_public_name_is_in_the_reference(site):
    import robirank

    pages = "".join(p.read_text("utf-8") for p in (site / "reference").rglob("index.html"))
    missing = [
        name
        for name in dir(robirank)
        if not name.startswith("_") and f'id="robirank.{name}' not in pages
    ]
    assert missing == []

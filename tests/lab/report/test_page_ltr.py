"""The report in a browser: what people see, with a mouse, with keys, on a phone, on paper."""

import itertools
import re
import shutil

import msgspec
import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from lab.report.browser import count, errors, hover, settle, tab_to, texts
from lab.synthetic_run import (
    HOSTILE,
    MANY,
    METHODS,
    facts,
    fit,
    frame,
    make_run,
    settings,
    write_significance,
)
from robirank_lab.ltr.tables import write_tables
from robirank_lab.report.write import write_report
from robirank_lab.run_dir import RunDirectory


@pytest.fixture
def run(synthetic_run):
    return synthetic_run


@pytest.fixture
def page(open_page, report_file):
    return open_page(report_file)


def attributes(page, selector, name):
    """An attribute of every element that matches."""
    return [element.get_attribute(name) for element in page.locator(selector).all()]


def methods_in_table(page):
    return attributes(page, "#table tr[data-method]", "data-method")


def lines_shown(page):
    return attributes(page, "#curves .curve", "data-method")


def sort_state(page):
    """Which column the table says it is sorted by, and how."""
    return page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#table th[aria-sort]')]"
        ".filter(th => th.ariaSort !== 'none').map(th => [th.dataset.column, th.ariaSort]))"
    )


def sorted_by(run, metric, k):
    means = (
        run.results()
        .filter(pl.col("metric") == metric, pl.col("k") == k)
        .group_by("method")
        .agg(pl.col("value").mean())
        .sort("value", descending=True)
    )
    return means["method"].to_list()


@pytest.mark.parametrize("which", ["report_file", "stress_report_file"])
def test_the_page_loads_from_disk_without_a_complaint_or_a_request(open_page, which, request):
    file = request.getfixturevalue(which)
    page = open_page(file)
    assert errors(page) == []
    assert [request.url for request in page.requests()] == [file.as_uri()]
    assert attributes(page, "main > section[hidden]", "id") == []


def test_hostile_names_are_only_text(open_page, stress_report_file):
    page = open_page(stress_report_file)
    assert page.text_content("h1") == HOSTILE
    assert page.title() == f"{HOSTILE} – ranking report"
    assert HOSTILE in page.text_content("#queries")
    assert count(page, "img") == 0
    page.click("#table tr[data-method='ListNet'] .open")
    assert f"failed: loss is NaN {HOSTILE}" in page.text_content("#table .more:not([hidden])")
    assert errors(page) == []


@pytest.mark.parametrize(
    ("convention", "parts"),
    [
        ("letor", ["2ʳ − 1", "ranks 1 and 2 count in full", "in the order of the file", "as 0."]),
        ("standard", ["2ʳ − 1", "1 / log₂(i + 1)", "average over all their orders", "as 0."]),
        ("trec", ["worth r,", "1 / log₂(i + 1)", "in reverse order of the file", "as 0."]),
        ("lightgbm", ["2ʳ − 1", "1 / log₂(i + 1)", "in the order of the file", "as 1."]),
    ],
)
def test_every_convention_is_spelled_out(open_page, tmp_path, convention, parts):
    run = RunDirectory.create(tmp_path, settings(convention=convention))
    page = open_page(write_report(run.path))
    assert texts(page, "#method dt")[0] == "NDCG@k"
    words = " ".join(texts(page, "#method dd")[0].split())
    for part in parts:
        assert part in words
    assert words.count("onvention") == 1
    assert count(page, "#method dl") == 1


def test_a_run_without_results_still_has_a_page(open_page, tmp_path):
    run = RunDirectory.create(tmp_path, settings())
    page = open_page(write_report(run.path))
    assert errors(page) == []
    assert "60 fits are still to be done" in page.text_content("#findings")


def test_the_table_begins_with_the_best(page, run):
    assert methods_in_table(page) == sorted_by(run, "ndcg", 10)
    assert sort_state(page) == {"ndcg@10": "descending"}


def test_sorting_by_a_column(page, run):
    expected = sorted_by(run, "map", 0)
    assert expected != methods_in_table(page)
    page.click("#table th[data-column='map'] button")
    assert methods_in_table(page) == expected
    assert sort_state(page) == {"map": "descending"}
    page.click("#table th[data-column='map'] button")
    assert methods_in_table(page) == expected[::-1]
    assert sort_state(page) == {"map": "ascending"}
    page.click("#table th[data-column='method'] button")
    assert methods_in_table(page) == sorted(METHODS, key=str.lower)


def test_failed_methods_stay_at_the_end_however_it_is_sorted(open_page, stress_report_file):
    page = open_page(stress_report_file)
    for _ in range(2):
        page.click("#table th[data-column='ndcg@1'] button")
        assert set(methods_in_table(page)[-2:]) == {"ListNet", "Type-II"}
    assert page.text_content("#table tr[data-method='Type-II'] .badge") == "failed"


def test_differences_stand_with_interval_and_p(page, run):
    comparison = next(
        c for c in run.significance().comparisons if (c.metric, c.method) == ("ndcg@10", "MART")
    )

    def told(value):
        return f"{abs(value):.3f}".replace("0.", "−." if value < 0 else ".", 1)

    text = page.text_content("#table tr[data-method='MART']")
    low, high = told(comparison.low), told(comparison.high)
    assert f"{told(comparison.difference)} [{low}, {high}]" in text
    assert told(comparison.p_adjusted) in text
    assert "the reference" in page.text_content("#table tr[data-method='RoBiRank']")


def test_differences_in_another_measure(page, run):
    comparison = next(
        c for c in run.significance().comparisons if (c.metric, c.method) == ("map", "MART")
    )
    page.select_option("#table select", "map")
    expected = f"−{abs(comparison.difference):.3f}".replace("0.", ".")
    assert expected in page.text_content("#table tr[data-method='MART']")
    assert "MAP less RoBiRank" in page.text_content("#table thead")


def test_a_row_opens_to_what_was_chosen_on_each_fold(page, run):
    page.click("#table tr[data-method='LambdaMART'] .open")
    text = page.text_content("#table .more:not([hidden])")
    for fold in ("Fold1", "Fold5"):
        params = run.fit("LambdaMART", fold).params
        assert (
            f"{fold}n_trees = {params['n_trees']}, learning_rate = {params['learning_rate']}"
            in text
        )
    page.click("#table th[data-column='map'] button")
    below = "document.querySelector('#table .more:not([hidden])').previousSibling.dataset.method"
    assert page.evaluate(below) == "LambdaMART"  # what is open stays with its row


def test_the_five_best_lines_are_shown_at_first(page, run, open_page, stress_report_file):
    best = sorted_by(run, "ndcg", 10)[:5]
    assert "RoBiRank" in best
    assert set(lines_shown(page)) == set(best)
    pressed = texts(page, "#curves .chip[aria-pressed=true]")
    assert set(pressed) == set(best)
    page = open_page(stress_report_file)  # there, RoBiRank is not among them
    assert "RoBiRank" in lines_shown(page)
    assert len(lines_shown(page)) in (5, 6)


def test_values_at_the_ends_of_lines_say_their_k(page, run):
    def heading():
        return page.text_content("#curves svg > text:has(+ .leader)")

    def value(k):
        means = run.results().filter(pl.col("metric") == "ndcg", pl.col("k") == k)
        mean = means.filter(pl.col("method") == "RoBiRank")["value"].mean()
        return f"{mean:.4f}".removeprefix("0")

    shown = "#curves .name.emphasis .value"
    assert (heading(), page.text_content(shown).strip()) == ("NDCG@20", value(20))
    tab_to(page, "#curves figure svg")
    page.keyboard.press("Home")
    assert (heading(), page.text_content(shown).strip()) == ("NDCG@1", value(1))


def test_chips_hide_and_show_lines(page):
    page.click("#curves .shortcuts button:first-child")
    assert set(lines_shown(page)) == set(METHODS)
    page.click("#curves .chip:nth-child(2)")
    assert set(lines_shown(page)) == set(METHODS) - {"Identity"}
    assert page.get_attribute("#curves .chip:nth-child(2)", "aria-pressed") == "false"
    page.click("#curves .chip:nth-child(2)")
    assert set(lines_shown(page)) == set(METHODS)
    page.click("#curves .shortcuts button:last-child")
    assert lines_shown(page) == ["RoBiRank"]


def test_curves_of_one_fold_and_differences(page, run):
    page.click("#curves .shortcuts button:first-child")
    page.select_option("#curves select", "2")
    page.click("#curves summary")
    settle(page)
    expected = (
        run.results()
        .filter(pl.col("case") == "Fold2", pl.col("method") == "MART", pl.col("metric") == "ndcg")
        .group_by("k", maintain_order=True)
        .agg(pl.col("value").mean())
    )
    rows = "[...document.querySelectorAll('#curves details tr')]"
    row = f"{rows}.find(r => r.cells[0].textContent === 'MART')"
    cells = page.evaluate(f"[...{row}.cells].slice(1).map(c => Number(c.textContent))")
    assert_allclose(cells, expected["value"].to_numpy(), atol=5.1e-5)
    page.click("#curves label:has(input[value='difference'])")
    cells = page.evaluate(
        f"[...{row}.cells].slice(1).map(c => Number(c.textContent.replace('−', '-')))"
    )
    base = (
        run.results()
        .filter(
            pl.col("case") == "Fold2", pl.col("method") == "RoBiRank", pl.col("metric") == "ndcg"
        )
        .group_by("k", maintain_order=True)
        .agg(pl.col("value").mean())
    )
    assert_allclose(cells, (expected["value"] - base["value"]).to_numpy(), atol=5.1e-5)


def test_pointing_at_a_curve_tells_its_value(page, run):
    means = (
        run.results()
        .filter(pl.col("metric") == "ndcg")
        .group_by("method", "k")
        .agg(pl.col("value").mean())
    )
    hover(page, "#curves figure svg", dy=-40)
    name, shown = page.text_content("#tooltip strong"), page.text_content("#tooltip tr")
    k, value = re.fullmatch(r"NDCG@(\d+)(\.\d{4})", shown).groups()
    expected = means.filter(pl.col("method") == name, pl.col("k") == int(k))["value"][0]
    assert float(value) == pytest.approx(expected, abs=5.1e-5)
    faded = count(page, "#curves .curve.faded")
    assert faded == len(lines_shown(page)) - 1 == 4
    hover(page, "h2#table-title")
    assert page.is_hidden("#tooltip")


@pytest.mark.parametrize("width", [1280, 390])
def test_names_at_the_ends_of_lines_do_not_overlap(open_page, stress_report_file, width):
    page = open_page(stress_report_file, width)
    page.click("#curves .shortcuts button:first-child")
    boxes = page.evaluate(
        "[...document.querySelectorAll('#curves .name')].map(n => n.getBoundingClientRect())"
        ".map(b => [b.top, b.bottom, b.right])"
    )
    assert len(boxes) == len(MANY) - 2
    boxes.sort()
    # Boxes are as high as a line of text, letters are not: a fifth may overlap.
    for (top, bottom, _), (next_top, _, _) in itertools.pairwise(boxes):
        assert next_top >= bottom - 0.2 * (bottom - top)
    assert max(right for _, _, right in boxes) <= width


def query_panel(page):
    """Wins, ties and losses, as the page says them."""
    return [int(n.replace(",", "")) for n in texts(page, "#queries .verdict strong")]


def wins_ties_losses(run, a, b, metric, k):
    part = run.results().filter(pl.col("metric") == metric, pl.col("k") == k)
    first, second = (
        part.filter(pl.col("method") == m).sort("case", "qid")["value"] for m in (a, b)
    )
    difference = (first * 10_000).round() - (second * 10_000).round()
    return [(difference > 0).sum(), (difference == 0).sum(), (difference < 0).sum()]


def test_choosing_two_methods_compares_them_query_by_query(page, run):
    order = list(METHODS)
    best_other = next(m for m in sorted_by(run, "ndcg", 10) if m != "RoBiRank")
    assert query_panel(page) == wins_ties_losses(run, "RoBiRank", best_other, "ndcg", 10)
    page.select_option("#queries label:nth-of-type(1) select", str(order.index("MART")))
    page.select_option("#queries label:nth-of-type(2) select", str(order.index("AdaRank")))
    page.select_option("#queries label:nth-of-type(3) select", "ndcg@3")
    expected = wins_ties_losses(run, "MART", "AdaRank", "ndcg", 3)
    assert query_panel(page) == expected
    bars = [
        page.get_attribute(f"#queries [data-bars={side}]", "d").count("Z") for side in ("a", "b")
    ]
    assert bars == [expected[0], expected[2]]
    page.click("#queries .controls button")
    assert query_panel(page) == expected[::-1]


def test_the_queries_with_the_largest_differences_are_listed(page, run):
    part = run.results().filter(pl.col("metric") == "ndcg", pl.col("k") == 10)
    wide = part.pivot(on="method", index=["case", "qid"], values="value")
    order = list(METHODS)
    page.select_option("#queries label:nth-of-type(2) select", str(order.index("IRPush")))
    top = wide.with_columns(d=pl.col("RoBiRank") - pl.col("IRPush")).sort("d", descending=True)
    cells = texts(page, "#queries [data-role=lists] div:first-child tbody tr:first-child td")
    assert cells[0] == f"{top['qid'][0]} {top['case'][0]}"
    assert float(cells[3]) == pytest.approx(top["d"][0], abs=6e-4)


def test_the_settings_that_were_tried_are_shown(page, run):
    assert count(page, "#settings circle") == 5 * 5
    order = list(METHODS)
    page.select_option("#settings select", str(order.index("MART")))
    assert count(page, "#settings circle") == 5 * 6  # two parameters: a row a setting
    assert "n_trees = 300, learning_rate = 0.1" in page.text_content("#settings figure")
    chosen = attributes(page, "#settings circle[aria-label]", "aria-label")
    params = run.fit("MART", "Fold4").params
    wanted = f"Fold4: n_trees = {params['n_trees']}, learning_rate = {params['learning_rate']}"
    assert len(chosen) == 5
    assert any(label.startswith(wanted) for label in chosen)


def test_times_are_on_a_log_scale(page, run):
    names = texts(page, "#times .name")
    mean = {m: np.mean([f.final_seconds for f in run.fits() if f.method == m]) for m in METHODS}
    assert names == sorted(METHODS, key=mean.get)
    centres = [float(x) for x in attributes(page, '#times circle[r="5.5"]', "cx")]
    logs = np.log([mean[m] for m in names])
    assert np.corrcoef(centres, logs)[0, 1] > 0.9999


# Without a mouse


def test_everything_works_with_keys_alone(page, run):
    tab_to(page, "#curves input[value='mean']")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.value") == "difference"
    page.keyboard.press("ArrowLeft")
    tab_to(page, "#curves figure svg")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Home")
    assert page.text_content("#tooltip strong") == "RoBiRank"
    assert page.text_content("#tooltip tr").startswith("NDCG@1.")
    page.keyboard.press("ArrowRight")
    assert page.text_content("#tooltip tr").startswith("NDCG@2.")
    assert page.text_content("#live").startswith("RoBiRank, NDCG@2 .")
    page.keyboard.press("ArrowUp")
    assert (
        page.text_content("#tooltip strong")
        == sorted_by(run, "ndcg", 2)[sorted_by(run, "ndcg", 2).index("RoBiRank") - 1]
    )
    page.keyboard.press("Escape")
    assert page.is_hidden("#tooltip")
    tab_to(page, "#curves .chip")
    page.keyboard.press(" ")
    assert "RoBiRank" not in lines_shown(page)
    page.keyboard.press("Enter")
    assert "RoBiRank" in lines_shown(page)
    tab_to(page, "#table th[data-column='ndcg@1'] .sort")
    page.keyboard.press("Enter")
    assert sort_state(page) == {"ndcg@1": "descending"}
    page.keyboard.press(" ")
    assert sort_state(page) == {"ndcg@1": "ascending"}
    assert methods_in_table(page) == sorted_by(run, "ndcg", 1)[::-1]
    assert "ascending" in page.text_content("#live")
    tab_to(page, "#table .open")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.ariaExpanded") == "true"
    tab_to(page, "#queries figure svg")
    page.keyboard.press("End")
    last = page.text_content("#tooltip strong")
    page.keyboard.press("ArrowLeft")
    assert page.text_content("#tooltip strong") != last
    assert last.startswith("Query ")


FOCUS = """(() => {
  const at = document.activeElement;
  if (at === document.body) return null;
  const marked = at.type === 'radio' ? at.closest('label') : at;
  const box = marked.getBoundingClientRect();
  const [x, y] = [box.left + box.width / 2, box.top + Math.min(box.height / 2, 20)];
  const top = document.elementFromPoint(x, y);
  const uncovered = marked.contains(top) || (marked.tagName === 'circle' && top?.closest('svg'));
  const name = at.ariaLabel || at.textContent || at.closest('label')?.textContent
    || at.getAttribute('aria-labelledby');
  const { outlineStyle } = getComputedStyle(marked);
  const place = [...document.querySelectorAll('*')].indexOf(at);
  return { good: outlineStyle !== 'none' && Boolean(uncovered && name), place,
    what: at.outerHTML.slice(0, 90) };
})()"""


@pytest.mark.parametrize("backwards", [False, True])
def test_the_focus_can_always_be_seen(page, backwards):
    """Go through the whole page with Tab: all that can have the focus has a name and an outline,
    lies under nothing, and lets go of the focus again."""
    seen = {}
    for _ in range(200):
        page.keyboard.press("Shift+Tab" if backwards else "Tab")
        found = page.evaluate(FOCUS)
        if found is None or found["place"] in seen:
            break
        seen[found["place"]] = found
    assert [stop["what"] for stop in seen.values() if not stop["good"]] == []
    # A trap would keep the focus from the first or from the last thing on the page.
    whole = "document.querySelectorAll('a, button, select, [tabindex=\"0\"]').length"
    assert len(seen) == page.evaluate(whole) + count(page, "fieldset") + 1


# Light, dark, small, on paper


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


WHITE, DARK = "rgb(255, 255, 255)", "rgb(21, 23, 26)"


def test_the_colours_follow_the_system(open_page, report_file):
    page = open_page(report_file, scheme="dark")
    assert background(page) == DARK
    page.emulate_media(color_scheme="light")
    assert background(page) == WHITE


@pytest.mark.parametrize("which", ["report_file", "stress_report_file"])
def test_no_width_makes_the_page_scroll_sideways(open_page, which, request):
    page = open_page(request.getfixturevalue(which), 390, 844)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.evaluate("document.querySelectorAll('#table .open').forEach(b => b.click())")
    for width in (390, 320, 768):
        page.set_viewport_size({"width": width, "height": 844})
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        plot = "document.querySelector('#curves svg').getBoundingClientRect().width"
        assert page.evaluate(plot) <= width
    assert errors(page) == []


@pytest.mark.parametrize("which", ["report_file", "stress_report_file"])
def test_the_table_fits_a_usual_screen(open_page, which, request):
    page = open_page(request.getfixturevalue(which), width=1280)
    wide, room = page.evaluate(
        "(n => [n.scrollWidth, n.clientWidth])(document.querySelector('#table .scroll'))"
    )
    assert wide <= room


def test_the_sorted_column_comes_first_on_a_phone(open_page, report_file, run):
    page = open_page(report_file, width=390)

    def heads():
        return attributes(page, "#table th[data-column]", "data-column")[:3]

    def first_row():
        return texts(page, "#table tr[data-method]:first-child > *")[1]

    assert heads() == ["method", "ndcg@10", "ndcg@1"]
    page.click("#table th[data-column='map'] button")
    assert heads() == ["method", "map", "ndcg@1"]
    assert methods_in_table(page) == sorted_by(run, "map", 0)
    best = run.results().filter(pl.col("metric") == "map").group_by("method").agg(pl.mean("value"))
    assert first_row() == f"{best['value'].max():.4f}".removeprefix("0")
    assert page.evaluate("document.activeElement.textContent") == "MAP"
    page.set_viewport_size({"width": 1280, "height": 900})
    settle(page)
    assert heads() == ["method", "ndcg@1", "ndcg@3"]


@pytest.mark.parametrize("width", [390, 320])
def test_a_plot_is_as_wide_as_a_phone(open_page, report_file, width):
    page = open_page(report_file, width=width)
    page.click("#curves .shortcuts button:first-child")
    plot = page.locator("#curves .axis").bounding_box()
    assert plot["width"] > width - 80  # margins, and numbers beside the axis
    names = [name.bounding_box() for name in page.locator("#curves .name").all()]
    assert len(names) == len(METHODS)
    assert all(name["y"] > plot["y"] for name in names)


def test_p_values_of_one_are_no_column(open_page, run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    copy = RunDirectory.open(tmp_path / "run")
    found = copy.significance()
    alike = [
        msgspec.structs.replace(c, p_adjusted=1.0) if c.metric == "ndcg@10" else c
        for c in found.comparisons
    ]
    copy.write_significance(msgspec.structs.replace(found, comparisons=alike))
    page = open_page(write_report(copy.path))
    assert count(page, "#table th[data-column=p]") == 0
    cells = (
        "[...document.querySelectorAll('#table tr[data-method]')]"
        ".map(row => [...row.cells].reduce((n, cell) => n + cell.colSpan, 0))"
    )
    assert set(page.evaluate(cells)) == {10}
    page.select_option("#table select", "map")
    assert count(page, "#table th[data-column=p]") == 1
    assert set(page.evaluate(cells)) == {11}
    page.click("#table th[data-column='p'] button")
    page.select_option("#table select", "ndcg@10")  # what it was sorted by is gone
    assert sort_state(page) == {"ndcg@1": "ascending"}
    assert errors(page) == []


def test_paper_is_white_and_has_no_buttons(open_page, report_file):
    page = open_page(report_file, scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert background(page) == WHITE
    assert count(page, ":is(.chip, #contents, .controls):visible") == 0
    page.emulate_media(media="screen")
    assert page.pdf().startswith(b"%PDF")


def test_large_runs_stay_quick(open_page, tmp_path):
    """Five thousand queries: the page opens and answers within what feels immediate."""
    run = RunDirectory.create(
        tmp_path, settings(["RoBiRank", "B"], k_max=20, data=facts(folds=["Fold1"]))
    )
    rng = np.random.default_rng(0)
    for method in run.methods:
        values = {str(q): row for q, row in enumerate(rng.random((5000, 22)))}
        run.append_fit(fit(method, "Fold1"), frame(method, "Fold1", values, 20))
    file = write_report(run.path)
    assert file.stat().st_size < 5000 * 2 * 22 * 2 * 4 / 3 + 300_000
    page = open_page(file)
    assert errors(page) == []
    spent = page.evaluate(
        "(() => { const s = document.querySelectorAll('#queries select')[2]; s.value = 'map';"
        " const start = performance.now(); s.dispatchEvent(new Event('change'));"
        " return performance.now() - start; })()"
    )
    assert sum(query_panel(page)) == 5000
    assert spent < 1000


def test_a_report_has_no_need_for_significance(tmp_path, open_page):
    methods = dict(itertools.islice(METHODS.items(), 3))
    run = make_run(tmp_path / "run", methods=methods, n_queries=20, significance=())
    page = open_page(write_report(run.path))
    assert errors(page) == []
    assert count(page, "#table th[data-column=difference]") == 0
    write_significance(run, metrics=("ndcg@10",))
    page = open_page(write_report(run.path))
    assert count(page, "#table th[data-column=difference]") == 1


def test_the_table_beside_the_page_has_the_same_times(page, run):
    write_tables(run)
    rows = [
        [cell.strip(" *") for cell in line.strip("|").split("|")]
        for line in (run.path / "table.md").read_text("utf-8").splitlines()
        if line.startswith("|")
    ]
    heads = texts(page, "#table thead th")
    assert rows[0][-1] == heads[-1].lower() == "seconds a fold"
    beside = {row[0]: row[-1] for row in rows[2 : 2 + len(METHODS)]}
    for name, row in zip(
        methods_in_table(page), page.locator("#table tr[data-method]").all(), strict=True
    ):
        assert row.locator("td").last.text_content() == beside[name]


def test_values_that_look_equal_are_equally_bold(open_page, tmp_path):
    values = {"RoBiRank": 0.50001, "MART": 0.50004, "RankNet": 0.4}
    run = RunDirectory.create(
        tmp_path, settings(list(values), data=facts(folds=["Fold1"], queries=2), k_max=10)
    )
    for method, value in values.items():
        rows = {query: [value] * 12 for query in ("1", "2")}
        run.append_fit(fit(method, "Fold1"), frame(method, "Fold1", rows, 10))
    run.finish()
    page = open_page(write_report(run.path))
    assert count(page, "#table tr[data-method] td.best") == 2 * 6
    write_tables(run)
    assert (tmp_path / "table.md").read_text("utf-8").count("**0.5000**") == 2 * 6
    assert "RoBiRank and MART share the highest mean NDCG@10" in page.text_content("#findings")


def test_the_sort_arrow_touches_no_other_heading(page):
    """It has a place within its own heading, and the text of the heading is beside it."""
    for column in ("ndcg@10", "mean_ndcg", "map", "method"):
        page.click(f"#table th[data-column='{column}'] button")
        room, arrow = page.evaluate(
            """column => {
                const button = document.querySelector(`#table th[data-column="${column}"] button`);
                const style = getComputedStyle(button), after = getComputedStyle(button, "::after");
                const side = after.left === "auto" || button.closest(".left") ? "Right" : "Left";
                const end = parseFloat(after.width) + parseFloat(after[side.toLowerCase()]);
                return [parseFloat(style[`padding${side}`]), end];
            }""",
            column,
        )
        assert 0 < arrow <= room, column


def test_the_navigation_follows_on_a_phone(open_page, report_file):
    page = open_page(report_file, width=360, height=700)
    bar = "document.getElementById('contents')"
    assert page.evaluate(f"{bar}.scrollWidth > {bar}.clientWidth")
    assert page.evaluate(f"{bar}.scrollLeft") == 0
    page.evaluate("document.getElementById('method').scrollIntoView()")
    settle(page)
    assert texts(page, "#contents [aria-current]") == ["Method"]
    link, room = (
        page.locator(selector).bounding_box()
        for selector in ("#contents [aria-current]", "#contents")
    )
    assert room["x"] <= link["x"]
    assert link["x"] + link["width"] <= room["x"] + room["width"] + 1


@pytest.mark.parametrize(
    ("select", "says"),
    [("ndcg@5", "mean NDCG@5 of"), ("mean_ndcg", "highest MeanNDCG of"), ("map", "highest MAP of")],
)
def test_no_mean_of_means(open_page, tmp_path, select, says):
    methods = dict(itertools.islice(METHODS.items(), 3))
    run = make_run(tmp_path / "run", methods=methods, n_folds=1, n_queries=10, select=select)
    page = open_page(write_report(run.path))
    assert says in page.text_content("#findings")
    assert "mean mean" not in page.text_content("body").lower()


def test_the_view_of_queries_says_why_a_document_is_first(tmp_path, open_page):
    asked = settings(["RoBiRank", "MART"], data=facts(folds=["Fold1"]), k_max=10)
    run = RunDirectory.create(tmp_path / "run", asked)
    values = {"q1": [0.5] * 12, "q2": [0.7] * 12}
    for method, why in (("RoBiRank", {"q1": [("bm25", 0.25), ("age", -0.1)]}), ("MART", {})):
        run.append_fit(fit(method, "Fold1", why=why), frame(method, "Fold1", values, 10))
    page = open_page(write_report(run.path))
    page.focus("#queries figure svg")
    told = []
    for _ in values:
        page.keyboard.press("ArrowRight")
        told.append(" ".join(page.text_content("#tooltip").split()))
    assert sum("RoBiRank: first above second" in text for text in told) == 1
    assert any("bm25 +0.25, age -0.1" in text for text in told)
    assert not any("MART: first above second" in text for text in told)

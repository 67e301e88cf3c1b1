"""The page in a browser: what people see, with a mouse, with keys, on a phone, on paper."""

import pytest

from lab.report.browser import count, errors, tab_to, texts
from robirank.serve import Keys, app
from robirank.serve.keys import hash_of
from serve.page.conftest import address_of
from serve.shop import ITEMS, N_ITEMS, NAMES, fitted, plays

NAMED = ".list .what a"
VIEWS = [
    ("#/taste", ".list li"),
    ("#/taste?user=u07", ".legend"),
    ("#/item", ".tiles a"),
    ("#/item/p03?item=p10", ".verdict"),
    ("#/map/p03", ".card h2"),
    ("#/compare?user=u07", ".histogram"),
    ("#/model", ".big"),
]


def names(positions):
    return [NAMES[item] for item in positions]


def open_view(look, address, ready, **options):
    page = look(address, **options)
    page.wait_for_selector(ready)
    return page


def test_a_user_is_recommended_what_the_model_says(shop_page, look):
    page = open_view(look, shop_page + "#/taste?user=u07", ".legend")
    assert texts(page, NAMED) == names(fitted().recommend("u07", plays(), N=10)[0])
    assert errors(page) == []


def test_reasons_add_up_to_the_score(shop_page, look):
    page = open_view(look, shop_page + "#/taste?user=u07", ".legend")
    page.click(".opens >> nth=0")
    effects = [float(t.replace("−", "-")) for t in texts(page, ".why tbody .number")[:60]]
    shown = page.locator(".list li >> nth=0").locator("tbody .number").count()
    score = float(page.locator(".score").first.inner_text())
    assert sum(effects[:shown]) == pytest.approx(score, abs=0.006 * shown)


def test_bars_end_at_the_score(shop_page, look):
    page = open_view(look, shop_page + "#/taste?user=u07", ".legend")
    ends = page.evaluate("""() => [...document.querySelectorAll('.what .bar')].map(bar => {
        const part = lane => [...bar.querySelectorAll(`rect[height="${lane}"]`)]
            .reduce((sum, rect) => sum + Number(rect.getAttribute('width')), 0);
        return [part(16) - part(5), Number(bar.querySelector('.mark').getAttribute('x'))];
    })""")
    assert len(ends) == 10
    for drawn, mark in ends:
        assert drawn == pytest.approx(mark, abs=0.01)
    scores = fitted().recommend("u07", plays(), N=10)[1]
    marks = [mark for _, mark in ends]
    assert [mark / marks[0] for mark in marks] == pytest.approx(scores / scores[0], abs=1e-3)


def test_clicking_items_together_changes_the_list_and_the_address(shop_page, look):
    page = open_view(look, shop_page, ".list li")
    first = texts(page, NAMED)[0]
    page.click(f"[aria-label='Likes {first}']")
    page.wait_for_selector(".chip.item")
    page.wait_for_selector(".legend")
    id = next(item for item, name in NAMES.items() if name == first)
    assert texts(page, NAMED) == names(fitted().recommend_for([id], N=10)[0])
    assert page.url.endswith(f"#/taste?item={id}")
    second = texts(page, NAMED)[0]
    page.click(f"[aria-label='Leave out {second}']")
    page.wait_for_selector(".chip.out")
    page.wait_for_function(
        "name => document.querySelector('.list a').textContent !== name", arg=second
    )
    assert second not in texts(page, NAMED)
    page.reload()
    page.wait_for_selector(f".chip.out a:text-is('{second}')")
    assert errors(page) == []


def test_a_taste_is_made_by_keys_alone(shop_page, look):
    page = open_view(look, shop_page, ".list li")
    page.keyboard.press("/")
    page.keyboard.type("product 1")
    page.wait_for_selector(".option")
    second = texts(page, ".option span")[1]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector(".chip.item")
    assert texts(page, ".chip.item a") == [second]
    page.keyboard.type("product 17")
    page.wait_for_selector(".option:has-text('Product 17')")
    page.keyboard.press("Enter")  # without a choice, the first
    page.wait_for_selector(".chip.item:has-text('Product 17')")
    page.wait_for_selector(".opens")
    tab_to(page, ".opens")
    page.keyboard.press("Enter")
    assert count(page, ".why:not([hidden]) .ladder") >= 1


def test_sliders_ask_anew(shop_page, look):
    page = open_view(look, shop_page + "#/taste?user=u07", ".legend")
    with page.expect_request(lambda r: "recommend" in r.url) as asked:
        page.focus("#slider-variety")
        page.keyboard.press("End")
    assert asked.value.post_data_json["variety"] == 1
    page.wait_for_function("() => location.hash.includes('variety=1')")
    page.wait_for_selector(".results[aria-busy=false]")
    varied = fitted().recommend("u07", plays(), N=10, variety=1.0)[0]
    assert texts(page, NAMED) == names(varied)


def test_rules_say_what_they_took_away(shop_page, look):
    address = shop_page + "#/taste?user=u07&where=stock+>+2&n=50"
    page = open_view(look, address, ".taken")
    kept = [ITEMS[n] for n in range(N_ITEMS) if n % 4 > 2]
    assert {*texts(page, NAMED)} <= {*names(kept)}
    assert "the list is short" in page.inner_text(".taken")
    taken = [int(text) for text in texts(page, ".taken .number")]
    assert sum(taken) == N_ITEMS - count(page, ".list > li")


def test_an_item_tells_its_neighbours_and_where_it_stands(shop_page, look):
    page = open_view(look, shop_page + "#/item/p03?item=p10", ".verdict")
    near = [item for item in fitted().similar_items("p03", N=13)[0] if item != "p03"]
    assert texts(page, ".lines a") == names(near)
    every = fitted().recommend_for(["p10"], N=N_ITEMS, filter_already_liked_items=False)[0]
    assert page.inner_text(".verdict strong") == str(every.tolist().index("p03") + 1)
    assert "Acme" in page.inner_text(".columns")
    assert errors(page) == []


def test_the_map_is_drawn_moved_and_searched(shop_page, look):
    page = open_view(look, shop_page + "#/map", ".inview li")
    drawn = page.evaluate("""() => {
        const { width, height } = document.querySelector('.points');
        const context = document.querySelector('.points').getContext('2d');
        const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
        return pixels.reduce((sum, pixel) => sum + (pixel !== pixels[0]), 0);
    }""")
    assert drawn > N_ITEMS
    everything = f"In view: {N_ITEMS} of {N_ITEMS} items"
    assert page.inner_text(".inview h2") == everything
    page.focus(".points")
    for _ in range(6):
        page.keyboard.press("+")
    title = "document.querySelector('.inview h2').textContent"
    page.wait_for_function(f"before => {title} !== before", arg=everything)
    page.keyboard.press("0")
    page.wait_for_function(f"before => {title} === before", arg=everything)
    box = page.locator(".points").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 300)
    page.mouse.wheel(0, -1500)
    page.wait_for_function(f"before => {title} !== before", arg=everything)
    page.mouse.down()
    page.mouse.move(box["x"] + 5_000, box["y"] + 300, steps=3)
    page.mouse.up()
    page.wait_for_function(f"() => {title}.startsWith('In view: 0 of')")
    page.fill("aside input[type=search]", "Product 42")
    page.wait_for_selector(".option")
    page.keyboard.press("Enter")
    page.wait_for_selector(".card h2")
    assert page.inner_text(".card h2") == "Product 42"
    assert errors(page) == []


def test_the_map_is_coloured_by_a_column(shop_page, look):
    page = open_view(look, shop_page + "#/map", ".inview li")
    page.select_option("aside select", "brand")
    page.wait_for_function("() => document.querySelector('.groups h2').textContent === 'brand'")
    assert texts(page, ".groups li span") == ["Acme", "Bolt", "Cord"]
    page.uncheck(".groups li:nth-child(1) input")
    page.wait_for_function(
        "() => document.querySelector('.inview h2').textContent.includes(': 40 of')"
    )


def test_two_models_side_by_side(shop_page, look):
    page = open_view(look, shop_page + "#/compare?user=u07", ".histogram")
    assert texts(page, ".side.left a") == names(fitted().recommend("u07", plays(), N=10)[0])
    assert texts(page, ".side.right a") == names(fitted(seed=1).recommend("u07", plays(), N=10)[0])
    both = {*texts(page, ".side.left a")} & {*texts(page, ".side.right a")}
    assert count(page, ".slopes path") == len(both)
    assert f"{len(both)} of 10" in page.inner_text(".results")
    assert errors(page) == []


def test_documents_of_a_query(ranker_page, look):
    page = open_view(look, ranker_page, "textarea")
    page.fill("textarea", "1 qid:3 1:0.5 2:0.1 #docid = a\n0 qid:3 1:0.1 4:1 #docid = b\n")
    page.click("text=Rank them")
    page.wait_for_selector(".ladder")
    effects = [float(t.replace("−", "-")) for t in texts(page, ".ladder tbody td:last-child")]
    scores = [float(t.replace("−", "-")) for t in texts(page, ".score")]
    assert sum(effects) == pytest.approx(scores[0] - scores[1], abs=0.03)
    assert {*texts(page, ".what > span:first-child")} == {"a", "b"}
    assert errors(page) == []


def test_what_if_a_feature_were_different(ranker_page, look):
    page = open_view(look, ranker_page, "textarea")
    page.click("text=Made-up documents")
    page.wait_for_selector(".curve path")
    first = texts(page, ".what > span:first-child")[0]
    before = page.inner_text(".score >> nth=0")
    for key in ("Home", "End"):
        page.focus(".panel.why input[type=range] >> nth=0")
        page.keyboard.press(key)
        page.wait_for_timeout(300)
        ids = texts(page, ".what > span:first-child")
        score = texts(page, ".score")[ids.index(first)]
        if score != before:
            break
    assert score != before
    page.click("text=As it is")
    page.wait_for_function(
        "before => document.querySelector('.score').textContent === before", arg=before
    )


def test_a_text_that_is_no_table_of_documents_says_what_would_be_right(ranker_page, look):
    page = open_view(look, ranker_page, "textarea")
    page.fill("textarea", "price,age\n1,2\n")
    page.click("text=Rank them")
    assert "The model knows the features f1" in page.inner_text("[role=alert]")


def test_an_unknown_user_is_told_so(shop_page, look):
    page = open_view(look, shop_page + "#/taste?user=nobody", ".problem")
    assert "nobody" in page.inner_text(".problem")
    assert page.inner_text(".problem p.small") == "Where: $.user"


def test_without_what_users_have_there_are_lists_without_reasons(look):
    address, end = address_of(app(fitted(), log_requests=False))
    page = open_view(look, address + "#/taste?user=u07", ".list li")
    assert "--train FILE" in page.inner_text(".results")
    assert errors(page) == []
    end()


def test_a_server_with_keys_asks_for_one(look):
    server = app(fitted(), keys=Keys([hash_of("secret")]), log_requests=False)
    address, end = address_of(server)
    page = look(address + "#/model", ready="dialog[open]")
    page.fill("dialog input", "guess")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog p:has-text('does not know this key')")
    page.fill("dialog input", "secret")
    page.keyboard.press("Enter")
    page.wait_for_selector(".big")
    end()


def visit(page, address, ready):
    """Go to another view of the same page."""
    page.evaluate("hash => { location.hash = hash; }", address)
    name = address.removeprefix("#/").split("?")[0].split("/")[0]
    page.wait_for_selector(f".view-{name} {ready}")


def test_no_view_is_wider_than_a_phone(shop_page, look):
    page = look(shop_page, width=390)
    for address, ready in VIEWS:
        visit(page, address, ready)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
        assert not {"null", "undefined", "NaN"} & {*page.inner_text("main").split()}
    assert errors(page) == []


def violations(page):
    """What axe-core finds in light and in dark colours."""
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        told = page.evaluate("axe.run().then(told => told.violations)")
        found += [(scheme, one["id"], one["nodes"][0]["html"][:200]) for one in told]
    return found


def test_contrast_and_labels(shop_page, look, axe):
    page = look(shop_page)
    page.evaluate(axe)
    for address, ready in VIEWS:
        visit(page, address, ready)
        if address.startswith("#/taste?"):
            page.click(".opens >> nth=0")
        assert violations(page) == [], address


def test_contrast_and_labels_of_a_query(ranker_page, look, axe):
    page = open_view(look, ranker_page, "textarea")
    page.evaluate(axe)
    assert violations(page) == []
    page.click("text=Made-up documents")
    page.wait_for_selector(".curve path")
    assert violations(page) == []


def test_paper_has_the_list_and_no_controls(shop_page, look):
    page = open_view(look, shop_page + "#/taste?user=u07", ".legend")
    page.emulate_media(media="print")
    assert page.is_visible(".list")
    for control in ("#views", ".search", ".wishes", ".acts", "#theme"):
        assert not page.is_visible(control)

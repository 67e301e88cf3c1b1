"""Rules on the command line: the options, and conditions as text."""

import contextlib
import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import robirank as rr
from cli.test_features import N_OLD, error_of, lists, products, run, train, write
from cli.test_features import purchases as all_purchases
from robirank.data.where import condition

SHOP = pl.DataFrame(
    {
        "id": [1, 2, 3, 4],
        "stock": [3, 0, None, 9],
        "brand": ["Acme", "El Sol", "and", None],
        "on sale": [True, False, True, None],
        "since": pl.Series(["2024-01-01", "2024-06-01", "2025-01-01", None]).str.to_date(),
    }
)


def found(text):
    return SHOP.filter(condition(text, SHOP.schema))["id"].to_list()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("stock > 0", [1, 4]),
        ("stock>=3", [1, 4]),
        ("not stock > 0", [2]),  # what is missing meets nothing
        ("stock = 3 or stock == 9 and brand != Acme", [1]),
        ("(stock = 3 or stock = 0) and brand != Acme", [2]),
        ("brand = 'El Sol'", [2]),
        ('brand in ("El Sol", Acme)', [1, 2]),
        ("NOT brand in (Acme) AND NOT brand = 'and'", [2]),
        ("brand = 'and'", [3]),
        ("'on sale' = true", [1, 3]),
        ('"on sale" = False and stock < 1.5', [2]),
        ("since >= 2024-06-01", [2, 3]),
        ("stock <= -1", []),
    ],
)
def test_conditions(text, ids):
    assert found(text) == ids


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a column must stand at the end"),
        ("stok > 0", r"there is no column 'stok' in the table of items; it has \['id', 'stock'"),
        ("stock", "one of = != < <= > >= in must stand at the end"),
        ("stock > ", "a value must stand at the end"),
        ("stock > many", "'many' is no value of column 'stock', which holds Int64"),
        ("stock > 0 brand = Acme", "'and', 'or' or the end must stand in place of 'brand'"),
        ("(stock > 0", r"'\)' must stand at the end"),
        ("brand in Acme", r"'\(' must stand in place of 'Acme'"),
        ("brand = 'Acme", 'cannot be read from "\'Acme" on'),
        ("stock > > 0", "a value must stand in place of '>'"),
        ("__import__('os')", "there is no column '__import__'"),
    ],
)
def test_conditions_that_cannot_be_read(text, message):
    with pytest.raises(ValueError, match=message):
        found(text)


@given(st.text(max_size=30))
def test_any_text_is_a_condition_or_an_error(text):
    with contextlib.suppress(ValueError):
        found(text)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A model of the small shop, and the table of its products."""
    root = tmp_path_factory.mktemp("rules")
    write(root / "purchases.csv", all_purchases())
    table = products()[:N_OLD].with_columns(stock=pl.Series([0, 1, 2, 3, 4] * 3))
    write(root / "items.csv", table)
    train(root, root / "model")
    return root


def rules_of(shop, **arguments):
    return rr.Rules(pl.read_csv(shop / "items.csv"), "sku", **arguments)


def test_the_answer_is_that_of_the_library(shop):
    model, bought = rr.load_model(shop / "model"), rr.load_interactions(shop / "purchases.csv")
    rules = rules_of(
        shop,
        allow=(pl.col("stock") > 0) & (pl.col("brand") != "Bolt"),
        at_most={"brand": 2, "rooms:garden": 1},
        at_least={"brand:Cora": 1},
        pin={1: "p13"},
        ties="price",
    )
    names, _ = model.recommend(["u1", "u5"], bought, 3, rules=rules)
    options = ["--items-table", shop / "items.csv", "--where", "stock > 0 and brand != Bolt"]
    options += ["--at-most", "brand=2", "--at-most", "rooms:garden=1", "--at-least", "brand:Cora=1"]
    options += ["--pin", "1=p13", "--ties", "price", "--train", shop / "purchases.csv"]
    got = lists("recommend", shop / "model", "u1", "u5", "-n", "3", *options)
    assert list(got.values()) == [[name for name in row if name] for row in names.tolist()]
    assert got["u5"][0] == "p13"


def test_pins_need_no_table(shop):
    got = lists("recommend", shop / "model", "u1", "-n", "2", "--pin", "2=p7")
    assert got["u1"][1] == "p7"


def test_short_lists_are_told_by_option(shop):
    command = ["latent", "recommend", shop / "model", "u0", "u1", "--json", "-n", "4"]
    command += ["--items-table", shop / "items.csv", "--train", shop / "purchases.csv"]
    result = run(*command, "--where", "stock > 3 and brand = Acme")
    assert "2 of 2 users got fewer than 4 items; taken away of 15 items for 'u0'" in result.stderr
    assert "--where 10" in result.stderr
    assert "what the user has 4" in result.stderr
    assert "ShortAnswer" not in result.stderr
    assert json.loads(result.stdout)[0]["items"][0]["item"] == "p4"
    few = run(*command, "--at-least", "stock:4=4").stderr
    assert "fewer than the 4 items of --at-least stock:4" in few


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", "stock > 0"], "--where needs --items-table"),
        (["--item-id", "sku"], "--item-id needs --items-table"),
        (["TABLE", "--where", "stok > 0"], "there is no column 'stok' in the table of items"),
        (["TABLE", "--at-most", "brand"], "--at-most must be such as brand=2; got 'brand'"),
        (["TABLE", "--at-most", "brand=two"], "--at-most brand=two: 'two' is no whole number"),
        (["TABLE", "--at-most", "brand=-1"], "must be an integer from 0 on; got -1"),
        (["TABLE", "--at-most", "brnad=1"], "--at-most brnad names the column 'brnad'"),
        (["TABLE", "--at-least", "brand=1"], "--at-least needs a value of the column"),
        (["TABLE", "--ties", "prize"], "--ties names the column 'prize'"),
        (["--pin", "p7"], "--pin must be such as 1=p003; got 'p7'"),
        (["--pin", "1=p7", "--pin", "1=p8"], "--pin 1=p8: '1' is given twice"),
        (["--pin", "1=p99"], "there is no item 'p99'"),
        (["TABLE", "--pin", "1=p0", "--where", "stock > 0"], "--pin contradicts"),
        (["TABLE"], "--items-table needs a rule"),
        (["TABLE", "--ties", "price", "--item-id", "ean"], "--item-id ean is not a column of"),
    ],
)
def test_what_cannot_be_is_said(shop, arguments, message):
    table = ["--items-table", shop / "items.csv"]
    arguments = [*table, *arguments[1:]] if arguments[0] == "TABLE" else arguments
    assert message in error_of("latent", "recommend", shop / "model", "u1", "-q", *arguments)

"""Features on the command line: files of what is known of items and users."""

import gzip
import json
import warnings

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import robirank as rr
from robirank.cli import recommend
from robirank.cli.app import app

BRANDS, ROOMS, CITIES = ("Acme", "Bolt", "Cora"), ("bath", "kitchen", "garden"), ("Bern", "Rome")
N_ITEMS, N_OLD, N_USERS = 18, 15, 24
SMALL = ("--factors", "4", "--iterations", "8", "--regularization", "0.3", "--threads", "1")
QUIET = (*SMALL, "-q")


def products():
    """A row for each item; the last three have no purchases."""
    rows = []
    for k in range(N_ITEMS):
        rooms = [ROOMS[k % 3], *([ROOMS[(k + 1) % 3]] if k % 4 == 0 else [])]
        price = None if k == 4 else 1.5 * k + 1
        title = f"a {BRANDS[k // 6]} tool for the {rooms[0]}"
        rows.append((f"p{k}", BRANDS[k // 6], "|".join(rooms), price, title))
    return pl.DataFrame(rows, ["sku", "brand", "rooms", "price", "title"], orient="row")


def customers():
    """A row for each user, and for one without a purchase."""
    rows = [(f"u{k}", CITIES[k % 2], 20 + k) for k in range(N_USERS + 1)]
    return pl.DataFrame(rows, ["user", "city", "age"], orient="row")


def purchases():
    """Each user buys things for one room: what belongs to a room is seen in features alone."""
    rows = [
        (f"u{u}", f"p{k}")
        for u in range(N_USERS)
        for k in range(N_OLD)
        if k % 3 == u % 3 and (u + k) % 5
    ]
    return pl.DataFrame(rows, ["user", "item"], orient="row")


def write(path, frame):
    if ".parquet" in path.name or path.name.endswith(".pq"):
        frame.write_parquet(path)
        return path
    text = frame.write_csv(separator="\t" if ".tsv" in path.name else ",").encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Files of a small shop, a model with features of both sides, and one without any."""
    root = tmp_path_factory.mktemp("shop")
    write(root / "purchases.csv", purchases())
    write(root / "products.csv", products())
    write(root / "customers.csv", customers())
    described = ("--item-features", root / "products.csv")
    described += ("--user-features", root / "customers.csv")
    train(root, root / "model", *described)
    train(root, root / "plain")
    return root


def run(*arguments, expect=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    detail = f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    assert result.exit_code == expect, detail
    assert "Traceback" not in detail
    return result


def train(shop, out, *options):
    """Train quietly, and return the report."""
    command = ("latent", "train", shop / "purchases.csv", "-o", out, *QUIET, *options, "--json")
    return json.loads(run(*command).stdout)


def error_of(*arguments):
    """What a command that must fail says: nothing on standard output, all in one line."""
    result = run(*arguments, expect=2)
    assert result.stdout == ""
    return " ".join(result.stderr.replace("│", " ").split())


def lists(*arguments):
    """The items of each user, best first, as `recommend` or `similar` gives them."""
    answer = json.loads(run("latent", *arguments, "--json", "-q").stdout)
    asked = "like" if arguments[0] == "similar" else "user"
    return {one[asked]: [row["item"] for row in one["items"]] for one in answer}


def columns_of(path, side="item"):
    """The settings of the columns that a saved model knows, by name."""
    centres = getattr(rr.load_model(path), f"{side}_centres_")
    return {column.settings.name: column.settings for column in centres.features.encoder.columns}


# Train


def test_training_is_that_of_the_library(shop, tmp_path):
    model = rr.LatentRoBiRank(4, iterations=8, regularization=0.3, random_state=0, num_threads=1)
    model.fit(
        rr.load_interactions(shop / "purchases.csv"),
        show_progress=False,
        item_features=rr.Features.from_file(shop / "products.csv", "sku"),
        user_features=rr.Features.from_file(shop / "customers.csv", "user"),
    )
    model.save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == (shop / "model").read_bytes()


def test_the_report_counts_what_has_features(shop, tmp_path):
    described = ("--item-features", shop / "products.csv")
    report = train(shop, tmp_path / "m", *described, "--user-features", shop / "customers.csv")
    counts = {"users": 25, "users_with_features": 25, "users_by_features_alone": 1}
    counts |= {"items": 18, "items_with_features": 18, "items_by_features_alone": 3}
    assert report == report | counts
    assert list(rr.load_model(tmp_path / "m").item_ids_)[N_OLD:] == ["p15", "p16", "p17"]
    few = write(tmp_path / "few.csv", products()[10:])
    report = train(shop, tmp_path / "m", "--item-features", few)
    counts = {"users": 24, "items": 18, "items_with_features": 8, "items_by_features_alone": 3}
    assert report == report | counts
    assert "users_with_features" not in report
    plain = train(shop, tmp_path / "m")
    assert (plain["users"], plain["items"]) == (N_USERS, N_OLD)
    assert not any("features" in name for name in plain)


@pytest.mark.parametrize("suffix", [".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq"])
def test_files_of_every_kind_hold_the_same(shop, tmp_path, suffix):
    items, users = products(), customers()
    if suffix in (".parquet", ".pq"):
        items = items.with_columns(pl.col("rooms").str.split("|"))
    items, users = (write(tmp_path / f"{n}{suffix}", f) for n, f in (("i", items), ("u", users)))
    train(shop, tmp_path / "m", "--item-features", items, "--user-features", users)
    assert (tmp_path / "m").read_bytes() == (shop / "model").read_bytes()


def test_the_column_of_ids(shop, tmp_path):
    """`id` before `item` before the first column; --item-id before all."""
    train(shop, tmp_path / "first", "--item-features", shop / "products.csv")
    expected = (tmp_path / "first").read_bytes()
    brand_first = products().select("brand", "rooms", "price", "title", "sku")
    for name in ("id", "item"):
        path = write(tmp_path / "i.csv", brand_first.rename({"sku": name}))
        train(shop, tmp_path / "m", "--item-features", path)
        assert (tmp_path / "m").read_bytes() == expected
    path = write(tmp_path / "i.csv", brand_first.with_columns(id=pl.lit("x")))
    options = ("--item-features", path, "--item-id", "sku", "--feature-weights", "id=0")
    train(shop, tmp_path / "m", *options)
    assert (tmp_path / "m").read_bytes() == expected
    users = write(tmp_path / "u.csv", customers().select("age", "city", who="user"))
    train(shop, tmp_path / "m", "--user-features", users, "--user-id", "who")
    assert [*columns_of(tmp_path / "m", "user")] == ["age", "city"]


def test_integers_of_one_file_are_text_of_another(shop, tmp_path):
    bought = purchases().with_columns(pl.col("item").str.strip_prefix("p").cast(pl.Int64))
    write(tmp_path / "purchases.csv", bought)
    integers = products().with_columns(pl.col("sku").str.strip_prefix("p").cast(pl.Int64))
    out = tmp_path / "m"
    train(tmp_path, out, "--item-features", write(tmp_path / "i.csv", integers))
    assert rr.load_model(out).item_ids_.kind == "int"
    text = integers.with_columns(pl.col("sku").cast(pl.String).replace("17", "x17"))
    for suffix in ("csv", "parquet"):
        options = ("--item-features", write(tmp_path / f"t.{suffix}", text), "--hold-out", "0.2")
        report = train(tmp_path, out, *options)
        assert report["items_by_features_alone"] == 3
        assert list(rr.load_model(out).item_ids_)[-1] == "x17"
    write(tmp_path / "one.csv", pl.DataFrame({"user": ["u1"], "item": [7]}))
    lists_of_u1 = lists("recommend", out, "u1", "--train", tmp_path / "one.csv", "-n", 99)["u1"]
    assert set(lists_of_u1) == {*map(str, range(17)), "x17"} - {"7"}


def test_what_is_read_is_said(shop, tmp_path):
    path = write(tmp_path / "i.csv", products().with_columns(shop=pl.lit("here")))
    command = ("latent", "train", shop / "purchases.csv", "-o", tmp_path / "m", *SMALL)
    said = run(*command, "--item-features", path).stderr
    kinds = "brand (category), rooms (list), price (number), title (text), shop (category)"
    assert f"read {path}: 18 items, ids in 'sku': {kinds}" in said
    assert f"{path}: column 'shop' has the same value in all rows, which says nothing" in said
    assert "'brand' has the same value" not in said
    assert run(*command, "--item-features", path, "-q").stderr == ""


def test_kinds_and_separators_reach_the_model(shop, tmp_path):
    frame = products().with_columns(
        pl.col("rooms").str.replace_all("|", ";", literal=True),
        since=pl.lit("2024-05-17"),
        zip=pl.Series([f"{k:03d}" for k in range(N_ITEMS)]),
    )
    options = ("--item-features", write(tmp_path / "i.csv", frame), "--list-separator", ";")
    kinds = "since=date, zip=category,price=category"
    train(shop, tmp_path / "m", *options, "--kinds", kinds)
    known = {name: column.kind for name, column in columns_of(tmp_path / "m").items()}
    expected = {"brand": "category", "rooms": "list", "price": "category", "title": "text"}
    assert known == expected | {"since": "date", "zip": "category"}
    names = rr.load_model(tmp_path / "m").item_centres_.features.encoder.names
    assert {"rooms=bath", "zip=007", "price=1.0"} <= {*names}
    train(shop, tmp_path / "m", *options[:2])
    known = columns_of(tmp_path / "m")
    assert (known["rooms"].kind, known["zip"].kind) == ("category", "number")


def test_a_vector_is_a_list_of_numbers_in_parquet(shop, tmp_path):
    vectors = pl.Series([[float(k), 1.0, -k / 3] for k in range(N_ITEMS)])
    path = write(tmp_path / "i.parquet", products().select("sku", image=vectors))
    train(shop, tmp_path / "m", "--item-features", path)
    assert columns_of(tmp_path / "m")["image"].kind == "vector"
    message = error_of("latent", "recommend", tmp_path / "m", "--feature", "image=3")
    assert "trained without features of users" in message


def test_weights_reach_the_model_and_0_leaves_a_column_out(shop, tmp_path):
    options = ("--item-features", shop / "products.csv", "--user-features", shop / "customers.csv")
    weights = "title=0.5, price=0,city=2"
    train(shop, tmp_path / "m", *options, "--feature-weights", weights)
    known = {name: column.weight for name, column in columns_of(tmp_path / "m").items()}
    assert known == {"brand": 1.0, "rooms": 1.0, "title": 0.5}
    assert columns_of(tmp_path / "m", "user")["city"].weight == 2.0
    without = write(tmp_path / "i.csv", products().drop("price"))
    run("latent", "add-items", tmp_path / "m", without, "-o", tmp_path / "m", "-q")


def test_a_number_that_is_missing_or_nan_is_unknown(shop, tmp_path):
    text = (shop / "products.csv").read_text()
    row = next(line for line in text.splitlines() if line.startswith("p4,"))
    path = tmp_path / "i.csv"
    path.write_text(text.replace(row, row.replace(",,", ",NaN,")))
    train(shop, tmp_path / "m", "--item-features", path)
    train(shop, tmp_path / "same", "--item-features", shop / "products.csv")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "same").read_bytes()
    encoder = rr.load_model(tmp_path / "m").item_centres_.features.encoder
    assert "price is missing" in encoder.names


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "warp"),
        ("--solver", "sgd"),
        ("--hold-out", "0.2", "--patience", "2"),
    ],
)
def test_features_go_with_other_options(shop, tmp_path, options):
    described = ("--item-features", shop / "products.csv")
    described += ("--user-features", shop / "customers.csv")
    report = train(shop, tmp_path / "m", *described, *options)
    assert (report["items_by_features_alone"], report["users_by_features_alone"]) == (3, 1)
    new = lists("recommend", tmp_path / "m", "--feature", "city=Rome", "--new-only")
    assert set(new["new user"]) == {"p15", "p16", "p17"}


def test_a_broken_off_fit_goes_on(shop, tmp_path):
    described = ("--item-features", shop / "products.csv")
    described += ("--user-features", shop / "customers.csv")
    checkpoint = ("--checkpoint", tmp_path / "c", *described)
    train(shop, tmp_path / "m", *checkpoint)
    train(shop, tmp_path / "m", *checkpoint, "--resume")
    assert (tmp_path / "m").read_bytes() == (shop / "model").read_bytes()


def test_tune_searches_with_the_features(shop, tmp_path):
    command = ("latent", "train", shop / "purchases.csv", "-o", tmp_path / "m", "--tune", "-q")
    command += ("--factors", "2", "--iterations", "3", "--threads", "1", "--json")
    found = {}
    for name, options in (("with", ["--item-features", shop / "products.csv"]), ("without", [])):
        found[name] = json.loads(run(*command, *options).stdout)["regularization"]
    assert found["with"] > 0
    assert found["with"] != found["without"]


# What is wrong with a file or an option


def change(old, new):
    return lambda text: text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        (None, [], "i.csv: there is no such file"),
        (lambda _: "", [], "i.csv: cannot be read: empty CSV"),
        (change("p3,", "p5,"), [], "i.csv: sku must differ from row to row; rows 3 and 5 are both"),
        (change("p3,", ","), [], "i.csv: sku must hold an id in every row; row 3 has none"),
        (change("p3,Acme", "p3,A,B"), [], "i.csv is damaged: found more fields than defined"),
        (change(",5.5,", ",inf,"), [], "i.csv: price must hold finite numbers; row 3 has inf"),
        (
            change(",5.5,", ",cheap,"),
            ["--kinds", "price=number"],
            "i.csv: price must hold finite numbers; row 3 has 'cheap'",
        ),
        (str, ["--kinds", "brand=vector"], "i.csv: brand must hold vectors of numbers; row 0 has"),
        (str, ["--kinds", "brand=date"], "i.csv: brand must hold numbers or dates such as 2024-"),
        (str, ["--kinds", "brand=word"], "--kinds brand=word: a kind is one of category, list,"),
        (str, ["--kinds", "brand=counts"], "--kinds brand=counts: a kind is one of category,"),
        (str, ["--kinds", "brnd=list"], "--kinds brnd=list: there is no column 'brnd' of features"),
        (str, ["--kinds", "sku=list"], "no column 'sku' of features; PATH has ['brand', 'rooms',"),
        (str, ["--kinds", "brand"], "must be such as genres=list,zip=category; got 'brand'"),
        (str, ["--kinds", ""], "--kinds must be such as genres=list,zip=category; got ''"),
        (str, ["--feature-weights", "brand=-1"], "i.csv: weights['brand'] must be a finite number"),
        (str, ["--feature-weights", "brand=nan"], "brand=nan must be a finite number"),
        (str, ["--feature-weights", "brand=x"], "--feature-weights brand=x must be a finite"),
        (str, ["--feature-weights", "cost=2"], "there is no column 'cost' of features; PATH has"),
        (
            str,
            ["--feature-weights", "brand=0,rooms=0,price=0,title=0"],
            "i.csv: must have a column beside the ids in 'sku' to which --feature-weights gives",
        ),
        (lambda _: "sku\np1\n", [], "i.csv: must have a column beside the ids in 'sku'"),
        (lambda _: "sku,brand\n", [], "--item-features must have rows for some of the 15 that the"),
        (
            lambda text: text.replace("p", "q"),
            [],
            "--item-features must have rows for some of the 15 that the table has, such as 'p",
        ),
        (str, ["--item-id", "brand"], "i.csv: brand must differ from row to row; rows 0 and 1"),
        (str, ["--item-id", "ean"], "--item-id ean is not a column of PATH; it has ['sku',"),
        (str, ["--list-separator", ""], "i.csv: separator must be text; got ''"),
    ],
)  # fmt: skip
def test_wrong_files_and_options(shop, tmp_path, changed, options, message):
    path, out = tmp_path / "i.csv", tmp_path / "m"
    if changed is not None:
        path.write_text(changed((shop / "products.csv").read_text()))
    command = ("latent", "train", shop / "purchases.csv", "-o", out, *SMALL, "-q")
    said = error_of(*command, "--item-features", path, *options)
    assert said.startswith("robirank: error: ")
    assert message.replace("PATH", str(path)) in said
    assert said.count(str(path)) <= 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PAR1 no, this is not Parquet", "cannot be read: parquet: "),
        (pl.DataFrame({"sku": ["p0", "p1"], "v": [[1.0, 2.0], [3.0]]}), "v must hold vectors of"),
        (pl.DataFrame({"sku": ["p0"], "v": [[1.0, float("nan")]]}), "v must hold finite numbers; "),
        (pl.DataFrame({"sku": [None, "p0"], "v": [1, 2]}), "sku must hold an id in every row; row"),
        (pl.DataFrame(), "must have columns; it has none"),
    ],
)
def test_wrong_parquet_files(shop, tmp_path, content, message):
    path = tmp_path / "i.parquet"
    path.write_bytes(content) if isinstance(content, bytes) else content.write_parquet(path)
    command = ("latent", "train", shop / "purchases.csv", "-o", tmp_path / "m", *QUIET)
    said = error_of(*command, "--item-features", path)
    assert f"error: --item-features {path}: {message}" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--item-id", "sku"], "--item-id needs --item-features"),
        (["--user-features", "customers.csv", "--item-id", "x"], "--item-id needs --item-features"),
        (["--user-id", "user"], "--user-id needs --user-features"),
        (["--kinds", "a=list"], "--kinds needs --item-features or --user-features"),
        (["--feature-weights", "a=1"], "--feature-weights needs --item-features or"),
        (["--list-separator", ";"], "--list-separator needs --item-features or --user-features"),
    ],
)
def test_options_without_their_file(shop, tmp_path, options, message):
    out = tmp_path / "m"
    assert message in error_of("latent", "train", shop / "purchases.csv", "-o", out, *options)
    assert not out.exists()


def test_errors_in_a_column_of_both_files_name_the_right_one(shop, tmp_path):
    items = write(tmp_path / "i.csv", products().select("sku", age="price"))
    users = write(tmp_path / "u.csv", customers().with_columns(age=pl.lit("old")))
    command = ("latent", "train", shop / "purchases.csv", "-o", tmp_path / "m", *QUIET)
    options = ("--item-features", items, "--user-features", users, "--kinds", "age=number")
    said = error_of(*command, *options)
    assert f"error: --user-features {users}: age must hold finite numbers; row 0 has 'old'" in said


def test_what_is_read_is_not_written_over(shop, tmp_path):
    content = write(tmp_path / "f.csv", products()).read_bytes()
    out = ("-o", tmp_path / "f.csv")
    train_it = ("latent", "train", shop / "purchases.csv", *QUIET)
    for command in (
        (*train_it, "--item-features", tmp_path / "f.csv"),
        (*train_it, "--user-features", tmp_path / "f.csv"),
        ("latent", "add-items", shop / "model", tmp_path / "f.csv"),
        ("latent", "remove-items", shop / "model", "--items", tmp_path / "f.csv"),
        ("latent", "recommend", shop / "model", "--features", tmp_path / "f.csv"),
    ):
        assert f"cannot write {tmp_path / 'f.csv'}: it is read as well" in error_of(*command, *out)
    assert (tmp_path / "f.csv").read_bytes() == content


# Recommend


def test_a_user_of_whom_features_alone_are_known(shop):
    result = run("latent", "recommend", shop / "model", "u24", "--train", shop / "purchases.csv")
    assert "no interaction" not in result.stderr
    model = rr.load_model(shop / "model")
    best = model.recommend("u24", None, filter_already_liked_items=False)[0].tolist()
    assert [line.split("\t")[2] for line in result.stdout.splitlines()[1:]] == best


def test_new_or_old_items_only(shop, tmp_path):
    ask = ("recommend", shop / "model", "u0", "--train", shop / "purchases.csv", "-n", 99)
    both, new, old = (lists(*ask, *more)["u0"] for more in ([], ["--new-only"], ["--old-only"]))
    assert set(new) == {"p15", "p16", "p17"}
    assert set(old) == {f"p{k}" for k in range(N_OLD)} - {"p3", "p6", "p9", "p12"}
    assert new == [item for item in both if item in new]
    assert old == [item for item in both if item in old]
    (tmp_path / "some").write_text("p16\np17\np2\n")
    assert set(lists(*ask, "--new-only", "--only", tmp_path / "some")["u0"]) == {"p16", "p17"}
    assert lists(*ask, "--new-only", "--exclude", tmp_path / "some")["u0"] == ["p15"]


def test_a_new_user_by_what_is_known_of_them(shop):
    model = rr.load_model(shop / "model")
    for typed, values in (
        (["city=Rome", "age=30"], {"city": "Rome", "age": "30"}),
        (["city=Bern"], {"city": "Bern"}),
        (["age="], {"age": None}),
    ):
        options = [part for text in typed for part in ("--feature", text)]
        best = lists("recommend", shop / "model", *options)["new user"]
        assert best == model.by_id.recommend_for([], features=values)[0].tolist()
        likes = ("--likes", "p0,p3")
        best = lists("recommend", shop / "model", *options, *likes)["new user"]
        assert best == model.recommend_for(["p0", "p3"], features=values)[0].tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--feature", "city"], "--feature must be COLUMN=VALUE; got 'city'"),
        (["--feature", "town=Rome"], "--feature town=Rome: there is no column 'town'; there are"),
        (["--feature", "age=3", "--feature", "age=4"], "--feature age=4: 'age' is given twice"),
        (["--feature", "age=old"], "--feature age=old must be a finite number"),
        (["--feature", "age=inf"], "--feature age=inf must be a finite number"),
        (["--feature", "age=1", "u1"], "say whose lists: USER..., --users FILE, --all, or for new"),
        (["--feature", "age=1", "--features", "u.csv"], "say whose lists: USER..., --users FILE,"),
        (["--feature", "age=1", "--train", "x.csv"], "--train is for users of the model"),
        (["--user-id", "who", "u1"], "--user-id needs --features"),
        (["--new-only", "--old-only", "u1"], "give --new-only or --old-only, not both"),
        (["--features", "none.csv"], "--features none.csv: there is no such file"),
    ],
)
def test_wrong_options_of_recommend(shop, arguments, message):
    assert message in error_of("latent", "recommend", shop / "model", *arguments, "-q")


def test_a_model_without_features(shop, tmp_path):
    plain, users = shop / "plain", shop / "customers.csv"
    without = "cannot be used: the model was trained without features of"
    for command, what in (
        (("recommend", plain, "--feature", "city=Rome"), f"--feature {without} users"),
        (("recommend", plain, "--features", users), f"--features {users} {without} users"),
        (
            ("add-items", plain, shop / "products.csv", "-o", tmp_path / "m"),
            f"{shop / 'products.csv'} {without} items; `latent train --item-features` takes them",
        ),
    ):
        assert f"error: {what}" in error_of("latent", *command, "-q")
    message = error_of("latent", "recommend", plain, "u1", "--new-only", "-q")
    assert "the model must have an item that may come with --new-only; it has none" in message


def test_new_users_of_a_file(shop, tmp_path, monkeypatch):
    path = write(tmp_path / "u.csv", customers()[:5].select(who="user", city="city", age="age"))
    ask = ("recommend", shop / "model", "--features", path)
    everyone = lists(*ask)
    model = rr.load_model(shop / "model")
    features = rr.Features.from_file(path, "who")
    best, _ = model.by_id.recommend_for([[]] * 5, features=features)
    assert [*everyone.items()] == [(f"u{k}", best[k].tolist()) for k in range(5)]
    assert lists(*ask, "u3", "u1") == {who: everyone[who] for who in ("u3", "u1")}
    monkeypatch.setattr(recommend, "_CHUNK_USERS", 2)
    assert lists(*ask) == everyone
    moved = write(tmp_path / "v.csv", customers()[:5].select("age", "city", who="user"))
    assert lists("recommend", shop / "model", "--features", moved, "--user-id", "who") == everyone
    message = error_of("latent", *ask, "u9", "-q")
    assert f"there is no user 'u9' in {path}" in message


def test_new_users_by_history_and_features(shop, tmp_path):
    users = write(tmp_path / "u.csv", pl.DataFrame({"id": [1, 2], "city": ["Rome", "Bern"]}))
    had = [("2", "p0"), ("2", "p3"), ("x", "p1"), ("y", "p99")]
    history = write(tmp_path / "h.csv", pl.DataFrame(had, ["user", "item"], orient="row"))
    ask = ("recommend", shop / "model", "--features", users, "--history", history, "-n", 5)
    found = lists(*ask)
    model = rr.load_model(shop / "model")

    def expected(liked, features):
        return model.by_id.recommend_for(liked, 5, features=features)[0].tolist()

    assert found["1"] == expected([], {"city": "Rome"})
    assert found["2"] == expected(["p0", "p3"], {"city": "Bern"})
    assert found["x"] == expected(["p1"], {})
    assert set(found) == {"1", "2", "x"}  # of y nothing is known
    assert lists(*ask, "2") == {"2": found["2"]}
    message = error_of("latent", *ask, "y", "-q")
    assert "has no item that the model knows, so nothing can be learned about them" in message


def test_columns_of_new_users_may_be_missing_or_strange(shop, tmp_path):
    frame = pl.DataFrame({"id": ["a", "b"], "city": ["Rome", "Oslo"], "shoe": [40, 41]})
    path = write(tmp_path / "u.csv", frame)
    result = run("latent", "recommend", shop / "model", "--features", path)
    assert f"{path}: without the columns ['age'], which count as unknown" in result.stderr
    strange = f"{path}: passed over the columns ['shoe'], which the model was not trained with"
    assert strange in result.stderr
    warned = f"warning: {path}: values that the fit had not seen were passed over, 1 of 'city'"
    assert result.stderr.count(warned) == result.stderr.count("warning") == 1
    none = write(tmp_path / "none.csv", frame.select("id", "shoe"))
    message = error_of("latent", "recommend", shop / "model", "--features", none)
    assert (
        "must have the columns ['city', 'age'] that the model was trained with; it has" in message
    )
    wrong = write(tmp_path / "w.csv", frame.select("id", age=pl.Series(["30", "old"])))
    message = error_of("latent", "recommend", shop / "model", "--features", wrong, "-q")
    assert f"--features {wrong}: age must hold finite numbers; row 1 has 'old'" in message


def test_lists_of_new_users_in_a_file(shop, tmp_path):
    ask = ("latent", "recommend", shop / "model", "--features", shop / "customers.csv", "-q")
    run(*ask, "-n", 2, "-o", tmp_path / "out.csv")
    frame = pl.read_csv(tmp_path / "out.csv")
    assert frame.columns == ["user", "rank", "item", "score"]
    assert len(frame) == 2 * (N_USERS + 1)


def test_values_stay_as_they_are_written(shop, tmp_path):
    """A category of digits is the same in the file of the fit, in another one, and as typed."""
    codes = [f"{k % 2:02d}" for k in range(N_USERS + 1)]
    users = customers().select("user", zip=pl.Series(codes), member=pl.col("age") > 30)
    path = write(tmp_path / "u.csv", users)
    path.write_text(path.read_text().replace("true", "True").replace("false", "False"))
    train(shop, tmp_path / "m", "--user-features", path, "--kinds", "zip=category")
    one = write(tmp_path / "one.csv", pl.DataFrame({"id": ["n"], "zip": ["01"]}))
    one.write_text("id,zip,member\nn,01,True\n")
    result = run("latent", "recommend", tmp_path / "m", "--features", one)
    assert "warning" not in result.stderr
    typed = ("--feature", "zip=01", "--feature", "member=True")
    assert lists("recommend", tmp_path / "m", *typed)["new user"] == [
        line.split("\t")[2] for line in result.stdout.splitlines()[1:]
    ]


# Change the catalogue


def new_products():
    rows = [("n0", "Acme", "bath", 3.0, "a tool"), ("n1", "Dune", "garden|moon", None, "a thing")]
    return pl.DataFrame(rows, products().columns, orient="row")


def test_add_items(shop, tmp_path):
    path, out = write(tmp_path / "n.csv", new_products()), tmp_path / "m"
    result = run("latent", "add-items", shop / "model", path, "-o", out, "--json")
    counts = {"new_items": 2, "known_items": 0, "unknown_values": 3, "items": 20}
    assert json.loads(result.stdout) == counts | {"model": str(out)}
    unknown = "1 of 'brand', 1 of 'rooms', 1 of 'title'"
    assert f"warning: {path}: values that the fit had not seen were passed over, {unknown}" in (
        result.stderr
    )
    assert result.stderr.count("warning") == 1
    model = rr.load_model(shop / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.add_items(rr.Features.from_file(path, "sku"))
    np.testing.assert_array_equal(rr.load_model(out).item_factors, model.item_factors)
    new = lists("recommend", out, "u0", "--new-only")["u0"]
    assert set(new) == {"p15", "p16", "p17", "n0", "n1"}


def test_features_of_known_items_are_replaced(shop, tmp_path):
    """An item of features alone moves; one with interactions keeps its factors."""
    moved = products().filter(pl.col("sku").is_in(["p2", "p17"]))
    moved = moved.with_columns(rooms=pl.lit("bath"), price=pl.lit(9.0))
    out = tmp_path / "m"
    out.write_bytes((shop / "model").read_bytes())
    table = run("latent", "add-items", out, write(tmp_path / "n.csv", moved), "-o", out, "-q")
    assert "known items" in table.stdout
    before, after = (rr.load_model(path).item_factors for path in (shop / "model", out))
    changed = np.flatnonzero((before != after).any(axis=1))
    assert changed.tolist() == [17]


def test_add_items_whose_ids_are_text_to_integers(shop, tmp_path):
    bought = purchases().with_columns(pl.col("item").str.strip_prefix("p").cast(pl.Int64))
    write(tmp_path / "purchases.csv", bought)
    numbered = products().with_columns(pl.col("sku").str.strip_prefix("p"))
    out = tmp_path / "m"
    train(tmp_path, out, "--item-features", write(tmp_path / "i.csv", numbered))
    run("latent", "add-items", out, write(tmp_path / "n.csv", new_products()), "-o", out, "-q")
    assert list(rr.load_model(out).item_ids_)[-3:] == ["17", "n0", "n1"]
    assert "7" not in lists("similar", out, "7")["7"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["none.csv"], "none.csv: there is no such file"),
        (["purchases.csv"], "must have the columns ['brand', 'rooms', 'price', 'title'] that the"),
        (["products.csv", "--item-id", "ean"], "--item-id ean is not a column of"),
        (["products.csv", "--item-id", "brand"], "title'] beside the ids in 'brand'"),
    ],
)
def test_wrong_options_of_add_items(shop, tmp_path, options, message):
    command = ("latent", "add-items", shop / "model", shop / options[0], *options[1:])
    said = error_of(*command, "-o", tmp_path / "m", "-q")
    assert message in said
    assert not (tmp_path / "m").exists()
    assert "there is no folder" in error_of(*command, "-o", tmp_path / "no" / "m")


def test_remove_items(shop, tmp_path):
    (tmp_path / "gone").write_text("p1\np17\nrum\np1\n")
    command = ("latent", "remove-items", "--items", tmp_path / "gone", "-o", tmp_path / "m")
    result = run(*command, shop / "model", "--json")
    counts = {"removed_items": 2, "unknown_items": 1, "items": 16}
    assert json.loads(result.stdout) == counts | {"model": str(tmp_path / "m")}
    assert f"{tmp_path / 'gone'}: 1 of 4 items are not in the model" in result.stderr
    best = lists("recommend", tmp_path / "m", "u0", "u1", "-n", 99)
    ids = {f"p{k}" for k in range(N_ITEMS)} - {"p1", "p17"}
    assert set(best["u0"]) == set(best["u1"]) == ids
    run(*command, shop / "plain", "-q")  # which needs no features
    assert len(rr.load_model(tmp_path / "m").item_ids_) == N_OLD - 1


def test_something_must_remain(shop, tmp_path):
    command = ("latent", "remove-items", shop / "model", "--items", tmp_path / "gone", "-q")
    (tmp_path / "gone").write_text("\n".join(f"p{k}" for k in range(N_ITEMS)))
    said = error_of(*command, "-o", tmp_path / "m")
    assert "--items must leave at least one item in the model" in said
    (tmp_path / "gone").write_text("\n")
    assert "must hold ids of items, one a line; it is empty" in error_of(*command, "-o", "m")


# Similar and evaluate


def test_what_is_similar_to_new_items(shop, tmp_path):
    near = lists("similar", shop / "model", "p15", "-n", 99)["p15"]
    assert set(near) == {f"p{k}" for k in range(N_ITEMS)} - {"p15"}
    assert near == rr.load_model(shop / "model").similar_items("p15", 18)[0].tolist()[1:]
    assert "there is no item 'p15' in" in error_of("latent", "similar", shop / "plain", "p15")
    twin = products()[2:3].with_columns(sku=pl.lit("twin"))
    path, out = write(tmp_path / "n.csv", twin), tmp_path / "m"
    run("latent", "add-items", shop / "model", path, "-o", out, "-q")
    run("latent", "add-items", out, write(path, twin.with_columns(sku=pl.lit("again"))), "-o", out)
    assert lists("similar", out, "twin", "-n", 1) == {"twin": ["again"]}


def test_old_and_new_items_are_measured_apart(shop, tmp_path):
    rows = [("u0", "p15"), ("u0", "p0"), ("u1", "p16"), ("u3", "p15"), ("u3", "p17")]
    test = write(tmp_path / "test.csv", pl.DataFrame(rows, ["user", "item"], orient="row"))
    ask = ("latent", "evaluate", shop / "model", "--test", test, "-k", "1,3")
    known = ("--train", shop / "purchases.csv")
    report = json.loads(run(*ask, *known, "--json").stdout)
    model = rr.load_model(shop / "model")
    users, items = model.user_ids_, model.item_ids_
    expected = rr.evaluate(
        model,
        train=rr.load_interactions(shop / "purchases.csv", users=users, items=items),
        test=rr.load_interactions(test, users=users, items=items),
        k=(1, 3),
    )
    assert report["items"] == N_ITEMS
    assert report["metrics"] == pytest.approx(expected.means)
    for name, part, n_users, n_items in (
        ("old_items", expected.old_items, 1, N_OLD),
        ("new_items", expected.new_items, 3, 3),
    ):
        assert report[name]["metrics"] == pytest.approx(part.means)
        assert (report[name]["users"], report[name]["items"]) == (n_users, n_items)
    table = run(*ask, *known).stdout
    titles = [line for line in table.splitlines() if "means ± standard errors" in line]
    assert [title.split(",")[0] for title in titles] == [
        "All 18 items",
        "15 old items alone",
        "3 new items alone",
    ]
    for other in ((*ask, "--json"), ("latent", "evaluate", shop / "plain", *ask[3:], *known)):
        if "--json" in other:
            assert "new_items" not in json.loads(run(*other).stdout)
        else:
            assert "new items alone" not in run(*other).stdout


def test_help_puts_the_options_of_features_together():
    for command in ("train", "recommend", "add-items"):
        text = run("latent", command, "--help").stdout
        assert text.count("What is known of items and users") == 1

"""``robirank latent explain``: reasons in words and as JSON."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import robirank as rr
from latent import featured
from robirank.cli.app import app


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A model with features of both sides, one of WARP, and what users have."""
    root = tmp_path_factory.mktemp("shop")
    table, users, items = featured.shop()
    codes = zip(table.users[table.user_codes()], table.items[table.indices], strict=True)
    (root / "has.tsv").write_text("".join(f"{u}\t{i}\n" for u, i in codes))
    (root / "names.tsv").write_text("i3\tGreen Tea\ni4\tRum\ni5\t[b]Ale\n")
    known = {"user_features": users, "item_features": items, "show_progress": False}
    featured.model().fit(table, **known).save(root / "model")
    featured.model("warp").fit(table, show_progress=False).save(root / "warp")
    return root


def run(*arguments, expect=0):
    result = CliRunner().invoke(app, ["latent", "explain", *map(str, arguments)])
    assert result.exit_code == expect, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return result


def error_of(*arguments):
    return " ".join(run(*arguments, expect=2).stderr.replace("│", " ").split())


def test_a_user_of_the_model(shop):
    said = run(shop / "model", "u3", "i5", "--train", shop / "has.tsv", "-q").stdout
    table = featured.shop()[0]
    why = rr.load_model(shop / "model").explain("u3", table, "i5")
    assert said == f"{why}\n"
    folded = run(shop / "model", "u3", "i5", "--train", shop / "has.tsv", "-q", "--fold-in").stdout
    assert folded != said


def test_json_has_all_reasons(shop):
    options = ("--train", shop / "has.tsv", "-q", "--json")
    answer = json.loads(run(shop / "model", "u3", "new1", *options).stdout)
    assert (answer["user"], answer["item"]) == ("u3", "new1")
    for side in ("user", "item"):
        effects = [row["effect"] for row in answer["reasons"] if row["side"] == side]
        assert np.sum(effects) == pytest.approx(answer["score"], rel=1e-5)


def test_someone_new_by_names(shop):
    options = ("--likes", "green tea,i4", "--feature", "taste=t2", "--names", shop / "names.tsv")
    said = run(shop / "model", "[b]Ale", *options).stdout
    assert said.startswith("[b]Ale for a new user, score ")
    assert "Because you have " in said
    assert "Green Tea (" in said
    assert "Because of what you are: taste=t2 (" in said
    alone = run(shop / "model", "i5", "--feature", "taste=t2", "--top", "1").stdout
    assert "Because you have" not in alone
    assert "1 other (" in alone


def test_what_is_refused(shop):
    train = ("--train", shop / "has.tsv")
    assert "give MODEL USER ITEM" in error_of(shop / "model", "i5", *train)
    assert "--train is what a user of the model has" in error_of(shop / "model", "u3", "i5")
    assert "WARP cannot explain its scores" in error_of(shop / "warp", "u3", "i5", *train)
    assert "there is no item 'i99'" in error_of(shop / "model", "u3", "i99", *train)
    assert "there is no user 'eve'" in error_of(shop / "model", "eve", "i5", *train)

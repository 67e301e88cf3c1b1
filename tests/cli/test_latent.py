"""``robirank latent``: files with outside ids in, models and lists with outside ids out."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from typer.testing import CliRunner

from robirank import (
    Interactions,
    LatentRoBiRank,
    evaluate,
    load_interactions,
    load_model,
    make_interactions,
)
from robirank.cli import lists, recommend
from robirank.cli.app import app
from robirank.cli.interactions import Columns, known
from robirank.cli.latent import _parts
from robirank.data.ids import Ids
from robirank.data.names import Names
from robirank.latent.solvers import SOLVERS

COMMAND = [sys.executable, "-m", "robirank"]
EATERS = ("ann", "bob", "eve", "kim", "lea", "max")
USERS = (*EATERS, *(f"guest {i}" for i in range(18)))
MEALS = {"soup": "Pea Soup", "stew": "Beef, Stewed", "cake": "Apple Cake", "tart": "Plum Tart"}


def pairs():
    """Half of the users eat what is salty and half what is sweet, each but one thing."""
    salty = ["soup", "stew", "roast", "pie"]
    sweet = ["cake", "tart", "jam", "honey"]
    rows = []
    for k, who in enumerate(USERS):
        kind = salty if k % 6 < 3 else sweet
        rows += [(who, meal, 1 + k) for place, meal in enumerate(kind) if place != k % 3]
    return rows


def write(path, rows, sep="\t"):
    text = "".join(sep.join(map(str, row)) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data, names and a trained model."""
    root = tmp_path_factory.mktemp("latent")
    write(root / "train.tsv", pairs())
    left_out = [(w, ("soup", "stew", "roast", "cake", "tart", "jam")[k], 1)
                for k, w in enumerate(EATERS)]  # fmt: skip
    write(root / "test.tsv", left_out)
    write(root / "names.tsv.gz", [*MEALS.items(), ("jam", "Plum Jam"), ("rum", "Old Rum")])
    run("latent", "train", root / "train.tsv", "-o", root / "model", *SMALL)
    return root


SMALL = ("--factors", "4", "--iterations", "30", "--regularization", "0.2", "--threads", "1", "-q")


def run(*arguments, expect=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    detail = f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    assert result.exit_code == expect, detail
    return result


def error_of(*arguments):
    """What a command that must fail says; its last line, nothing on standard output."""
    result = run(*arguments, expect=2)
    assert result.stdout == ""
    return " ".join(result.stderr.replace("│", " ").split())


def rows_of(text):
    head, *lines = text.splitlines()
    return [dict(zip(head.split("\t"), line.split("\t"), strict=True)) for line in lines]


# Train


def test_train_writes_a_model_with_ids(folder, tmp_path):
    out = tmp_path / "m.safetensors"
    options = ("--seed", 3, "--rho", "identity", "--solver", "sgd", "--learning-rate", "0.03")
    result = run("latent", "train", folder / "train.tsv", "-o", out, *SMALL, *options, "--json")
    assert result.stderr == ""
    report = json.loads(result.stdout)
    shape = {"users": 24, "items": 8, "interactions": 72, "factors": 4, "epochs": 30}
    assert report == report | shape | {"solver": "sgd", "rho": "identity", "interrupted": False}
    model = load_model(out)
    params = {"regularization": 0.2, "learning_rate": 0.03, "random_state": 3, "num_threads": 1}
    assert model.get_params() == model.get_params() | params
    assert list(model.user_ids_) == list(USERS)
    assert set(model.item_ids_) == {meal for _, meal, _ in pairs()}


def test_the_same_command_writes_the_same_file(folder, tmp_path):
    run("latent", "train", folder / "train.tsv", "-o", tmp_path / "again", *SMALL)
    assert (tmp_path / "again").read_bytes() == (folder / "model").read_bytes()


def test_the_number_of_factors_may_be_left_to_the_data(tmp_path):
    """Seventy circles of friends differ along 69 directions."""
    pairs = [(4 * c + u, 4 * c + i) for c in range(70) for u in range(4) for i in range(4)]
    lines = "".join(f"{user}\t{item}\n" for user, item in pairs)
    (tmp_path / "circles.tsv").write_text("user\titem\n" + lines)
    command = ("latent", "train", tmp_path / "circles.tsv", "-o", tmp_path / "m", *SMALL[2:])
    done = run(*command, "--factors", "auto", "--iterations", "2", "--json")
    assert json.loads(done.stdout)["factors"] == 128
    assert load_model(tmp_path / "m").item_factors.shape[1] == 128


def test_train_says_which_solver_and_why(folder, tmp_path):
    loud = [option for option in SMALL if option != "-q"]
    command = ("latent", "train", folder / "train.tsv", "-o", tmp_path / "m", *loud)
    assert "solver exact, chosen by size: 24 × 8, 4 factors" in run(*command).stderr
    asked = run(*command, "--solver", "sgd").stderr
    assert "solver sgd: 24 × 8, 4 factors" in asked
    assert "WARP, 24 × 8" in run(*command, "--method", "warp").stderr
    assert type(load_model(tmp_path / "m")).__name__ == "WARP"


def test_columns_by_name_counts_and_weights(folder, tmp_path):
    rows = [("n", "what", "who"), *((n, meal, who) for who, meal, n in pairs())]
    path = write(tmp_path / "meals.csv", rows, ",")
    columns = ("--user", "who", "--item", "what", "--count", "n")
    command = ("latent", "train", path, "-o", tmp_path / "m", *SMALL, *columns)
    run(*command)
    assert (tmp_path / "m").read_bytes() == (folder / "model").read_bytes()
    run(*command, "--weighting", "count")
    assert (tmp_path / "m").read_bytes() != (folder / "model").read_bytes()


def test_the_best_epoch_on_validation_is_kept(folder, tmp_path):
    watch = ("--validation", folder / "test.tsv", "--metric", "ndcg@2", "--patience", "5")
    out = tmp_path / "m"
    command = ("latent", "train", folder / "train.tsv", "-o", out, *SMALL, *watch, "--json")
    report = json.loads(run(*command).stdout)
    assert report["best_epoch"] <= report["epochs"]
    data = load_interactions(folder / "train.tsv")
    test = load_interactions(folder / "test.tsv", users=data.users, items=data.items)
    found = evaluate(load_model(out), train=data, test=test, k=2)["ndcg@2"]
    assert report["validation_ndcg@2"] == pytest.approx(found)


def test_hold_out_takes_a_share_or_the_latest(tmp_path):
    rows = [(f"u{u}", f"i{i}", 100 * i + u) for u in range(10) for i in range(10)]
    path = write(tmp_path / "times.tsv", rows)
    command = ("latent", "train", path, "-o", tmp_path / "m", *SMALL, "--hold-out", "0.2", "--json")
    assert json.loads(run(*command).stdout)["interactions"] == 80
    share = _parts(path, Columns(), None, 0.2, seed=0)
    assert [part.lengths.tolist() for part in share] == [[8] * 10, [2] * 10]
    by_time = _parts(path, Columns(time="2"), None, 0.2, seed=0)
    assert set(by_time[1].items[by_time[1].indices]) == {"i8", "i9"}
    assert len(by_time[0]) == 80


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--patience", "3"], "--patience needs --validation or --hold-out"),
        (["--resume"], "--resume needs --checkpoint"),
        (["--address", "auto"], "--address needs --ray"),
        (["--hold-out", "0.1", "--validation", "x"], "--validation or --hold-out, not both"),
        (["--method", "warp", "--rho", "identity"], "--rho identity is for --method robirank"),
        (["--method", "warp", "--device", "cuda"], "--device cuda is for --method robirank"),
        (["--metric", "auc@3", "--hold-out", "0.3"], "metric must be one of precision@k"),
        (["--user", "who"], "--user who is not a column of"),
        (["--factors", "0"], "--factors"),
        (["--factors", "auto", "--method", "warp"], "--factors auto is for --method robirank"),
        (["--factors", "many"], "a number from 1 on, or auto; got 'many'"),
        (["--learning-rate", "1e9", "--solver", "exact"], "error: training diverged in epoch"),
    ],
)
def test_wrong_options_of_train(folder, tmp_path, options, message):
    out = tmp_path / "m"
    assert message in error_of("latent", "train", folder / "train.tsv", "-o", out, *options, "-q")
    assert not out.exists()


def test_a_folder_that_is_not_there_is_seen_before_the_work(folder, tmp_path):
    out = tmp_path / "no" / "m"
    assert "there is no folder" in error_of("latent", "train", folder / "train.tsv", "-o", out)


def test_a_broken_off_fit_goes_on(folder, tmp_path):
    checkpoint = tmp_path / "c"
    command = ("latent", "train", folder / "train.tsv", "-o", tmp_path / "m", *SMALL)
    run(*command, "--checkpoint", checkpoint)
    run(*command, "--checkpoint", checkpoint, "--resume")
    assert (tmp_path / "m").read_bytes() == (folder / "model").read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_saves_what_was_learned(folder, tmp_path):
    out, checkpoint = tmp_path / "m", tmp_path / "c"
    command = [*COMMAND, "latent", "train", folder / "train.tsv", "-o", out]
    process = subprocess.Popen(
        [*command, "--factors", "4", "--iterations", "100000000", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen = ""
    while "solver" not in seen and process.poll() is None:
        seen += process.stderr.readline()
    time.sleep(1.0)  # the fit begins right after that line
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "holds what was learned so far" in stderr
    assert "Traceback" not in stderr
    report = json.loads(stdout)
    assert report["interrupted"] is True
    assert load_model(out).n_iter_ == report["epochs"] < 100_000_000
    assert not checkpoint.exists()


# Evaluate


def test_evaluate_is_what_the_library_measures(folder):
    command = ("latent", "evaluate", folder / "model", "--test", folder / "test.tsv")
    known_part = ("--train", folder / "train.tsv", "-k", "1,3")
    report = json.loads(run(*command, *known_part, "--json", "-q").stdout)
    train = load_interactions(folder / "train.tsv")
    test = load_interactions(folder / "test.tsv", users=train.users, items=train.items)
    expected = evaluate(load_model(folder / "model"), train=train, test=test, k=(1, 3))
    assert report["metrics"] == pytest.approx(dict(expected))
    assert report["users"] == 6
    table = run(*command, *known_part, "-q").stdout
    assert "6 users" in table
    assert f"{expected['recall@3']:.4f}" in table
    assert expected["recall@3"] > 0.8  # what was kept from each is what the others like them have


def test_evaluate_counts_what_the_model_does_not_know(folder, tmp_path):
    rows = [("ann", "soup"), ("ann", "caviar"), ("zoe", "soup"), ("zoe", "tart")]
    path = write(tmp_path / "new.tsv", rows)
    command = ("latent", "evaluate", folder / "model", "--test", path, "-k", "2")
    result = run(*command, "--json")
    unseen = {"interactions": 1, "unseen_users": 1, "unseen_items": 1, "left_out": 3}
    assert json.loads(result.stdout)["test"] == unseen
    assert "3 interactions left out" in result.stderr
    assert "without --train" in result.stderr


def test_lists_that_are_varied_or_damped(folder, tmp_path):
    model, train = load_model(folder / "model"), load_interactions(folder / "train.tsv")
    test = load_interactions(folder / "test.tsv", users=train.users, items=train.items)
    tables = ("--train", folder / "train.tsv", "-q", "--json")
    knobs = ("--variety", "0.6", "--popularity", "0.5")
    wanted = {"variety": 0.6, "popularity": 0.5}
    measured = ("latent", "evaluate", folder / "model", *tables, "--test", folder / "test.tsv")
    report = json.loads(run(*measured, *knobs, "-k", "3").stdout)
    expected = evaluate(model, train=train, test=test, k=3, **wanted)
    assert report["metrics"] == pytest.approx(dict(expected))
    assert report["shown"] == pytest.approx(expected.shown)
    lists = json.loads(run("latent", "recommend", folder / "model", "bob", *tables, *knobs).stdout)
    items, _ = model.recommend("bob", train, **wanted)
    assert [row["item"] for row in lists[0]["items"]] == [x for x in items if x is not None]
    plot = tmp_path / "sweep.svg"
    swept = ("-k", "1,3", "--sweep", "popularity", "--values", "0,1", "--variety", "0.2")
    report = json.loads(run(*measured, *swept, "--plot", plot).stdout)
    assert (report["knob"], report["k"]) == ("popularity", 3)
    for row, value in zip(report["values"], (0, 1), strict=True):
        expected = evaluate(model, train=train, test=test, k=3, variety=0.2, popularity=value)
        assert row["popularity"] == value
        assert row["gini@3"] == pytest.approx(expected.shown["gini@3"])
    assert plot.read_text().startswith("<?xml")
    table = run(*measured[:-3], "--test", folder / "test.tsv", *swept).stdout
    assert "item_coverage" in table


def test_new_users_are_folded_in(folder, tmp_path):
    seen = write(tmp_path / "seen.tsv", [("zoe", "soup"), ("zoe", "pie"), ("amy", "honey")])
    hidden = write(tmp_path / "hidden.tsv", [("zoe", "stew"), ("amy", "cake"), ("joe", "cake")])
    command = ("latent", "evaluate", folder / "model", "--train", seen, "--test", hidden)
    report = json.loads(run(*command, "--fold-in", "-k", "3", "--json", "-q").stdout)
    assert report["users"] == 2
    assert report["folded_in"] is True
    assert report["metrics"]["recall@3"] == 1.0
    assert report["test"]["unseen_users"] == 1


def test_evaluate_says_whom_it_measured(folder, tmp_path):
    """Ann has no history in this train file, and nobody in it has the cake."""
    rows = [row for row in pairs() if row[0] != "ann" and row[1] != "cake"]
    train, test = write(tmp_path / "train.tsv", rows), folder / "test.tsv"
    ask = (
        "latent",
        "evaluate",
        folder / "model",
        "--test",
        test,
        "--train",
        train,
        "-k",
        "1",
        "-q",
    )
    sentence = (
        "5 users with history and 1 without were measured, 18 left out; 1 of their 6 test "
        "interactions are on items without a train interaction."
    )
    assert sentence in " ".join(run(*ask).stdout.split())
    found = json.loads(run(*ask, "--json").stdout)
    assert found["coverage"]["users_without_history"] == 1
    assert found["coverage"]["interactions_on_new_items"] == 1
    both = 5 * found["with_history"]["recall@1"] + found["without_history"]["recall@1"]
    assert found["metrics"]["recall@1"] == pytest.approx(both / 6)
    alone = json.loads(run(*ask[:5], "-k", "1", "-q", "--json").stdout)
    assert "coverage" not in alone  # without --train, no history is known


def test_wrong_options_of_evaluate(folder):
    command = ("latent", "evaluate", folder / "model", "--test", folder / "test.tsv")
    assert "-k must be lengths such as 1,10,20; got '1,x'" in error_of(*command, "-k", "1,x")
    assert "--fold-in needs --train" in error_of(*command, "--fold-in")
    assert "--plot needs --sweep" in error_of(*command, "--plot", "a.png")
    assert "--values needs --sweep" in error_of(*command, "--values", "0,1")
    swept = (*command, "--sweep", "variety")
    assert "give --sweep variety or --variety" in error_of(*swept, "--variety", "0.1")
    assert "--plot must end in one of .png" in error_of(*swept, "--plot", "a.gif")
    assert "--values must be numbers" in error_of(*swept, "--values", "0,x")
    assert "values must be a fraction from 0 to 1; got 3.0" in error_of(*swept, "--values", "3")


# Recommend


def test_recommend_speaks_in_outside_ids(folder):
    command = ("latent", "recommend", folder / "model", "bob", "kim", "-n", "3")
    result = run(*command, "--train", folder / "train.tsv", "-q")
    rows = rows_of(result.stdout)
    assert [(r["user"], r["rank"]) for r in rows] == [(u, str(k)) for u in ("bob", "kim")
                                                      for k in (1, 2, 3)]  # fmt: skip
    assert [rows[0]["item"], rows[3]["item"]] == ["stew", "cake"]
    model = load_model(folder / "model")
    code = model.user_ids_.index("bob")
    train = load_interactions(folder / "train.tsv")
    ids, scores = model.recommend(code, train.matrix[code], N=3)
    assert [r["item"] for r in rows[:3]] == model.item_ids_[ids].tolist()
    assert [float(r["score"]) for r in rows[:3]] == pytest.approx(scores.tolist(), abs=1e-5)


@pytest.fixture(scope="module")
def with_strangers(tmp_path_factory):
    """A model with a user and an item without an interaction; soup is had most often, then stew."""
    root = tmp_path_factory.mktemp("strangers")
    has = csr_matrix([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    data = Interactions.from_matrix(has, ["ann", "bob", "eve", "zoe"], ["soup", "stew", "pie", "x"])
    LatentRoBiRank(2, iterations=2, random_state=0).fit(data, False).save(root / "model")
    return root / "model"


def test_users_without_interactions(with_strangers):
    ask = ("latent", "recommend", with_strangers, "ann", "zoe", "-n", "2")
    result = run(*ask)
    assert [r["item"] for r in rows_of(result.stdout) if r["user"] == "zoe"] == ["soup", "stew"]
    assert "warning" not in result.stderr
    told = "1 of 2 users have no interaction that the model was trained on and get"
    assert f"{told} the most popular items" in result.stderr
    result = run(*ask, "--unknown-users", "empty")
    assert {r["user"] for r in rows_of(result.stdout)} == {"ann"}
    assert f"{told} no items" in result.stderr
    error = error_of(*ask, "--unknown-users", "error")
    assert "such as 'zoe'; leave them out, or give --unknown-users popular or empty" in error


def test_items_without_interactions_are_like_nothing(with_strangers):
    result = run("latent", "similar", with_strangers, "x", "soup")
    assert {row["like"] for row in rows_of(result.stdout)} == {"soup"}
    assert "x" not in {row["item"] for row in rows_of(result.stdout)}
    assert "item 'x' has no interaction, so that nothing is like it" in result.stderr


def test_which_items_may_come(folder, tmp_path):
    ask = ("latent", "recommend", folder / "model", "ann", "--train", folder / "train.tsv")
    some = write(tmp_path / "some", [["jam"], ["soup"], ["gone"], ["honey"], [""]])
    out = write(tmp_path / "out", [["soup"], ["jam"], ["never"]])

    def items(*options):
        result = run(*ask, *options)
        return {row["item"] for row in rows_of(result.stdout)}, result.stderr

    found, told = items("--only", some)
    assert found == {"jam", "soup", "honey"}
    assert f"{some}: 1 of 4 items are not in the model" in told
    found, told = items("--exclude", out)
    assert found == {"cake", "tart", "honey"}
    assert f"{out}: 1 of 3 items are not in the model" in told
    assert items("--only", some, "--exclude", out)[0] == {"honey"}
    assert "must name an item of the model that may come" in error_of(
        *ask, "--only", out, "--exclude", out
    )
    empty = write(tmp_path / "empty", [])
    assert f"{empty} must hold ids of items, one a line" in error_of(*ask, "--only", empty)


def test_without_train_nothing_is_left_out(folder):
    result = run("latent", "recommend", folder / "model", "ann", "-n", "4")
    assert {r["item"] for r in rows_of(result.stdout)} == {"soup", "stew", "roast", "pie"}
    assert "without --train" in result.stderr


def test_all_users_and_users_of_a_file(folder, tmp_path):
    command = ("latent", "recommend", folder / "model", "-n", "2", "-q")
    everyone = rows_of(run(*command, "--all").stdout)
    assert [r["user"] for r in everyone[::2]] == list(USERS)
    (tmp_path / "who").write_text("max\n\nann\nmax\n")
    some = rows_of(run(*command, "--users", tmp_path / "who").stdout)
    assert some == everyone[10:12] + everyone[:2]


@pytest.mark.parametrize("suffix", lists.FORMATS)
def test_files_of_every_kind_hold_the_same(folder, tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(recommend, "_CHUNK_USERS", 4)  # two chunks
    out = tmp_path / f"lists{suffix}"
    command = ("latent", "recommend", folder / "model", "--all", "-n", "3", "-q")
    named = ("--names", folder / "names.tsv.gz")
    expected = rows_of(run(*command, *named).stdout)
    assert run(*command, *named, "--output", out).stdout == ""
    read = {".parquet": pl.read_parquet, ".jsonl": pl.read_ndjson}.get(suffix, pl.read_csv)
    frame = read(out, separator="\t") if suffix == ".tsv" else read(out)
    assert frame.columns == ["user", "rank", "item", "name", "score"]
    assert frame["item"].to_list() == [r["item"] for r in expected]
    assert frame["user"].to_list() == [r["user"] for r in expected]
    assert [n or "" for n in frame["name"]] == [r["name"] for r in expected]
    np.testing.assert_allclose(frame["score"], [float(r["score"]) for r in expected], rtol=1e-5)


def test_no_cell_of_a_csv_file_is_a_formula(folder, tmp_path):
    names = write(
        tmp_path / "n.tsv", [("stew", "=1+1"), ("soup", "@Soup, hot"), ("pie", "a=b")], "\t"
    )
    command = ("latent", "recommend", folder / "model", "--all", "-n", "3", "-q", "--names", names)
    table, text = tmp_path / "lists.csv", tmp_path / "lists.tsv"
    said = run(*command, "--output", table).stderr
    run(*command, "--output", text)
    expected = pl.read_csv(text, separator="\t", quote_char=None)["name"].to_list()
    formulas = [name for name in expected if name in ("=1+1", "@Soup, hot")]
    assert f"{len(formulas)} texts of {table} begin with =, +, - or @" in " ".join(said.split())
    shown = ["'" + name if name in formulas else name for name in expected]
    assert formulas
    assert pl.read_csv(table)["name"].to_list() == shown


def test_a_new_user_by_what_they_like(folder):
    command = ("latent", "recommend", folder / "model", "-n", "2", "-q")
    named = ("--names", folder / "names.tsv.gz")
    by_id = rows_of(run(*command, "--likes", "soup,roast,pie").stdout)
    assert by_id[0]["user"] == "new user"
    assert by_id[0]["item"] == "stew"
    assert not {"soup", "roast", "pie"} & {r["item"] for r in by_id}
    by_name = rows_of(run(*command, "--likes", "apple cake,honey", *named).stdout)
    assert {r["item"] for r in by_name} == {"tart", "jam"}
    commas = rows_of(run(*command, "--likes", "Beef, Stewed", "--likes", "pie", *named).stdout)
    assert {r["item"] for r in commas} == {"soup", "roast"}


def test_new_users_by_their_history(folder, tmp_path):
    rows = [("zoe", "soup"), ("zoe", "pie"), ("amy", "honey"), ("joe", "caviar")]
    history = write(tmp_path / "new.tsv", rows)
    command = ("latent", "recommend", folder / "model", "--history", history, "-n", "2")
    result = run(*command)
    found = rows_of(result.stdout)
    assert [r["user"] for r in found] == ["zoe", "zoe", "amy", "amy"]
    assert {r["item"] for r in found[:2]} == {"stew", "roast"}
    assert "1 interactions left out" in result.stderr
    alone = rows_of(run(*command, "amy").stdout)
    assert [r["item"] for r in alone] == [r["item"] for r in found[2:]]
    message = error_of(*command, "joe", "-q")
    assert "user 'joe' of" in message
    assert "has no item that the model knows" in message


def test_json_is_one_value(folder):
    command = ("latent", "recommend", folder / "model", "ann", "max", "-n", "2", "--json", "-q")
    found = json.loads(run(*command, "--names", folder / "names.tsv.gz").stdout)
    assert [entry["user"] for entry in found] == ["ann", "max"]
    assert [set(row) for row in found[0]["items"]] == [{"rank", "item", "name", "score"}] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zoe"], "there is no user 'zoe' in"),
        (["zoe"], "such as ann, bob, eve. A new user can be given with --likes or --history"),
        ([], "say whose lists"),
        (["ann", "--all"], "say whose lists"),
        (["--all", "--likes", "soup"], "say whose lists"),
        (["--likes", "soup", "--train", "x"], "--train is for users of the model"),
        (["--likes", "caviar"], "there is no item 'caviar' in"),
        (["ann", "--output", "x.xml"], "--output must end in one of .tsv, .csv, .jsonl, .parquet"),
        (["ann", "-n", "0"], "-n"),
    ],
)
def test_wrong_options_of_recommend(folder, arguments, message):
    assert message in error_of("latent", "recommend", folder / "model", *arguments)


def test_a_model_of_features_is_refused(tmp_path):
    from robirank import RoBiRank, make_ranking, save_model

    data = make_ranking(5, random_state=0)
    save_model(RoBiRank().fit(data.X, data.y, qid=data.qid), tmp_path / "m")
    assert "holds a RoBiRank, which has no users" in error_of(
        "latent", "similar", tmp_path / "m", "x"
    )


# Similar


def test_similar_leaves_out_what_was_asked_for(folder):
    command = ("latent", "similar", folder / "model", "-n", "3", "-q")
    rows = rows_of(run(*command, "soup", "cake").stdout)
    assert [r["like"] for r in rows] == ["soup"] * 3 + ["cake"] * 3
    assert {r["item"] for r in rows[:3]} == {"stew", "roast", "pie"}
    assert {r["item"] for r in rows[3:]} == {"tart", "jam", "honey"}
    salty = {who for k, who in enumerate(USERS) if k % 6 < 3}
    users = rows_of(run(*command, "ann", "--users").stdout)
    assert {r["user"] for r in users} < salty - {"ann"}


def test_similar_to_a_name(folder):
    command = ("latent", "similar", folder / "model", "--names", folder / "names.tsv.gz", "-q")
    rows = rows_of(run(*command, "pea soup", "-n", "3").stdout)
    assert {r["name"] for r in rows} == {"Beef, Stewed", ""}
    assert "did you mean 'Apple Cake'?" in error_of(*command, "Aple Cake")


def test_a_saved_part_of_a_split_is_what_users_have(folder, tmp_path):
    """The other users and items have a row without the other side, which is no interaction."""
    data = load_interactions(folder / "train.tsv")
    data.take(data.user_codes() == data.user_index("bob")).save(tmp_path / "part.parquet")
    command = ("latent", "recommend", folder / "model", "bob", "-q", "--train")
    saved = run(*command, tmp_path / "part.parquet").stdout
    assert saved == run(*command, folder / "train.tsv").stdout


def test_tables_on_a_terminal(folder, with_strangers, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")
    named = ["--names", str(folder / "names.tsv.gz"), "--train", str(folder / "train.tsv")]
    with pytest.raises(SystemExit) as end:
        app(["latent", "recommend", str(folder / "model"), "bob", "-q", *named])
    assert end.value.code == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "For user bob, who has" in text
    assert "Beef, Stewed" in text
    assert "\t" not in text
    with pytest.raises(SystemExit):
        app(["latent", "recommend", str(with_strangers), "zoe", "-q"])
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "For user zoe, without an interaction: the most popular items" in text


# The parts


def test_two_items_of_one_name(tmp_path):
    path = write(tmp_path / "n.csv", [("a", "Help!"), ("b", "help!"), ("c", '"Long, long"')], ",")
    names = Names.read(path)
    assert names.find("HELP!", Ids(["b", "c", "a"])) == [2, 0]
    assert names.find("Help!", Ids(["b", "c"])) == [0]
    assert [names.get("c"), names.get("x")] == ["Long, long", None]
    from robirank.data.names import look_up

    with pytest.raises(ValueError, match="2 items are called 'Help!'; give one of the ids a, b"):
        look_up("item", ["Help!"], Ids(["a", "b"]), names, where=path)


def test_names_of_several_columns(tmp_path):
    path = write(tmp_path / "n.tsv", [(1, "Song", "Band", 1999), (2, "Tune", "", 0)])
    names = Names.read(path, "1,2")
    assert [names.get(2), names.get(1)] == ["Tune", "Song – Band"]
    with pytest.raises(ValueError, match="has 4 columns, counted from 0"):
        Names.read(path, "4")
    with pytest.raises(ValueError, match="must be positions such as 1,2; got 'name'"):
        Names.read(path, "name")
    with pytest.raises(ValueError, match=r"a file of names must be .tsv or .csv"):
        Names.read(tmp_path / "n.xlsx")


@given(st.lists(st.one_of(st.integers(-99, 99), st.text("ab0 9-", min_size=1)), min_size=1))
def test_an_id_is_found_as_it_is_written(values):
    """Integers if all are, otherwise text, as files are read."""
    ints = all(isinstance(v, int) for v in values)
    ids = Ids(values if ints else [str(v) for v in values])
    for value in values:
        assert ids[ids.find(str(value))] == (value if ints else str(value))
    assert ids.find("0x0") == -1
    assert Ids([7]).find("07") == -1


def test_integers_of_one_file_are_text_of_another():
    """A model that learned the users 1 and x knows the user 1 of a file of integers."""
    model = Interactions.from_arrays(["1", "x"], [5, 6])
    table = Interactions.from_arrays([1, 2], ["5", "z"])
    part, counts = known("table", table, model.users, model.items)
    assert part.matrix.toarray().tolist() == [[1, 0], [0, 0]]
    assert counts == {"interactions": 1, "unseen_users": 1, "unseen_items": 1, "left_out": 1}
    assert part.users is model.users


def test_columns_may_be_positions():
    assert Columns(user="2", item="song", sep="\\t").options() == {
        "user": 2, "item": "song", "count": None, "time": None, "sep": "\t", "header": None,
    }  # fmt: skip


def test_for_real_in_a_pipe(folder):
    command = [*COMMAND, "latent", "similar", folder / "model", "soup", "-n", "1"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "like\trank\titem\tscore"


def test_train_tunes_the_penalty(tmp_path):
    made = make_interactions(300, 100, 5000, random_state=0)
    made.save(tmp_path / "plays.parquet")
    command = ("latent", "train", tmp_path / "plays.parquet", "-m", tmp_path / "m", "--tune")
    small = ("--factors", "8", "--iterations", "8", "--threads", "1")
    result = run(*command, *small, "--checkpoint", tmp_path / "fit", "--json")
    report = json.loads(result.stdout)
    assert 0.05 < report["regularization"] < 1.0
    assert load_model(tmp_path / "m").regularization_ == report["regularization"]
    assert "falling λ" in result.stderr
    assert "tune: λ = 0." in result.stderr
    assert (tmp_path / "fit.search").exists()
    refused = run(*command, "--regularization", "0.1", expect=2)
    assert "give --tune or --regularization, not both" in refused.stderr


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([("user_id", "band"), (1, "a")], ["--item", "the band"], "--item 'the band' is not a col"),
        (
            [("user_id", "band"), (1, "a")],
            [],
            "--user user_id, --item band, or say --header",
        ),
        ([("user_id", "band"), (1, "a")], [], "if it is an interaction, say --no-header"),
        ([("user_id", "band"), (1, "a")], ["--header"], "such as --user user_id, --item band"),
        ([("ann", "tea")], ["--item", "meal", "--no-header"], "by name only with --header"),
        ([("ann", "tea"), ("", "rum")], [], "line 2); on_missing='drop' (in Python) leaves"),
        ([("ann", "tea"), ("bob", "rum")], ["--threads", "5000"], "--threads must be at most 1024"),
    ],
)
def test_errors_speak_of_options(tmp_path, rows, options, message):
    path = write(tmp_path / "x.tsv", rows)
    command = ["latent", "train", path, "-o", tmp_path / "model", *options]
    assert message in error_of(*command)


def test_an_unknown_item_gets_the_nearest_known_one(folder):
    command = ["latent", "similar", folder / "model"]
    assert error_of(*command, "HONNEY").endswith("did you mean 'honey'?")
    users = ["latent", "recommend", folder / "model"]
    assert "did you mean 'ann'? A new user can be given with --likes" in error_of(*users, "Ann")


def test_what_is_read_is_not_written_over(tmp_path):
    table = tmp_path / "plays.csv"
    table.write_text("user,item\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(35)))
    before = table.read_text()
    assert "it is read as well" in error_of("latent", "train", table, "-o", table)
    run("latent", "train", table, "-o", tmp_path / "model", "--iterations", 1)
    asked = "latent", "recommend", tmp_path / "model", "1", "--train", table, "-o", table
    assert "it is read as well" in error_of(*asked)
    assert table.read_text() == before


def test_order_ages_and_dislikes(folder, tmp_path):
    rows = [(w, meal, place) for w, *_ in [(who,) for who in USERS] for place, meal in
            enumerate(["soup", "stew", "roast", "pie"])]  # fmt: skip
    lines = [("who", "meal", "when"), *rows]
    data = write(tmp_path / "timed.tsv", lines)
    refused = write(tmp_path / "no.tsv", [("who", "meal"), ("ann", "cake"), ("bob", "tart")])
    columns = ("--user", "who", "--item", "meal")
    train = ("latent", "train", data, *columns, "-o", tmp_path / "m", *SMALL)
    run(*train, "--time", "when", "--half-life", "2")
    assert load_model(tmp_path / "m").ages_.tolist() == [2.0, 3.0]
    told = run(*train, "--time", "when", "--order", "--json")
    assert json.loads(told.stdout)["order_weight"] == 0.0
    failed = run(*train, "--order", expect=2)
    assert "--order needs a table with times" in failed.stderr
    failed = run(*train, "--half-life", "2d", "--time", "when", expect=2)
    assert "--half-life must be a number" in failed.stderr
    every = write(tmp_path / "every.tsv", [*((w, m) for w, m, _ in lines), ("kim", "cake"),
                                           ("lea", "tart")])  # fmt: skip
    run("latent", "train", every, *columns, "-o", tmp_path / "d", *SMALL, "--dislikes", refused)
    answers = run("latent", "recommend", tmp_path / "d", "ann", "-n", "6", "--json").stdout
    assert "cake" not in answers
    assert "tart" in answers
    failed = run(*train, "--method", "warp", "--order", expect=2)
    assert "--order is for --method robirank" in failed.stderr.replace("\n", " ")


def test_a_dry_run_says_what_a_fit_costs(folder, tmp_path):
    told = run("latent", "train", folder / "train.tsv", "-o", tmp_path / "m", "--dry-run", "--json")
    cost = json.loads(told.stdout)
    epochs = SOLVERS["exact"].epochs
    assert (cost["solver"], cost["epochs"], cost["search_epochs"]) == ("exact", epochs, 0)
    assert cost["seconds"] > 0
    assert not (tmp_path / "m").exists()


def test_a_history_without_times_is_told_of(tmp_path):
    rows = [(f"u{x}", f"i{(x + k) % 12}", k) for x in range(30) for k in range(5)]
    data = write(tmp_path / "walks.tsv", [("who", "what", "when"), *rows])
    columns = ("--user", "who", "--item", "what")
    table = load_interactions(data, user="who", item="what", time="when")
    model = LatentRoBiRank(4, order=True, order_weight=1.0, iterations=4, random_state=0)
    model.fit(table, show_progress=False).save(tmp_path / "m")
    ask = ("latent", "recommend", tmp_path / "m", "--history", data, *columns, "-n", "2")
    assert "without --time, all records" in run(*ask).stderr
    assert "without --time, all records" not in run(*ask, "--time", "when").stderr
    assert "without --time, all records" not in run(*ask[:3], "--likes", "i1,i2").stderr

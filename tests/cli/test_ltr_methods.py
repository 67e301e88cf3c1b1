"""``robirank ltr`` with any ranker: train, explain, export."""

import gzip
import json
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from robirank import (
    RoBiRank,
    load_letor,
    load_model,
    make_ranking,
    save_letor,
    save_model,
    signed_log,
)
from robirank.cli.app import app
from robirank.data.ranking import RankingData

pytest.importorskip("lightgbm")

NAMES = ["bm25", "age", "clicks", "length"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("letor")
    data = make_ranking(60, n_docs=8, n_features=4, n_grades=3, noise=0.2, random_state=0)
    ids = np.array([f"doc{i}" for i in range(len(data))])
    data = RankingData(data.X, data.y, data.qid, doc_ids=ids)
    save_letor(root / "train.txt", data.take(data.qid <= 40))
    save_letor(root / "vali.txt", data.take(data.qid > 40))
    (root / "names.txt").write_text("\n".join(NAMES) + "\n")
    train(root, root / "trees", "RoBiRankBooster", "--feature-names", root / "names.txt")
    train(root, root / "linear", "RoBiRank", "--set", "alpha=0.01")
    return root


def run(*arguments, expect=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == expect, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return result


def train(root, path, method, *more):
    small = () if method == "RoBiRank" else ("--set", "n_estimators=8")
    command = ["ltr", "train", root / "train.txt", "-m", path, "--method", method, *small]
    return json.loads(run(*command, "--threads", 1, "--json", *more).stdout)


def test_every_method_takes_its_parameters(folder, tmp_path):
    report = train(
        folder,
        tmp_path / "m",
        "RoBiRankBooster",
        *("--set", "learning_rate=0.2", "--set", "monotonic_cst=[1,0,0,0]", "--rho", "identity"),
        *("--validation", folder / "vali.txt", "--seed", 3),
    )
    model = load_model(tmp_path / "m")
    assert (model.n_estimators, model.learning_rate, model.rho) == (8, 0.2, "identity")
    assert model.metric == "ndcg"
    assert (model.random_state, model.num_threads) == (3, 1)
    assert report["kept"] == model.best_iter_
    assert len(model.validation_scores_) == model.n_iter_
    assert report["validation_ndcg@10"] > 0.6


def test_logarithms_are_remembered(folder, tmp_path):
    report = train(folder, tmp_path / "m", "RoBiRank", "--set", "alpha=0.01", "--log-features")
    data = load_letor(folder / "train.txt")
    by_hand = RoBiRank(0.01).fit(signed_log(data.X), data.y, qid=data.qid)
    assert_allclose(load_model(tmp_path / "m").coef_, by_hand.coef_)
    assert report["train_ndcg@10"] == pytest.approx(
        by_hand.score(signed_log(data.X), data.y, qid=data.qid)
    )
    scores = run("ltr", "predict", tmp_path / "m", folder / "train.txt", "--quiet").stdout.split()
    assert_allclose(np.array(scores, float), by_hand.predict(signed_log(data.X)))
    assert "logarithms" in run("ltr", "export", tmp_path / "m").stderr


def test_another_linear_method(folder, tmp_path):
    run("ltr", "train", folder / "train.txt", "-m", tmp_path / "m", "--method", "RankSVM")
    assert type(load_model(tmp_path / "m")).__name__ == "RankSVM"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "BestRank"], "must be one of AdaRank"),
        (["--method", "MART", "--set", "depth=3"], "MART has no parameter depth"),
        (["--method", "MART", "--rho", "identity"], "MART has no parameter rho"),
        (["--method", "MART", "--set", "depth"], "--set takes PARAM=VALUE"),
        (["--method", "RankSVM", "--validation", "vali.txt"], "RankSVM does not use"),
    ],
)
def test_errors_name_the_option(folder, tmp_path, arguments, message, monkeypatch):
    monkeypatch.chdir(folder)
    result = run("ltr", "train", "train.txt", "-m", tmp_path / "m", *arguments, expect=2)
    assert message in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize("model", ["trees", "linear"])
def test_explain(folder, model):
    command = ("ltr", "explain", folder / model, folder / "vali.txt", "--quiet")
    found = json.loads(run(*command, "--query", 45, "--below", 3, "--json").stdout)
    assert found["query"] == "45"
    assert found["a"].startswith("doc")
    assert found["score_a"] >= found["score_b"]
    total = sum(e["effect"] for e in found["effects"])
    assert total == pytest.approx(found["score_a"] - found["score_b"])
    same = json.loads(
        run(*command, "--query", 45, "--above", found["a"], "--below", found["b"], "--json").stdout
    )
    assert same == found
    text = run(*command, "--top", 1).stdout
    assert "effect" in text
    assert any(name in text for name in NAMES) == (model == "trees")
    named = run(*command, "--feature-names", folder / "names.txt", "--json").stdout
    assert {e["feature"] for e in json.loads(named)["effects"]} <= set(NAMES)


@pytest.mark.parametrize("model", ["trees", "linear"])
def test_explain_a_whole_query(folder, model):
    command = ("ltr", "explain", folder / model, folder / "vali.txt", "--quiet", "--query", 45)
    found = json.loads(run(*command, "--all", "--json").stdout)["pairs"]
    assert len(found) == 7
    for pair, after in pairwise(found):
        assert pair["score_a"] >= pair["score_b"] == after["score_a"]
        assert pair["b"] == after["a"]
    assert found[0] == json.loads(run(*command, "--json").stdout)
    assert run(*command, "--all", "--top", 1).stdout.count("Query 45: A is") == 7
    run(*command, "--all", "--plot", "why.svg", expect=2)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The same judged documents in every format, with columns in an order of their own."""
    root = tmp_path_factory.mktemp("tables")
    data = make_ranking(40, n_docs=8, n_features=4, n_grades=3, noise=0.2, random_state=0)
    columns = {f: data.X[:, j].astype(np.float64) for j, f in enumerate(NAMES)}
    frame = pl.DataFrame({"page": [f"p{i}" for i in range(len(data))], **columns})
    frame = frame.with_columns(query=pl.Series(data.qid), grade=pl.Series(data.y))
    frame.write_parquet(root / "train.parquet")
    frame.write_csv(root / "train.csv")
    frame.write_csv(root / "train.tsv", separator="\t")
    (root / "train.csv.gz").write_bytes(gzip.compress((root / "train.csv").read_bytes()))
    shuffled = frame.select("clicks", "grade", "length", "query", "bm25", "page", "age")
    shuffled.with_columns(title=pl.lit("text")).write_parquet(root / "shuffled.parquet")
    shuffled.drop("grade").write_parquet(root / "unjudged.parquet")
    return root, data


COLUMNS = ("--label", "grade", "--qid", "query", "--doc-id", "page")


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv", "csv.gz"])
def test_tables(tables, ending, tmp_path):
    root, data = tables
    command = ("ltr", "train", root / f"train.{ending}", *COLUMNS, "--alpha", "0.01")
    report = json.loads(run(*command, "-m", tmp_path / "m", "--json").stdout)
    assert (report["documents"], report["queries"], report["features"]) == (320, 40, 4)
    by_hand = RoBiRank(0.01).fit(data.X.astype(np.float64), data.y, qid=data.qid)
    assert_allclose(load_model(tmp_path / "m").coef_, by_hand.coef_)
    for file in (f"train.{ending}", "shuffled.parquet"):
        command = ("ltr", "evaluate", tmp_path / "m", root / file, *COLUMNS)
        found = json.loads(run(*command, "--metric", "ndcg@10", "--json").stdout)
        assert found["metrics"]["ndcg@10"] == pytest.approx(report["train_ndcg@10"])


def test_documents_of_a_table_without_labels_are_scored(tables, tmp_path):
    root, data = tables
    train = ("ltr", "train", root / "train.parquet", *COLUMNS, "--alpha", "0.01", "-q")
    run(*train, "-m", tmp_path / "m")
    command = ("ltr", "predict", tmp_path / "m", root / "unjudged.parquet", "--qid", "query", "-q")
    lines = run(*command, "--doc-id", "page", "--format", "tsv").stdout.splitlines()[1:]
    assert [line.split("\t")[1] for line in lines] == [f"p{i}" for i in range(len(data))]
    model = load_model(tmp_path / "m")
    scores = [float(line.split("\t")[2]) for line in lines]
    assert_allclose(scores, model.predict(data.X.astype(np.float64)))
    command = ("ltr", "explain", tmp_path / "m", root / "unjudged.parquet", "--qid", "query", "-q")
    why = json.loads(run(*command, "--doc-id", "page", "--json").stdout)
    assert {e["feature"] for e in why["effects"]} <= set(NAMES)


def test_names_choose_the_columns_of_a_table(tables, tmp_path):
    root, _ = tables
    (tmp_path / "names").write_text("clicks\nbm25\n")
    command = ("ltr", "train", root / "shuffled.parquet", "--label", "grade", "--qid", "query")
    options = ("--feature-names", tmp_path / "names", "--validation", root / "train.csv", "-q")
    run(*command, *options, "-m", tmp_path / "dense")
    run(*command, *options, "-m", tmp_path / "sparse", "--sparse")
    dense, sparse = load_model(tmp_path / "dense"), load_model(tmp_path / "sparse")
    assert dense.feature_names_.tolist() == ["clicks", "bm25"]
    assert_allclose(sparse.coef_, dense.coef_, rtol=1e-3)


@pytest.mark.parametrize(
    ("file", "arguments", "message"),
    [
        ("train.csv", [], "train.csv: --label label is not a column"),
        ("train.csv", ["--label", "grade"], "train.csv: --qid qid is not a column"),
        ("shuffled.parquet", COLUMNS, "column 'title' must hold numbers; got String"),
        ("train.csv", [*COLUMNS, "--on-error", "skip"], "--on-error is for LETOR files"),
        ("none.csv", COLUMNS, "there is no file"),
        ("bad.parquet", COLUMNS, "bad.parquet is damaged"),
        ("some.txt", COLUMNS, "--label, --qid and --doc-id are for tables"),
    ],
)
def test_errors_about_tables(tables, tmp_path, file, arguments, message, monkeypatch):
    root, _ = tables
    monkeypatch.chdir(root)
    (root / "bad.parquet").write_bytes(b"PAR1 and no more")
    (root / "some.txt").write_text("1 qid:1 1:0.5\n")
    result = run("ltr", "train", file, *arguments, "-m", tmp_path / "m", expect=2)
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_a_table_with_other_features_than_the_model(tables, tmp_path):
    root, data = tables
    save_model(RoBiRank().fit(data.X[:, :3], data.y, qid=data.qid), tmp_path / "m")
    command = ("ltr", "evaluate", tmp_path / "m", root / "train.csv", *COLUMNS)
    said = " ".join(run(*command, expect=2).stderr.split())
    assert "must have the 3 features of the model" in said
    assert "it has 4: bm25, age, clicks, length" in said


def test_explain_draws_a_plot(folder, tmp_path):
    pytest.importorskip("matplotlib")
    command = ("ltr", "explain", folder / "trees", folder / "vali.txt", "--quiet")
    run(*command, "--plot", tmp_path / "why.svg")
    assert b"<svg" in (tmp_path / "why.svg").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--query", "nine"], "--query must be one of the 20 query ids; got 'nine'"),
        (["--above", "99"], "--above must be the id of a document of the query, or a rank"),
    ],
)
def test_explain_errors(folder, arguments, message):
    result = run("ltr", "explain", folder / "trees", folder / "vali.txt", *arguments, expect=2)
    assert message in " ".join(result.stderr.split())


def test_what_cannot_explain_says_so(folder, tmp_path):
    command = ["ltr", "train", folder / "train.txt", "-m", tmp_path / "m", "--method", "RankNet"]
    run(*command, "--set", "max_iter=1")
    result = run("ltr", "explain", tmp_path / "m", folder / "vali.txt", expect=2)
    assert "a RankNet cannot explain its scores" in " ".join(result.stderr.split())
    result = run("ltr", "export", tmp_path / "m", expect=2)
    said = " ".join(result.stderr.split())
    assert "format must be one of ['onnx'] for a RankNet; got 'solr'" in said


def test_export_of_trees(folder, tmp_path):
    solr = json.loads(run("ltr", "export", folder / "trees").stdout)
    assert [f["name"] for f in solr["features"]] == NAMES
    text = run("ltr", "export", folder / "trees", "--format", "lightgbm").stdout
    import lightgbm

    model = load_model(folder / "trees")
    X = np.random.default_rng(0).standard_normal((50, 4))
    assert_allclose(lightgbm.Booster(model_str=text).predict(X), model.predict(X), rtol=1e-12)
    for format in ("elasticsearch", "ranklib"):
        run("ltr", "export", folder / "trees", "--format", format, "-o", tmp_path / "m.json")
        assert json.loads((tmp_path / "m.json").read_text())["model"]["name"] == "robirank"
    result = run("ltr", "export", folder / "linear", "--format", "ranklib", expect=2)
    said = " ".join(result.stderr.split())
    assert "must be one of ['solr', 'elasticsearch', 'onnx'] for a RoBiRank; got 'ranklib'" in said


def test_export_to_onnx(folder, tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed")
    run("ltr", "export", folder / "trees", "--format", "onnx", "-o", tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").stat().st_size > 100
    names = tmp_path / "names"
    names.write_text("one\ntwo\nthree\nfour\n")
    args = ("--format", "onnx", "--feature-names", names, "-o", tmp_path / "m.onnx")
    run("ltr", "export", folder / "trees", *args)
    assert b"one\ntwo\nthree\nfour" in (tmp_path / "m.onnx").read_bytes()
    run("ltr", "export", folder / "trees", "--format", "onnx", expect=2)

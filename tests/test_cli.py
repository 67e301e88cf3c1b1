"""The command line: what it prints where, what it writes, and how it fails."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import robirank
from robirank import RoBiRank, RoBiRankCV, load_model, make_ranking, metrics, save_model
from robirank.classifier import RobustClassifier
from robirank.cli.app import app
from robirank.storage.estimators import load_extra

N_FEATURES = 4


def write_letor(path: Path, data, keep=lambda j, value: True) -> Path:
    """Write plain LETOR text, independently of the package's own writer."""
    lines = []
    for i in range(data.n_rows):
        row = [f"{j + 1}:{float(v)!r}" for j, v in enumerate(data.X[i]) if keep(j, v)]
        lines.append(f"{int(data.y[i])} qid:{data.qid[i]} {' '.join(row)} #docid = doc{i}\n")
    path.write_text("".join(lines))
    return path


def make_data(n_queries: int, seed: int, n_features: int = N_FEATURES):
    return make_ranking(n_queries, n_docs=8, n_features=n_features, n_grades=3, random_state=seed)


TRAIN, VALI, TEST = make_data(30, 0), make_data(15, 0), make_data(10, 1)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("letor")
    for name, data in (("train", TRAIN), ("vali", VALI), ("test", TEST)):
        write_letor(folder / f"{name}.txt", data)
    model = RoBiRank(alpha=0.1).fit(TRAIN.X, TRAIN.y, qid=TRAIN.qid)
    save_model(model, folder / "model")
    return folder


def run(*arguments, expect: int = 0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    detail = f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    assert result.exit_code == expect, detail
    assert "Traceback" not in result.stdout + result.stderr
    return result


def error_of(*arguments, code: int = 2) -> str:
    """Run a command that must fail: nothing on stdout, one or two lines on stderr."""
    result = run(*arguments, expect=code)
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert lines[-1].startswith("robirank: error: ") or lines[-2].startswith("robirank: error: ")
    return result.stderr


# The top


def test_version():
    assert run("--version").stdout == f"robirank {robirank.__version__}\n"


def test_verbose_version_says_what_a_report_of_a_defect_needs():
    lines = run("--version", "--verbose").stdout.splitlines()
    said = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in lines)
    assert said["robirank"] == robirank.__version__
    assert said["numpy"] == np.__version__
    assert said["instruction set"].startswith(robirank._core.instruction_set())
    assert int(said["threads"]) >= 1
    assert {"python", "system", "BLAS", "card", "nanobind-backend"} <= set(said)


def test_verbose_goes_with_version():
    assert "--verbose goes with --version" in run("--verbose", expect=2).stderr


def test_help_names_the_commands():
    text = run("--help").stdout
    assert "latent" in text
    assert "ltr" in text
    text = run("ltr", "--help").stdout
    for command in ("train", "predict", "evaluate", "export"):
        assert command in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["ltr", "train"],
        ["ltr", "train", "x.txt"],
        ["ltr", "train", "x.txt", "--model", "m", "--rho", "cube"],
        ["ltr", "train", "x.txt", "--model", "m", "--sparse", "--normalize"],
        ["ltr", "evaluate", "only-one"],
        ["ltr", "evaluate", "model", "data", "--scores", "s"],
    ],
)
def test_wrong_usage_is_2(arguments):
    result = run(*arguments, expect=2)
    assert result.stdout == ""
    assert "Usage: " in result.stderr


# Train


def test_train_with_a_penalty(files, tmp_path):
    out = tmp_path / "m"
    result = run("ltr", "train", files / "train.txt", "--model", out, "--alpha", "0.1")
    assert "240" in result.stdout
    assert "read" in result.stderr
    model = load_model(out)
    assert type(model) is RoBiRank
    np.testing.assert_allclose(model.coef_, load_model(files / "model").coef_, atol=1e-6)
    assert load_extra(out) == {"normalize": False, "log_features": False}
    assert list(tmp_path.iterdir()) == [out]


def test_train_options_reach_the_model(files, tmp_path):
    options = "--alpha 0.5 --rho type2 --metric dcg --init random --seed 7 --threads 1"
    options += " --max-iter 50 --quiet"
    result = run("ltr", "train", files / "train.txt", "--model", tmp_path / "m", *options.split())
    assert result.stderr == ""
    model = load_model(tmp_path / "m")
    wanted = {"alpha": 0.5, "rho": "type2", "metric": "dcg", "init": "random", "max_iter": 50}
    assert model.get_params() | wanted | {"random_state": 7, "num_threads": 1} == model.get_params()


def test_train_chooses_the_penalty_on_validation_queries(files, tmp_path):
    result = run(
        *("ltr", "train", files / "train.txt", "--validation", files / "vali.txt"),
        *("--model", tmp_path / "m", "--json"),
    )
    report = json.loads(result.stdout)
    model = load_model(tmp_path / "m")
    assert type(model) is RoBiRankCV
    assert model.scores_.shape[1] == 1
    assert report["alpha"] == model.alpha_
    best = max(report["alphas"], key=lambda row: row["ndcg@10"])
    assert report["validation_ndcg@10"] == pytest.approx(best["ndcg@10"])
    assert report["validation_ndcg@10"] == model.score(VALI.X, VALI.y, qid=VALI.qid)
    assert (report["documents"], report["queries"], report["features"]) == (240, 30, 4)


def test_train_chooses_the_penalty_by_folds(files, tmp_path):
    command = ["ltr", "train", files / "train.txt", "--folds", 3, "--json", "--model"]
    reports = [json.loads(run(*command, tmp_path / name).stdout) for name in "ab"]
    assert load_model(tmp_path / "a").scores_.shape[1] == 3
    assert "cross_validated_ndcg@10" in reports[0]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_normalize_is_remembered(files, tmp_path):
    model_path = tmp_path / "m"
    run("ltr", "train", files / "train.txt", "--alpha", 0.1, "--normalize", "--model", model_path)
    assert load_extra(model_path) == {"normalize": True, "log_features": False}
    model = load_model(model_path)
    lines = run("ltr", "predict", model_path, files / "test.txt").stdout.split()
    expected = model.predict(TEST.normalize().X)
    np.testing.assert_allclose(np.array(lines, dtype=float), expected, rtol=1e-6)
    assert "trained with --normalize" in error_of("ltr", "export", model_path)


def test_bad_lines_stop_or_are_skipped(files, tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_text((files / "train.txt").read_text() + "1 qid:99 not-a-feature\n")
    message = error_of("ltr", "train", bad, "--alpha", 1, "--model", tmp_path / "m")
    assert "bad.txt" in message
    assert "241" in message
    assert not (tmp_path / "m").exists()
    command = ["ltr", "train", bad, "--alpha", 1, "--model", tmp_path / "m", "--json"]
    report = json.loads(run(*command, "--on-error", "skip").stdout)
    assert (report["documents"], report["skipped"]) == (240, 1)


def test_sparse_and_dense_training_agree(files, tmp_path):
    command = ["ltr", "train", files / "train.txt", "--alpha", 0.1, "--model"]
    run(*command, tmp_path / "dense")
    run(*command, tmp_path / "sparse", "--sparse")
    dense, sparse = load_model(tmp_path / "dense"), load_model(tmp_path / "sparse")
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-3)


def test_train_fails_early_and_clearly(files, tmp_path):
    train = files / "train.txt"
    assert "nothing-here" in error_of(
        "ltr", "train", tmp_path / "nothing-here", "--alpha", 1, "--model", tmp_path / "m"
    )
    message = error_of("ltr", "train", train, "--alpha", -1, "--model", tmp_path / "m")
    assert "alpha must be" in message
    assert "-1" in message
    assert "there is no folder" in error_of("ltr", "train", train, "--model", tmp_path / "no" / "m")


# Predict


def test_scores_one_a_line_with_all_digits(files, tmp_path):
    expected = load_model(files / "model").predict(TEST.X)
    result = run("ltr", "predict", files / "model", files / "test.txt")
    assert [float(line) for line in result.stdout.splitlines()] == expected.tolist()
    out = tmp_path / "scores.txt"
    quiet = run("ltr", "predict", files / "model", files / "test.txt", "-o", out, "-q")
    assert (quiet.stdout, quiet.stderr) == ("", "")
    assert out.read_text() == result.stdout


def test_tsv(files):
    result = run("ltr", "predict", files / "model", files / "test.txt", "--format", "tsv")
    header, first, *_ = result.stdout.splitlines()
    assert header.split("\t") == ["qid", "docid", "score"]
    assert first.split("\t")[:2] == ["1", "doc0"]


def test_trec_run_gives_the_same_ndcg(files):
    """Read the run back with another program's parser and measure."""
    import pytrec_eval

    result = run(
        *("ltr", "predict", files / "model", files / "test.txt"),
        *("--format", "trec", "--tag", "mine"),
    )
    lines = [line.split(" ") for line in result.stdout.splitlines()]
    assert len(lines) == TEST.n_rows
    assert all(line[1] == "Q0" and line[5] == "mine" for line in lines)
    ranks = [int(line[3]) for line in lines if line[0] == "1"]
    scores = [float(line[4]) for line in lines if line[0] == "1"]
    assert ranks == list(range(1, 9))
    assert scores == sorted(scores, reverse=True)

    run_file: dict = {}
    for q, _, doc, _, score, _ in lines:
        run_file.setdefault(q, {})[doc] = float(score)
    qrels: dict = {}
    for i in range(TEST.n_rows):
        qrels.setdefault(str(TEST.qid[i]), {})[f"doc{i}"] = int(TEST.y[i])
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(run_file)
    ours = json.loads(
        run(
            *("ltr", "evaluate", files / "model", files / "test.txt", "--json"),
            *("--convention", "trec", "--metric", "ndcg@10"),
        ).stdout
    )
    mean = np.mean([q["ndcg_cut_10"] for q in theirs.values()])
    assert ours["metrics"]["ndcg@10"] == pytest.approx(mean, abs=1e-4)


def test_a_tag_of_two_words_is_refused(files):
    message = error_of(
        *("ltr", "predict", files / "model", files / "test.txt"),
        *("--format", "trec", "--tag", "two words", "-q"),
    )
    assert "one word" in message


def test_data_without_trailing_features_are_widened(files, tmp_path):
    narrow = write_letor(tmp_path / "narrow.txt", TEST, keep=lambda j, _: j < 2)
    scores = run("ltr", "predict", files / "model", narrow).stdout.split()
    padded = TEST.X.copy()
    padded[:, 2:] = 0
    expected = load_model(files / "model").predict(padded)
    np.testing.assert_allclose(np.array(scores, dtype=float), expected, rtol=1e-6)


def test_data_with_more_features_than_the_model_are_refused(files, tmp_path):
    wide = write_letor(tmp_path / "wide.txt", make_data(3, 0, n_features=N_FEATURES + 1))
    message = error_of("ltr", "predict", files / "model", wide, "-q")
    assert "wide.txt" in message
    assert re.search(r"\b4\b", message)


def test_a_bad_model_file_is_refused(files, tmp_path):
    for command in ("predict", "evaluate"):
        message = error_of("ltr", command, files / "train.txt", files / "test.txt", "-q")
        assert "cannot load" in message
        assert "train.txt" in message
    assert "there is no model file" in error_of("ltr", "export", tmp_path / "none")
    save_model(RobustClassifier().fit(TRAIN.X, TRAIN.y > 0), tmp_path / "classifier")
    assert "does not rank" in error_of("ltr", "export", tmp_path / "classifier")


# Evaluate


def test_evaluate_prints_the_measures(files):
    scores = load_model(files / "model").predict(TEST.X)
    result = run(
        *("ltr", "evaluate", files / "model", files / "test.txt"),
        *("--metric", "ndcg@5", "--metric", "p@2"),
    )
    expected = metrics.ndcg(TEST.y, scores, TEST.qid, k=5)
    assert f"{expected:.4f}" in result.stdout
    assert "p@2" in result.stdout
    assert "ndcg@10" not in result.stdout


@pytest.mark.parametrize("convention", list(metrics.CONVENTIONS))
def test_evaluate_json_in_every_convention(files, convention):
    scores = load_model(files / "model").predict(TEST.X)
    result = run(
        *("ltr", "evaluate", files / "model", files / "test.txt", "--json"),
        *("--convention", convention),
    )
    report = json.loads(result.stdout)
    expected = metrics.evaluate_ranking(TEST.y, scores, TEST.qid, convention=convention)
    assert report["metrics"] == pytest.approx(expected)
    assert (report["queries"], report["documents"]) == (10, 80)
    assert report["convention"] == convention


def test_evaluate_scores_from_elsewhere(files, tmp_path):
    scores = tmp_path / "scores.txt"
    run("ltr", "predict", files / "model", files / "test.txt", "--output", scores)
    own = run("ltr", "evaluate", files / "model", files / "test.txt", "--json")
    given = run("ltr", "evaluate", "--scores", scores, files / "test.txt", "--json")
    assert json.loads(given.stdout) == json.loads(own.stdout)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1.0\n2.0\n", "each of the 80 documents, one a line; it has 2"),
        ("x\n" * 80, "must hold numbers"),
        ("nan\n" + "1\n" * 79, "score 1 is nan"),
    ],
)
def test_bad_score_files(files, tmp_path, content, message):
    scores = tmp_path / "scores.txt"
    scores.write_text(content)
    assert message in error_of("ltr", "evaluate", "--scores", scores, files / "test.txt", "-q")


def test_per_query_file_has_the_mean(files, tmp_path):
    out = tmp_path / "queries.tsv"
    result = run(
        *("ltr", "evaluate", files / "model", files / "test.txt", "--json"), *("--per-query", out)
    )
    header, *rows = [line.split("\t") for line in out.read_text().splitlines()]
    assert header == ["qid", "ndcg@1", "ndcg@5", "ndcg@10", "map", "mrr"]
    assert [row[0] for row in rows] == [str(q) for q in range(1, 11)]
    mean = np.mean([float(row[3]) for row in rows])
    assert json.loads(result.stdout)["metrics"]["ndcg@10"] == pytest.approx(mean)


def test_unknown_measure(files):
    message = error_of(
        *("ltr", "evaluate", files / "model", files / "test.txt", "-q"), *("--metric", "auc")
    )
    assert "'auc'" in message
    assert "ndcg" in message


# Export


def test_export_ranks_as_the_model(files, tmp_path):
    out, names = tmp_path / "m.json", tmp_path / "names.txt"
    names.write_text("title\nbody\nage\nclicks\n")
    run(
        *("ltr", "export", files / "model", "--format", "elasticsearch", "--output", out),
        *("--feature-names", names, "--name", "shop"),
    )
    document = json.loads(out.read_text())
    assert document["model"]["name"] == "shop"
    weights = document["model"]["model"]["definition"]
    assert list(weights) == ["title", "body", "age", "clicks"]
    scores = TEST.X.astype(float) @ list(weights.values())
    np.testing.assert_allclose(scores, load_model(files / "model").predict(TEST.X), rtol=1e-6)


def test_export_to_stdout_is_json(files):
    document = json.loads(run("ltr", "export", files / "model", "--feature-store", "s").stdout)
    assert document["class"] == "org.apache.solr.ltr.model.LinearModel"
    assert document["store"] == "s"
    assert list(document["params"]["weights"]) == ["f1", "f2", "f3", "f4"]


# What goes wrong in between


def fail_with(error: BaseException):
    def fail(*_, **__):
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), 130, "robirank: interrupted\n"),
        (ValueError("two\n lines"), 2, "robirank: error: two lines\n"),
        (PermissionError(13, "Permission denied", "f"), 2, "robirank: error: Permission denied: f"),
        (ImportError("pip install 'robirank[plots]'"), 2, "pip install 'robirank[plots]'"),
        (ZeroDivisionError("oh"), 1, "robirank: error: unexpected ZeroDivisionError: oh\nset ROBI"),
        (MemoryError(), 1, "unexpected MemoryError"),
        (ModuleNotFoundError("No module named 'x'"), 1, "unexpected ModuleNotFoundError"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_become_one_line_and_a_code(files, monkeypatch, error, code, text):
    monkeypatch.setattr("robirank.ltr.export_model.export_linear", fail_with(error))
    result = run("ltr", "export", files / "model", expect=code)
    assert text in result.stderr
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) <= 2


def test_debug_shows_the_traceback(files, monkeypatch):
    monkeypatch.setattr("robirank.ltr.export_model.export_linear", fail_with(ValueError("here")))
    monkeypatch.setenv("ROBIRANK_DEBUG", "1")
    result = CliRunner().invoke(app, ["ltr", "export", str(files / "model")])
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "fail_with" not in result.stdout


def test_warnings_are_one_line(files, tmp_path):
    result = run(
        *("ltr", "train", files / "train.txt", "--alpha", 0, "--max-iter", 1),
        *("--model", tmp_path / "m", "-q"),
    )
    assert result.stderr.startswith("robirank: warning: L-BFGS stopped after max_iter=1")
    assert len(result.stderr.splitlines()) == 1


# The real thing

COMMAND = [sys.executable, "-m", "robirank"]


def test_train_and_evaluate_for_real(files, tmp_path):
    environment = os.environ | {"COLUMNS": "80"}
    train = [*COMMAND, "ltr", "train", files / "train.txt", "--alpha", "0.1", "--json"]
    done = subprocess.run(
        [*train, "--model", tmp_path / "m"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["queries"] == 30
    bad = subprocess.run(
        [*COMMAND, "ltr", "evaluate", tmp_path / "m", tmp_path / "none.txt"],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert bad.returncode == 2
    assert bad.stdout == ""
    assert "none.txt" in bad.stderr
    assert "Traceback" not in bad.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
def test_a_closed_pipe_is_no_drama(files, tmp_path):
    many = tmp_path / "many.txt"
    many.write_text("0 qid:1 1:0.123 2:0.456\n" * 20_000)  # more than a pipe holds
    done = subprocess.run(
        f"{sys.executable} -m robirank ltr predict {files / 'model'} {many} -q | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


HEAVY = ("numpy", "sklearn", "scipy", "polars", "pandas", "rich", "typer", "matplotlib")


def test_import_is_light_and_fast():
    code = (
        "import sys, time; t = time.perf_counter(); import robirank; dir(robirank);"
        "print(time.perf_counter() - t);"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, loaded = done.stdout.splitlines()
    assert float(seconds) < 0.5
    assert loaded == "[]"


def test_help_does_not_import_the_heavy_parts():
    code = (
        "import sys; from robirank.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print([m for m in ('numpy', 'sklearn', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def every_command(command, path=()):
    """Those of other distributions too, where they are installed."""
    yield path
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from every_command(command.get_command(None, name), (*path, name))


@pytest.mark.parametrize("path", [*every_command(typer.main.get_command(app))], ids=" ".join)
def test_help_shows_no_value_for_flags(path):
    text = run(*path, "--help").stdout
    assert "--help" in text
    assert "bool" not in text.lower()


def test_completion_can_be_installed(tmp_path):
    program = Path(sys.executable).with_name("robirank")
    shell = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(
        [program, "--install-completion", "bash"],
        env=os.environ | shell,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "installed" in done.stdout
    assert (tmp_path / ".bash_completions" / "robirank.sh").exists()
    asked = {"COMP_WORDS": "robirank latent pa", "COMP_CWORD": "2"}
    done = subprocess.run(
        [program],
        env=os.environ | asked | {"_ROBIRANK_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["partition"]

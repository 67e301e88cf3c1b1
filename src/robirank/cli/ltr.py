"""Commands for ranking by features: ``robirank ltr train | predict | evaluate | …``."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from robirank.cli.console import (
    check_output,
    note,
    print_facts,
    print_json,
    print_table,
    print_text,
    show_progress,
    step,
)
from robirank.cli.judged import DOC_ID, FORMATS, LABEL, QID, OnError, Reader
from robirank.cli.options import (
    JSON,
    QUIET,
    RHO,
    SEED,
    THREADS,
    RhoName,
    argument,
    file,
    option,
)

if TYPE_CHECKING:
    from robirank.data.ranking import RankingData

app = typer.Typer(no_args_is_help=True, help="Rank documents by their features.")


_DEFAULT_METRICS = ["ndcg@1", "ndcg@5", "ndcg@10", "map", "mrr"]
_METRICS = option(
    None,
    f"May be repeated; {', '.join(_DEFAULT_METRICS)} by default.",
    "--metric",
    show_default=False,
)

_DATA = argument("DATA", f"Judged documents: {FORMATS}.")
_MODEL = argument("MODEL", "A model file, from `ltr train`.")
_SPARSE = option(False, "Keep the features sparse in memory.", "--sparse")
_NAMES = file("Names of the features, one a line; of a table, those to take.")
_ON_ERROR = option("raise", "Stop at a bad line, or skip and count it.")
_OUTPUT = file("Instead of stdout.", "--output", "-o")


@app.command()
def train(
    context: typer.Context,
    data: Path = argument("TRAIN", f"Judged documents: {FORMATS}."),
    model_path: Path = option(..., "Where to save the model.", "--model", "-m", metavar="OUT"),
    method: str = option("RoBiRank", "A ranker by its class, such as MART.", metavar="NAME"),
    params: list[str] | None = option(
        None, "A parameter of it; may be repeated.", "--set", metavar="PARAM=VALUE"
    ),
    validation: Path | None = file("Held-out queries, to choose alpha or to stop early."),
    alpha: float | None = option(
        None,
        "L2 penalty. Without it a path of penalties is tried: on --validation, or by "
        "cross-validation over queries.",
    ),
    folds: int = option(5, "Folds of the cross-validation.", min=2),
    rho: RhoName = RHO,
    metric: Literal["ndcg", "dcg"] = option("ndcg", "The metric to bound."),
    init: Literal["zeros", "random"] = option("zeros", "Where to start."),
    max_iter: int = option(500, "Most iterations of a fit.", min=1),
    normalize: bool = option(
        False,
        "Scale features to [0, 1] within each query; the model remembers it.",
        "--normalize",
    ),
    log_features: bool = option(
        False,
        "Take sign(x) log(1 + |x|) of the features; the model remembers it.",
        "--log-features",
    ),
    feature_names: Path | None = _NAMES,
    label: str | None = LABEL,
    qid: str | None = QID,
    doc_id: str | None = DOC_ID,
    on_error: OnError = _ON_ERROR,
    sparse: bool = _SPARSE,
    seed: int = SEED,
    threads: int | None = THREADS,
    as_json: bool = JSON,
    _quiet: bool = QUIET,
) -> None:
    """Train RoBiRank, or another ranker, and save it."""
    started = time.perf_counter()
    if normalize and sparse:
        raise typer.BadParameter("--normalize makes features dense; leave out --sparse")
    check_output(model_path, data, validation)
    extra = {"normalize": normalize, "log_features": log_features}
    reader = Reader(label, qid, doc_id, on_error, sparse, threads=threads, **extra)
    given_names = _names_from(feature_names)
    train_data = reader.read(data, given_names)
    names = given_names or train_data.feature_names
    held_out = None
    if validation is not None:
        held_out = reader.read(validation, names, train_data.n_features)
    always = {"random_state": seed, "num_threads": threads or 0, "verbose": show_progress()}
    options: dict[str, Any] = {"rho": rho, "metric": metric, "init": init, "max_iter": max_iter}
    chooses_by = held_out
    if method not in ("RoBiRank", "RoBiRankCV") or params is not None:
        options = {name: v for name, v in options.items() if _is_given(context, name)}
        options |= ({} if alpha is None else {"alpha": alpha}) | _parse(params or [])
    elif alpha is None:
        method, options = "RoBiRankCV", {"cv": folds, **options}
    else:
        method, options, chooses_by = "RoBiRank", {"alpha": alpha, **options}, None
    with step("train") as details:
        model = _fit(method, options, always, train_data, chooses_by)
        details.append(_how_it_went(model))
    model.verbose = False
    from robirank.storage.estimators import save_model

    save_model(model, model_path, feature_names=names, extra=extra)
    report = _training_report(model, train_data, held_out)
    report |= {"model": str(model_path), "seconds": round(time.perf_counter() - started, 3)}
    print_facts(f"Trained {type(model).__name__}", report, as_json=as_json)


@app.command()
def predict(
    model_path: Path = _MODEL,
    data: Path = _DATA,
    output: Path | None = _OUTPUT,
    format: Literal["scores", "tsv", "trec"] = option(
        "scores", "scores: one a line; tsv: query, document, score; trec: a run file."
    ),
    tag: str = option("robirank", "Name of the run, for --format trec."),
    label: str | None = LABEL,
    qid: str | None = QID,
    doc_id: str | None = DOC_ID,
    on_error: OnError = _ON_ERROR,
    sparse: bool = _SPARSE,
    _quiet: bool = QUIET,
) -> None:
    """Score the documents of a file."""
    from robirank.cli import runs
    from robirank.storage.files import write_text

    check_output(output, model_path, data)
    reader = Reader(label, qid, doc_id, on_error, sparse, labelled=False)
    _, documents, scores = _score(model_path, data, reader)
    text = runs.FORMATS[format](documents, scores, tag)
    if output is None:
        print_text(text)
    else:
        write_text(output, text)
        note(f"wrote {len(scores):,} scores to {output}")


@app.command()
def evaluate(
    files: list[Path] = argument("[MODEL] DATA", "A model (or --scores) and judged documents."),
    scores_path: Path | None = file("One score a line, in place of MODEL.", "--scores"),
    metrics: list[str] | None = _METRICS,
    convention: Literal["standard", "letor", "trec", "lightgbm"] = option(
        "standard", "Whose definition of the metrics."
    ),
    per_query: Path | None = file("Also write each query's values (tsv)."),
    label: str | None = LABEL,
    qid: str | None = QID,
    doc_id: str | None = DOC_ID,
    on_error: OnError = _ON_ERROR,
    sparse: bool = _SPARSE,
    as_json: bool = JSON,
    _quiet: bool = QUIET,
) -> None:
    """Measure how well a model, or scores from elsewhere, rank judged documents."""
    from robirank.cli import runs
    from robirank.metrics import evaluate_ranking

    if len(files) != (2 if scores_path is None else 1):
        raise typer.BadParameter("give MODEL and DATA, or --scores FILE and DATA")
    reader = Reader(label, qid, doc_id, on_error, sparse)
    if scores_path is None:
        _, data, scores = _score(files[0], files[1], reader)
    else:
        data = reader.read(files[0])
        scores = runs.read_scores(scores_path, data.n_rows)
    measure = partial(
        evaluate_ranking,
        *(data.y, scores, data.qid),
        metrics=metrics or _DEFAULT_METRICS,
        convention=convention,
    )
    means = measure()
    if per_query is not None:
        table = measure(per_query=True)
        runs.write_per_query(per_query, data.queries.ids, table)
        note(f"wrote {data.n_queries:,} queries to {per_query}")
    if as_json:
        about = {"documents": data.n_rows, "queries": data.n_queries, "skipped": data.n_skipped}
        print_json({**about, "convention": convention, "metrics": means})
    else:
        title = f"{data.n_queries:,} queries, convention {convention}"
        print_table(title, ["Metric", "mean"], [[n, f"{v:.4f}"] for n, v in means.items()])


@app.command()
def explain(
    model_path: Path = _MODEL,
    data: Path = _DATA,
    query: str | None = option(None, "The query; the first by default.", metavar="ID"),
    above: str = option("1", "Document A: its id in the file, or its rank.", metavar="DOC"),
    below: str = option("2", "Document B: its id in the file, or its rank.", metavar="DOC"),
    every: bool = option(False, "Every document of the query against the next.", "--all"),
    top: int = option(10, "Features to show.", min=1),
    feature_names: Path | None = _NAMES,
    plot: Path | None = file("Also draw them (.png, .svg, .pdf)."),
    label: str | None = LABEL,
    qid: str | None = QID,
    doc_id: str | None = DOC_ID,
    on_error: OnError = _ON_ERROR,
    as_json: bool = JSON,
    _quiet: bool = QUIET,
) -> None:
    """Say why a model puts one document of a query above another."""
    from robirank.cli import explanations
    from robirank.storage.files import write_whole

    check_output(plot, model_path, data)
    if every and plot is not None:
        raise typer.BadParameter("--plot draws one pair of documents; leave out --all")
    reader = Reader(label, qid, doc_id, on_error, labelled=False)
    model, documents, scores = _score(model_path, data, reader)
    names = _names_from(feature_names)
    if names is not None:
        model.feature_names_ = names
    chosen = {} if every else {"--above": above, "--below": below}
    pairs = explanations.explain(model, documents, scores, query, chosen)
    if plot is not None:
        figure = pairs[0].why.plot(top=top).figure
        with write_whole(plot) as file:
            figure.savefig(file, format=plot.suffix.lstrip(".") or "png")
        note(f"wrote {plot}")
    if as_json:
        objects = [pair.as_json() for pair in pairs]
        print_json({"pairs": objects} if every else objects[0])
        return
    for pair in pairs:
        print_table(pair.title(), ["Feature", "A", "B", "effect"], pair.why.cells(top))


@app.command()
def export(
    model_path: Path = _MODEL,
    format: Literal["solr", "elasticsearch", "ranklib", "lightgbm", "onnx"] = option(
        "solr",
        "solr and elasticsearch take linear models and trees, ranklib (a format of "
        "Elasticsearch) and lightgbm take trees, onnx takes both and networks.",
    ),
    output: Path | None = _OUTPUT,
    name: str = option("robirank", "Name of the model in the engine."),
    feature_names: Path | None = _NAMES,
    feature_store: str | None = option(None, "Solr's feature store."),
) -> None:
    """Write a model for Solr, Elasticsearch, OpenSearch, LightGBM or an ONNX runtime."""
    check_output(output, model_path)
    model, extra = _load(model_path)
    if extra.get("normalize"):
        raise ValueError(
            f"{model_path} was trained with --normalize, which scales features within each query; "
            "a search engine cannot. Train without it, or scale the features beforehand"
        )
    if extra.get("log_features"):
        note("the model wants logarithms: let the engine's features be sign(x) log(1 + |x|)")
    if format == "onnx" and output is None:
        raise typer.BadParameter("--format onnx writes bytes: name a file with --output")
    from robirank.ltr.export_model import export_model

    document = export_model(
        model,
        format,
        feature_names=_names_from(feature_names),
        name=name,
        path=output,
        feature_store=feature_store,
    )
    if output is None:
        print_text(document) if isinstance(document, str) else print_json(document)


def _names_from(path: Path | None) -> list[str] | None:
    """Feature names from a file, one a line; None without a file."""
    if path is None:
        return None
    return [line.strip() for line in path.read_text("utf-8").split("\n") if line.strip()]


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _parse(params: list[str]) -> dict[str, Any]:
    """Parameters written as NAME=VALUE; a value is JSON, or else a text."""
    parsed: dict[str, Any] = {}
    for text in params:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"--set takes PARAM=VALUE; got {text!r}")
        try:
            parsed[name.strip()] = json.loads(value)
        except json.JSONDecodeError:
            parsed[name.strip()] = value
    return parsed


def _fit(
    method: str,
    given: dict[str, Any],
    always: dict[str, Any],
    train_data: RankingData,
    held_out: RankingData | None,
) -> Any:
    """Fit a ranker of the registry with the given parameters."""
    from inspect import signature

    from robirank.registry import rankers

    methods = rankers()
    if method not in methods:
        raise typer.BadParameter(f"--method must be one of {', '.join(methods)}; got {method!r}")
    has = signature(methods[method]).parameters
    unknown = [name for name in given if name not in has]
    if unknown:
        raise typer.BadParameter(f"{method} has no parameter {unknown[0]}; it has {', '.join(has)}")
    model = methods[method](**{n: v for n, v in always.items() if n in has} | given)
    extra: dict[str, Any] = {}
    if held_out is not None:
        if "validation" not in signature(model.fit).parameters:
            raise typer.BadParameter(f"{method} does not use --validation")
        extra["validation"] = held_out
    return model.fit(train_data.X, train_data.y, qid=train_data.qid, **extra)


def _how_it_went(model: Any) -> str:
    if hasattr(model, "n_iter_") and getattr(model, "loss_curve_", None):
        return f"{model.n_iter_} iterations to objective {model.loss_curve_[-1]:.6g}"
    return f"{model.best_iter_} rounds kept" if hasattr(model, "best_iter_") else "done"


def _training_report(
    model: Any, train_data: RankingData, held_out: RankingData | None
) -> dict[str, Any]:
    report: dict[str, Any] = {
        "documents": train_data.n_rows,
        "queries": train_data.n_queries,
        "features": train_data.n_features,
        "skipped": train_data.n_skipped,
        **_facts(model),
        "train_ndcg@10": model.score(train_data.X, train_data.y, qid=train_data.qid),
    }
    if hasattr(model, "alphas_"):
        means = model.scores_.mean(axis=1).tolist()
        report["alphas"] = [
            {"alpha": a, "ndcg@10": m} for a, m in zip(model.alphas_.tolist(), means, strict=True)
        ]
        if held_out is None:
            report["cross_validated_ndcg@10"] = model.best_score_
    if held_out is not None:
        report["validation_ndcg@10"] = model.score(held_out.X, held_out.y, qid=held_out.qid)
    return report


def _facts(model: Any) -> dict[str, Any]:
    """Figures of a fit for the summary, those that the method has."""
    curve = getattr(model, "loss_curve_", None)
    facts = {
        "alpha": getattr(model, "alpha_", getattr(model, "alpha", None)),
        "iterations": getattr(model, "n_iter_", None),
        "kept": getattr(model, "best_iter_", None),
        "objective": curve[-1] if curve else None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _load(path: Path) -> tuple[Any, dict[str, Any]]:
    from robirank.ltr.base import Ranker
    from robirank.storage.estimators import load_extra, load_model

    model = load_model(path)
    if not isinstance(model, Ranker):
        raise ValueError(f"{path} holds a {type(model).__name__}, which does not rank")
    return model, load_extra(path)


def _score(model_path: Path, data_path: Path, reader: Reader) -> tuple[Any, RankingData, Any]:
    """The model of a file, the documents of another, and the scores of these."""
    from robirank.data.letor import LetorFormatError
    from robirank.ltr.base import known_names

    model, extra = _load(model_path)
    width, normalize = model.n_features_in_, bool(extra.get("normalize"))
    reader = replace(
        reader,
        sparse=reader.sparse and not normalize,
        normalize=normalize,
        log_features=bool(extra.get("log_features")),
    )
    try:
        data = reader.read(data_path, known_names(model), width)
    except LetorFormatError as error:
        if f"n_features={width}" not in error.reason:
            raise
        raise ValueError(f"{error}, the number of features of {model_path}") from None
    return model, data, model.predict(data.X)

"""Commands for ranking by features: ``robirank ltr train | predict | evaluate | …``."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from robirank.cli import judged
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
from robirank.cli.judged import FORMATS, Columns, DocId, Label, OnError, Qid
from robirank.cli.options import Json, Quiet, Rho, Threads

if TYPE_CHECKING:
    from robirank.data.ranking import RankingData

app = typer.Typer(no_args_is_help=True, help="Rank documents by their features.")


DEFAULT_METRICS = ["ndcg@1", "ndcg@5", "ndcg@10", "map", "mrr"]

Data = Annotated[Path, typer.Argument(metavar="DATA", help=f"Judged documents: {FORMATS}.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, from `ltr train`.")]
Sparse = Annotated[bool, typer.Option("--sparse", help="Keep the features sparse in memory.")]
FeatureNames = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Names of the features, one a line; of a table, those to take."
    ),
]
BadLines = Annotated[
    OnError, typer.Option("--on-error", help="Stop at a bad line, or skip and count it.")
]


@app.command()
def train(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(metavar="TRAIN", help=f"Judged documents: {FORMATS}.")],
    model_path: Annotated[
        Path, typer.Option("--model", "-m", metavar="OUT", help="Where to save the model.")
    ],
    method: Annotated[
        str,
        typer.Option(metavar="NAME", help="A ranker by its class, such as MART."),
    ] = "RoBiRank",
    params: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PARAM=VALUE", help="A parameter of it; may be repeated."),
    ] = None,
    validation: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Held-out queries, to choose alpha or to stop early."),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            help="L2 penalty. Without it a path of penalties is tried: on --validation, or by "
            "cross-validation over queries."
        ),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    rho: Annotated[Rho, typer.Option(help="log is RoBiRank.")] = "log",
    metric: Annotated[Literal["ndcg", "dcg"], typer.Option(help="The metric to bound.")] = "ndcg",
    init: Annotated[Literal["zeros", "random"], typer.Option(help="Where to start.")] = "zeros",
    max_iter: Annotated[int, typer.Option(min=1, help="Most iterations of a fit.")] = 500,
    normalize: Annotated[
        bool,
        typer.Option(
            "--normalize",
            help="Scale features to [0, 1] within each query; the model remembers it.",
        ),
    ] = False,
    log_features: Annotated[
        bool,
        typer.Option(
            "--log-features",
            help="Take sign(x) log(1 + |x|) of the features; the model remembers it.",
        ),
    ] = False,
    feature_names: FeatureNames = None,
    label: Label = None,
    qid: Qid = None,
    doc_id: DocId = None,
    on_error: BadLines = "raise",
    sparse: Sparse = False,
    seed: Annotated[int, typer.Option(min=0, help="Decides everything that is random.")] = 0,
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train RoBiRank, or another ranker, and save it."""
    started = time.perf_counter()
    if normalize and sparse:
        raise typer.BadParameter("--normalize makes features dense; leave out --sparse")
    check_output(model_path, data, validation)
    read: dict[str, Any] = {
        "columns": Columns(label, qid, doc_id),
        "sparse": sparse,
        "normalize": normalize,
        "log_features": log_features,
        "on_error": on_error,
        "threads": threads,
        "quiet": quiet,
    }
    given_names = _names_from(feature_names)
    train_data = judged.read(data, features=given_names, **read)
    names = given_names or train_data.feature_names
    held_out = None
    if validation is not None:
        read |= {"features": names, "n_features": train_data.n_features}
        held_out = judged.read(validation, **read)
    always = {
        "random_state": seed,
        "num_threads": threads or 0,
        "verbose": show_progress(quiet),
    }
    options: dict[str, Any] = {"rho": rho, "metric": metric, "init": init, "max_iter": max_iter}
    chooses_by = held_out
    if method not in ("RoBiRank", "RoBiRankCV") or params is not None:
        options = {name: v for name, v in options.items() if _is_given(context, name)}
        options |= ({} if alpha is None else {"alpha": alpha}) | _parse(params or [])
    elif alpha is None:
        method, options = "RoBiRankCV", {"cv": folds, **options}
    else:
        method, options, chooses_by = "RoBiRank", {"alpha": alpha, **options}, None
    with step("train", quiet=quiet) as details:
        model = _fit(method, options, always, train_data, chooses_by)
        details.append(_how_it_went(model))
    model.verbose = False
    from robirank.storage.estimators import save_model

    extra = {"normalize": normalize, "log_features": log_features}
    save_model(model, model_path, feature_names=names, extra=extra)
    report = _training_report(model, train_data, held_out)
    report |= {"model": str(model_path), "seconds": round(time.perf_counter() - started, 3)}
    if as_json:
        print_json(report)
    else:
        print_facts(f"Trained {type(model).__name__}", report)


@app.command()
def predict(
    model_path: Model,
    data: Data,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout.")
    ] = None,
    format: Annotated[
        Literal["scores", "tsv", "trec"],
        typer.Option(help="scores: one a line; tsv: query, document, score; trec: a run file."),
    ] = "scores",
    tag: Annotated[str, typer.Option(help="Name of the run, for --format trec.")] = "robirank",
    label: Label = None,
    qid: Qid = None,
    doc_id: DocId = None,
    on_error: BadLines = "raise",
    sparse: Sparse = False,
    quiet: Quiet = False,
) -> None:
    """Score the documents of a file."""
    from robirank.cli import runs
    from robirank.storage.files import write_text

    check_output(output, model_path, data)
    options: Any = {"sparse": sparse, "on_error": on_error, "quiet": quiet, "labelled": False}
    columns = Columns(label, qid, doc_id)
    _, documents, scores = _score(model_path, data, columns=columns, **options)
    text = runs.FORMATS[format](documents, scores, tag)
    if output is None:
        print_text(text)
    else:
        write_text(output, text)
        note(f"wrote {len(scores):,} scores to {output}", quiet=quiet)


@app.command()
def evaluate(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="[MODEL] DATA", help="A model (or --scores) and judged documents."),
    ],
    scores_path: Annotated[
        Path | None,
        typer.Option("--scores", metavar="FILE", help="One score a line, in place of MODEL."),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help=f"May be repeated; {', '.join(DEFAULT_METRICS)} by default.",
            show_default=False,
        ),
    ] = None,
    convention: Annotated[
        Literal["standard", "letor", "trec", "lightgbm"],
        typer.Option(help="Whose definition of the metrics."),
    ] = "standard",
    per_query: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write each query's values (tsv).")
    ] = None,
    label: Label = None,
    qid: Qid = None,
    doc_id: DocId = None,
    on_error: BadLines = "raise",
    sparse: Sparse = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure how well a model, or scores from elsewhere, rank judged documents."""
    from robirank.cli import runs
    from robirank.metrics import evaluate_ranking

    if len(files) != (2 if scores_path is None else 1):
        raise typer.BadParameter("give MODEL and DATA, or --scores FILE and DATA")
    options: dict[str, Any] = {
        "columns": Columns(label, qid, doc_id),
        "sparse": sparse,
        "on_error": on_error,
        "quiet": quiet,
    }
    if scores_path is None:
        _, data, scores = _score(files[0], files[1], **options)
    else:
        data = judged.read(files[0], **options)
        scores = runs.read_scores(scores_path, data.n_rows)
    judged_scores = (data.y, scores, data.qid)
    options_of_metrics: Any = {"metrics": metrics or DEFAULT_METRICS, "convention": convention}
    means = evaluate_ranking(*judged_scores, **options_of_metrics)
    if per_query is not None:
        table = evaluate_ranking(*judged_scores, **options_of_metrics, per_query=True)
        runs.write_per_query(per_query, data.queries.ids, table)
        note(f"wrote {data.n_queries:,} queries to {per_query}", quiet=quiet)
    if as_json:
        about = {"documents": data.n_rows, "queries": data.n_queries, "skipped": data.n_skipped}
        print_json({**about, "convention": convention, "metrics": means})
    else:
        title = f"{data.n_queries:,} queries, convention {convention}"
        print_table(title, ["Metric", "mean"], [[n, f"{v:.4f}"] for n, v in means.items()])


@app.command()
def explain(
    model_path: Model,
    data: Data,
    query: Annotated[
        str | None, typer.Option(metavar="ID", help="The query; the first by default.")
    ] = None,
    above: Annotated[
        str, typer.Option(metavar="DOC", help="Document A: its id in the file, or its rank.")
    ] = "1",
    below: Annotated[
        str, typer.Option(metavar="DOC", help="Document B: its id in the file, or its rank.")
    ] = "2",
    every: Annotated[
        bool, typer.Option("--all", help="Every document of the query against the next.")
    ] = False,
    top: Annotated[int, typer.Option(min=1, help="Features to show.")] = 10,
    feature_names: FeatureNames = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw them (.png, .svg, .pdf).")
    ] = None,
    label: Label = None,
    qid: Qid = None,
    doc_id: DocId = None,
    on_error: BadLines = "raise",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say why a model puts one document of a query above another."""
    from robirank.cli import explanations

    check_output(plot, model_path, data)
    if every and plot is not None:
        raise typer.BadParameter("--plot draws one pair of documents; leave out --all")
    options: Any = {"on_error": on_error, "quiet": quiet, "labelled": False}
    columns = Columns(label, qid, doc_id)
    model, documents, scores = _score(model_path, data, columns=columns, **options)
    names = _names_from(feature_names)
    if names is not None:
        model.feature_names_ = names
    if every:
        pairs = explanations.neighbours(documents, scores, query)
    else:
        pairs = [explanations.choose(documents, scores, query, above, below)]
    explained = [(explanations.explain_pair(model, documents, pair), pair) for pair in pairs]
    if plot is not None:
        explanations.save_plot(explained[0][0], plot, top)
        note(f"wrote {plot}", quiet=quiet)
    if as_json:
        objects = [explanations.as_json(why, pair) for why, pair in explained]
        print_json({"pairs": objects} if every else objects[0])
        return
    for why, pair in explained:
        print_table(explanations.title(pair), ["Feature", "A", "B", "effect"], why.cells(top))


@app.command()
def export(
    model_path: Model,
    format: Annotated[
        Literal["solr", "elasticsearch", "ranklib", "lightgbm", "onnx"],
        typer.Option(
            help="solr and elasticsearch take linear models and trees, ranklib (a format of "
            "Elasticsearch) and lightgbm take trees, onnx takes both and networks."
        ),
    ] = "solr",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the model in the engine.")] = "robirank",
    feature_names: FeatureNames = None,
    feature_store: Annotated[str | None, typer.Option(help="Solr's feature store.")] = None,
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


def _score(model_path: Path, data_path: Path, **options: Any) -> tuple[Any, RankingData, Any]:
    """The model of a file, the documents of another, and the scores of these."""
    from robirank.data.letor import LetorFormatError
    from robirank.ltr.base import known_names

    model, extra = _load(model_path)
    width = model.n_features_in_
    if extra.get("normalize"):
        options |= {"normalize": True, "sparse": False}
    options["log_features"] = bool(extra.get("log_features"))
    options |= {"features": known_names(model), "n_features": width}
    try:
        data = judged.read(data_path, **options)
    except LetorFormatError as error:
        if f"n_features={width}" not in error.reason:
            raise
        raise ValueError(f"{error}, the number of features of {model_path}") from None
    return model, data, model.predict(data.X)

"""Commands for ranking by features: ``robirank ltr train | predict | evaluate | export``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from robirank.cli.console import (
    check_folder,
    note,
    print_facts,
    print_json,
    print_table,
    print_text,
    show_progress,
    step,
)
from robirank.cli.options import Json, Quiet, Rho, Threads

if TYPE_CHECKING:
    from robirank.data.ranking import RankingData

app = typer.Typer(no_args_is_help=True, help="Rank documents by their features.")


DEFAULT_METRICS = ["ndcg@1", "ndcg@5", "ndcg@10", "map", "mrr"]

Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="Judged documents, LETOR format (.gz too).")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, from `ltr train`.")]
Sparse = Annotated[bool, typer.Option("--sparse", help="Keep the features sparse in memory.")]
OnError = Literal["raise", "skip"]
BadLines = Annotated[
    OnError, typer.Option("--on-error", help="Stop at a bad line, or skip and count it.")
]


@app.command()
def train(
    data: Annotated[
        Path, typer.Argument(metavar="TRAIN", help="Judged documents, LETOR format (.gz too).")
    ],
    model_path: Annotated[
        Path, typer.Option("--model", "-m", metavar="OUT", help="Where to save the model.")
    ],
    validation: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Held-out queries, to choose alpha.")
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
    on_error: BadLines = "raise",
    sparse: Sparse = False,
    seed: Annotated[int, typer.Option(min=0, help="For random starts and folds.")] = 0,
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train RoBiRank and save it."""
    started = time.perf_counter()
    if normalize and sparse:
        raise typer.BadParameter("--normalize makes features dense; leave out --sparse")
    check_folder(model_path)
    read: dict[str, Any] = {
        "sparse": sparse,
        "normalize": normalize,
        "on_error": on_error,
        "threads": threads,
        "quiet": quiet,
    }
    train_data = _read(data, **read)
    held_out = None
    if validation is not None:
        held_out = _read(validation, n_features=train_data.n_features, **read)
    options = {
        "rho": rho,
        "metric": metric,
        "init": init,
        "max_iter": max_iter,
        "random_state": seed,
        "num_threads": threads or 0,
        "verbose": show_progress(quiet),
    }
    with step("train", quiet=quiet) as details:
        model = _fit(train_data, held_out, alpha, folds, options)
        details.append(f"{model.n_iter_} iterations to objective {model.loss_curve_[-1]:.6g}")
    model.verbose = False
    from robirank.storage.estimators import save_model

    extra = {"normalize": normalize}
    save_model(model, model_path, feature_names=train_data.feature_names, extra=extra)
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
    on_error: BadLines = "raise",
    sparse: Sparse = False,
    quiet: Quiet = False,
) -> None:
    """Score the documents of a file."""
    from robirank.cli import runs
    from robirank.storage.files import write_text

    documents, scores = _score(model_path, data, sparse=sparse, on_error=on_error, quiet=quiet)
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
    options: dict[str, Any] = {"sparse": sparse, "on_error": on_error, "quiet": quiet}
    if scores_path is None:
        data, scores = _score(files[0], files[1], **options)
    else:
        data = _read(files[0], **options)
        scores = runs.read_scores(scores_path, data.n_rows)
    given = (data.y, scores, data.qid)
    wanted: Any = {"metrics": metrics or DEFAULT_METRICS, "convention": convention}
    means = evaluate_ranking(*given, **wanted)
    if per_query is not None:
        table = evaluate_ranking(*given, **wanted, per_query=True)
        runs.write_per_query(per_query, data.queries.ids, table)
        note(f"wrote {data.n_queries:,} queries to {per_query}", quiet=quiet)
    if as_json:
        about = {"documents": data.n_rows, "queries": data.n_queries, "skipped": data.n_skipped}
        print_json({**about, "convention": convention, "metrics": means})
    else:
        title = f"{data.n_queries:,} queries, convention {convention}"
        print_table(title, ["Metric", "mean"], [[n, f"{v:.4f}"] for n, v in means.items()])


@app.command()
def export(
    model_path: Model,
    format: Annotated[
        Literal["solr", "elasticsearch"], typer.Option(help="The search engine.")
    ] = "solr",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the model in the engine.")] = "robirank",
    feature_names: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The engine's feature names, one a line."),
    ] = None,
    feature_store: Annotated[str | None, typer.Option(help="Solr's feature store.")] = None,
) -> None:
    """Write a model as JSON for Solr or Elasticsearch."""
    from robirank.ltr.export import export_linear

    model, extra = _load(model_path)
    if extra.get("normalize"):
        raise ValueError(
            f"{model_path} was trained with --normalize, which scales features within each query; "
            "a search engine cannot. Train without it, or scale the features beforehand"
        )
    names = None if feature_names is None else feature_names.read_text("utf-8").split("\n")
    document = export_linear(
        model,
        format,
        feature_names=names if names is None else [n.strip() for n in names if n.strip()],
        name=name,
        path=output,
        feature_store=feature_store,
    )
    if output is None:
        print_json(document)


def _fit(
    train_data: RankingData,
    held_out: RankingData | None,
    alpha: float | None,
    folds: int,
    options: dict[str, Any],
) -> Any:
    X, y, qid = train_data
    if alpha is not None:
        from robirank.ltr.robirank import RoBiRank

        return RoBiRank(alpha, **options).fit(X, y, qid=qid)
    from robirank.ltr.robirank_cv import RoBiRankCV

    return RoBiRankCV(cv=folds, **options).fit(X, y, qid=qid, validation=held_out)


def _training_report(
    model: Any, train_data: RankingData, held_out: RankingData | None
) -> dict[str, Any]:
    report: dict[str, Any] = {
        "documents": train_data.n_rows,
        "queries": train_data.n_queries,
        "features": train_data.n_features,
        "skipped": train_data.n_skipped,
        "alpha": getattr(model, "alpha_", getattr(model, "alpha", None)),
        "iterations": model.n_iter_,
        "objective": model.loss_curve_[-1],
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


def _load(path: Path) -> tuple[Any, dict[str, Any]]:
    from robirank.ltr.base import Ranker
    from robirank.storage.estimators import load_extra, load_model

    model = load_model(path)
    if not isinstance(model, Ranker):
        raise ValueError(f"{path} holds a {type(model).__name__}, which does not rank")
    return model, load_extra(path)


def _score(model_path: Path, data_path: Path, **options: Any) -> tuple[RankingData, Any]:
    from robirank.data.letor import LetorFormatError

    model, extra = _load(model_path)
    width = model.n_features_in_
    if extra.get("normalize"):
        options |= {"normalize": True, "sparse": False}
    try:
        data = _read(data_path, n_features=width, **options)
    except LetorFormatError as error:
        if f"n_features={width}" not in error.reason:
            raise
        raise ValueError(f"{error}, the number of features of {model_path}") from None
    return data, model.predict(data.X)


def _read(
    path: Path,
    *,
    n_features: int | None = None,
    sparse: bool = False,
    normalize: bool = False,
    on_error: OnError = "raise",
    threads: int | None = None,
    quiet: bool = False,
) -> RankingData:
    from robirank.data.letor import load_letor

    with step(f"read {path}", quiet=quiet) as details:
        data = load_letor(
            path,
            sparse=sparse,
            n_features=n_features,
            normalize=normalize,
            on_error=on_error,
            num_threads=threads or 0,
        )
        skipped = f", {data.n_skipped:,} bad lines skipped" if data.n_skipped else ""
        details.append(
            f"{data.n_rows:,} documents, {data.n_queries:,} queries, "
            f"{data.n_features} features{skipped}"
        )
    return data

"""Commands for recommending: ``robirank latent train | evaluate | recommend | similar | …``."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from robirank.cli.console import (
    INTERRUPTED,
    check_output,
    note,
    print_facts,
    print_json,
    print_table,
    show_progress,
    step,
)
from robirank.cli.interactions import (
    Columns,
    Count,
    Header,
    Item,
    Sep,
    Time,
    User,
    known,
    load,
    read,
    read_known,
)
from robirank.cli.latent_partition import partition
from robirank.cli.options import Device, Json, LatentModel, Quiet, Rho, Threads
from robirank.cli.recommend import recommend, similar

if TYPE_CHECKING:
    from robirank.data.interactions import Interactions
    from robirank.data.partitions import Partitions

app = typer.Typer(no_args_is_help=True, help="Recommend items from who interacted with what.")


Method = Literal["robirank", "warp"]


@app.command()
def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="One interaction a line: CSV, TSV (.gz) or Parquet. With --ray also partitions.",
        ),
    ],
    model_path: Annotated[
        Path,
        typer.Option("--model", "-m", "-o", metavar="OUT", help="Where to save the model."),
    ],
    method: Annotated[Method, typer.Option(help="What to train.")] = "robirank",
    factors: Annotated[int, typer.Option(min=1, help="Length of the factors.")] = 64,
    solver: Annotated[
        str,
        typer.Option(
            metavar="auto|exact|sgd",
            help="exact sums over all items, sgd samples them; auto goes by size.",
        ),
    ] = "auto",
    rho: Annotated[Rho, typer.Option(help="log is RoBiRank.")] = "log",
    weighting: Annotated[
        Literal["binary", "log", "count"],
        typer.Option(help="What a count is worth: 1, log2(1 + count), itself."),
    ] = "binary",
    iterations: Annotated[int | None, typer.Option(min=1, help="Passes over the data.")] = None,
    regularization: Annotated[
        float | None,
        typer.Option(help="The penalty λ; by default what fits the table, looked for briefly."),
    ] = None,
    tune: Annotated[
        bool,
        typer.Option("--tune", help="Look for the penalty closely: as long as four fits."),
    ] = False,
    learning_rate: Annotated[float | None, typer.Option(help="The step size.")] = None,
    validation: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Held-out interactions; the best epoch is kept."),
    ] = None,
    hold_out: Annotated[
        float | None,
        typer.Option(min=0, max=0.9, help="A share of each user's interactions to hold out."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="What is watched on held-out data; default: ndcg@20.")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(min=1, help="End after so many epochs without a better value.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="The search for λ included.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the state here every 10 minutes.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint, if there is one.")
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Train on a Ray cluster; checkpoints, logs and factors go here."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that --ray trains on; 2 by default.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="Of the cluster, such as auto; by default one is started here."),
    ] = None,
    user: User = None,
    item: Item = None,
    count: Count = None,
    time_column: Time = None,
    sep: Sep = None,
    header: Header = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides everything that is random.")] = 0,
    device: Device = "cpu",
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a model and save it, ids and all. Ctrl-C saves what was learned once λ is found."""
    from robirank.latent.train.request import DEFAULT_METRIC

    started = time.perf_counter()
    if validation is not None and hold_out is not None:
        raise typer.BadParameter("give --validation or --hold-out, not both")
    for name, value in (("patience", patience), ("metric", metric)):
        if value is not None and validation is None and hold_out is None:
            raise typer.BadParameter(f"--{name} needs --validation or --hold-out to watch")
    if resume and checkpoint is None and ray is None:
        raise typer.BadParameter("--resume needs --checkpoint, the file to go on from, or --ray")
    if tune:
        _refuse_with_tune(
            regularization=regularization,
            validation=validation,
            hold_out=hold_out,
            time_limit=time_limit,
            ray=ray,
        )
    for name, option in (("address", address), ("workers", workers)):
        if option is not None and ray is None:
            raise typer.BadParameter(f"--{name} needs --ray, a folder that the whole cluster sees")
    check_output(model_path, data, validation)
    columns = Columns(user, item, count, time_column, sep, header)
    model = _make(
        method,
        solver,
        rho,
        device,
        factors=factors,
        regularization=regularization,
        iterations=iterations,
        learning_rate=learning_rate,
        weighting=weighting,
        random_state=seed,
        num_threads=threads or 0,
        engine=_engine(ray, workers, address),
    )
    part, held_out = _parts(data, columns, validation, hold_out, seed, quiet, ray is not None)
    note(_plan(model, part), quiet=quiet)
    if tune:
        model.set_params(**_tuned(model, part, checkpoint, resume, quiet))
    with step("train", quiet=quiet) as details:
        model.fit(
            part,
            show_progress=show_progress(quiet),
            validation=held_out,
            metric=metric,
            patience=patience,
            time_limit=time_limit,
            checkpoint=checkpoint,
            resume=resume,
        )
        details.append(f"{model.n_iter_} epochs to a loss of {model.history_[-1]['loss']:.4f}")
    model.set_params(engine="local").save(model_path)  # a file, which has no cluster
    interrupted = model.stopped_ == "interrupted"
    report = _training_report(model, part, metric or DEFAULT_METRIC) | {
        "model": str(model_path),
        "interrupted": interrupted,
        "seconds": round(time.perf_counter() - started, 3),
    }
    if as_json:
        print_json(report)
    else:
        facts = {name: value for name, value in report.items() if name != "interrupted"}
        print_facts(f"Trained {type(model).__name__}", facts)
    if interrupted:
        note(f"robirank: interrupted; {model_path} holds what was learned so far")
        raise typer.Exit(INTERRUPTED)


@app.command()
def evaluate(
    model_path: LatentModel,
    test: Annotated[Path, typer.Option("--test", metavar="FILE", help="Interactions to be found.")],
    train: Annotated[
        Path | None,
        typer.Option("--train", metavar="FILE", help="Interactions that are known: left out."),
    ] = None,
    cutoffs: Annotated[
        str, typer.Option("-k", "--cutoffs", metavar="1,10,20", help="Lengths of the lists.")
    ] = "1,10,20",
    fold_in: Annotated[
        bool,
        typer.Option(
            "--fold-in", help="The users are new: find their factors from --train, then judge."
        ),
    ] = False,
    user: User = None,
    item: Item = None,
    count: Count = None,
    sep: Sep = None,
    header: Header = None,
    device: Device = "cpu",
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure how well a model finds held-out interactions among all items."""
    from robirank.data.interactions import grouped
    from robirank.latent.factors.evaluate import evaluate as measure

    if fold_in and train is None:
        raise typer.BadParameter("--fold-in needs --train, what the new users have")
    ks = _cutoffs(cutoffs)
    model, users, items = load(model_path, threads, device)
    columns = Columns(user, item, count, None, sep, header)
    if train is None:
        seen = None
        note("without --train, items that users have already may come back", quiet=quiet)
    else:
        whole = read(train, columns, quiet=quiet)
        users = whole.users if fold_in else users
        seen = known(train, whole, users, items, quiet=quiet)
    held_out = read_known(test, columns, users, items, quiet=quiet)
    known_part = grouped(users, items) if seen is None else seen.data
    with step("evaluate", quiet=quiet) as details:
        result = measure(
            model, train=known_part, test=held_out.data, k=ks, recalculate_user=fold_in
        )
        details.append(f"{result.n_users:,} users")
    if as_json:
        parts = {"test": held_out.report()} | ({} if seen is None else {"train": seen.report()})
        about = {"users": result.n_users, "folded_in": fold_in, **parts}
        about |= {} if seen is None else _by_history(result)
        print_json({**about, "metrics": result.means, "standard_errors": result.errors})
    else:
        _print_evaluation(result)
        if seen is not None:
            print(result.coverage)


app.command()(recommend)
app.command()(similar)
app.command()(partition)


def _make(method: Method, solver: str, rho: str, device: str, **options: Any) -> Any:
    params = {name: value for name, value in options.items() if value is not None}
    if method == "robirank":
        from robirank.latent.model import LatentRoBiRank

        return LatentRoBiRank(solver=solver, rho=rho, device=device, **params)  # type: ignore[arg-type]
    for name, value, default in (
        ("solver", solver, "auto"),
        ("rho", rho, "log"),
        ("device", device, "cpu"),
    ):
        if value != default:
            raise typer.BadParameter(f"--{name} {value} is for --method robirank, not for WARP")
    from robirank.latent.warp import WARP

    return WARP(**params)


def _engine(folder: str | None, workers: int | None, address: str | None) -> Any:
    if folder is None:
        return "local"
    from robirank.engine.config import RayConfig

    return RayConfig(folder, address=address, workers=workers or 2)


def _parts(
    path: str,
    columns: Columns,
    validation: Path | None,
    hold_out: float | None,
    seed: int,
    quiet: bool,
    on_cluster: bool = False,
) -> tuple[Interactions | Partitions, Interactions | None]:
    """Read the table to train on and the validation part, or split one off."""
    if on_cluster and ("://" in path or Path(path).is_dir()):
        from robirank.data.ids import Ids
        from robirank.data.partitions import open_partitions

        if hold_out is not None:
            raise typer.BadParameter("--hold-out needs a table; give --validation with partitions")
        cut = open_partitions(path)
        if validation is None:
            return cut, None
        users = cut.user_ids() or Ids.range(cut.n_users)
        items = cut.item_ids() or Ids.range(cut.n_items)
        return cut, read_known(validation, columns, users, items, quiet=quiet).data
    data = read(Path(path), columns, quiet=quiet)
    if validation is not None:
        return data, read_known(validation, columns, data.users, data.items, quiet=quiet).data
    if not hold_out:
        return data, None
    from robirank.data.splits import split_ratio, split_time

    if columns.time is not None:
        part, held_out = split_time(data, fraction=hold_out)
    else:
        part, held_out = split_ratio(data, hold_out, random_state=seed)
    note(f"held out: {len(held_out):,} interactions; trained on: {len(part):,}", quiet=quiet)
    return part, held_out


def _refuse_with_tune(**others: Any) -> None:
    for name, value in others.items():
        if value is not None:
            option = name.replace("_", "-")
            raise typer.BadParameter(f"give --tune or --{option}, not both")


def _tuned(
    model: Any, data: Interactions | Partitions, checkpoint: Path | None, resume: bool, quiet: bool
) -> dict[str, Any]:
    """The parameters that a search finds; its last fit is the caller's."""
    from robirank.latent.cv import LatentRoBiRankCV

    with step("tune", quiet=quiet) as details:
        search = LatentRoBiRankCV(model)
        chosen: dict[str, Any] = search.search(
            data, not quiet, checkpoint=checkpoint, resume=resume
        )
        details.append(f"λ = {chosen['regularization']:.4g}")
    return chosen


def _plan(model: Any, data: Interactions | Partitions) -> str:
    """Describe the fit that is about to begin: solver, device, and why this solver."""
    from robirank.latent.gpu.resolve import resolve_device

    shape = f"{data.n_users:,} × {data.n_items:,}, {model.factors} factors"
    where = "" if model.engine == "local" else f" on a cluster, {model.engine.workers} workers"
    solver = getattr(model, "solver", None)
    if solver is None:
        return f"{type(model).__name__}{where}, {shape}"
    name = model.solver_for(data.n_users, data.n_items)
    if resolve_device(getattr(model, "device", "cpu")) == "cuda":
        where = " on a card"
    if where or solver != "auto":
        return f"solver {name}{where}: {shape}"
    why = "can be afforded" if name == "exact" else "would take more than about a minute"
    return f"solver {name}, chosen by size: {shape}; a pass over all pairs {why}"


def _training_report(model: Any, data: Interactions | Partitions, metric: str) -> dict[str, Any]:
    report: dict[str, Any] = {
        "users": data.n_users,
        "items": data.n_items,
        "interactions": len(data),
        "factors": model.factors,
        "solver": model.solver_,
        "regularization": model.regularization_,
    }
    if "rho" in model.get_params():
        report["rho"] = model.rho
    report |= {"epochs": model.n_iter_, "loss": model.history_[-1]["loss"]}
    watched = {e["epoch"]: e[metric] for e in model.history_ if metric in e}
    if watched:
        report |= {"best_epoch": model.best_iter_, f"validation_{metric}": max(watched.values())}
    return report | {"training_seconds": round(model.history_[-1]["seconds"], 3)}


def _print_evaluation(result: Any) -> None:
    from robirank.latent.factors.list_metrics import METRICS

    rows = [
        [name, *(f"{result.means[m]:.4f} ± {result.errors[m]:.4f}" for m in at)]
        for name in METRICS
        for at in [[f"{name}@{k}" for k in result.k]]
    ]
    title = f"{result.n_users:,} users, means ± standard errors"
    print_table(title, ["Metric", *(f"@{k}" for k in result.k)], rows)


def _by_history(result: Any) -> dict[str, Any]:
    """Whom and what was measured, and the means of users with and without history."""
    groups = {name: getattr(result, name) for name in ("with_history", "without_history")}
    means = {name: None if group is None else group.means for name, group in groups.items()}
    return {"coverage": asdict(result.coverage), **means}


def _cutoffs(text: str) -> list[int]:
    try:
        ks = [int(k) for k in text.split(",")]
    except ValueError:
        ks = [0]
    if min(ks) < 1:
        raise typer.BadParameter(f"-k must be lengths such as 1,10,20; got {text!r}")
    return ks

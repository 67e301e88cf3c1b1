"""Commands for recommending: ``robirank latent train | evaluate | recommend | similar | …``."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from robirank.cli.catalogue import add_items, remove_items
from robirank.cli.console import (
    INTERRUPTED,
    check_output,
    note,
    print_facts,
    print_json,
    print_table,
    show_progress,
    step,
    tell,
)
from robirank.cli.features import (
    ITEM_FEATURES,
    ITEM_ID,
    KINDS,
    LIST_SEPARATOR,
    USER_FEATURES,
    USER_ID,
    WEIGHTS,
    known_by_features,
    read_to_train,
    with_text_ids,
)
from robirank.cli.fit_plan import cost_facts, number_of_factors, plan_in_words
from robirank.cli.interactions import (
    COUNT,
    HEADER,
    ITEM,
    SEP,
    TIME,
    USER,
    Columns,
    known,
    load,
    read,
)
from robirank.cli.map_items import map_items
from robirank.cli.options import (
    DEVICE,
    JSON,
    POPULARITY,
    QUIET,
    RHO,
    SEED,
    THREADS,
    VARIETY,
    DeviceName,
    RhoName,
    argument,
    file,
    option,
)
from robirank.cli.reasons import explain
from robirank.cli.recommend import MODEL, recommend, similar
from robirank.cli.sweep import Over, show_sweep
from robirank.cli.update import update

if TYPE_CHECKING:
    from robirank.data.features import Features
    from robirank.data.interactions import Interactions
    from robirank.data.partitions import Partitions

    Table = Interactions | Partitions

app = typer.Typer(no_args_is_help=True, help="Recommend items from who interacted with what.")


@app.command()
def train(
    context: typer.Context,
    data: str = argument(
        "DATA", "One interaction a line: CSV, TSV (.gz) or Parquet. With --ray also partitions."
    ),
    model_path: Path = option(
        ..., "Where to save the model.", "--model", "-m", "-o", metavar="OUT"
    ),
    method: Literal["robirank", "warp"] = option("robirank", "What to train."),
    factors: str = option(
        "64",
        "Length of the factors; auto: 64 to 256, as many as the data can use.",
        metavar="N|auto",
    ),
    solver: str = option(
        "auto",
        "exact sums over all items, sgd samples them; auto goes by size.",
        metavar="auto|exact|sgd",
    ),
    rho: RhoName = RHO,
    weighting: Literal["binary", "log", "count"] = option(
        "binary", "What a count is worth: 1, log2(1 + count), itself."
    ),
    iterations: int | None = option(None, "Passes over the data.", min=1),
    regularization: float | None = option(
        None, "The penalty λ; by default what fits the table, looked for briefly."
    ),
    order: bool = option(False, "Learn from the order of each user's records too.", "--order"),
    half_life: str | None = option(None, "The age at which a record weighs half.", metavar="30d"),
    dislikes: Path | None = file("What the same users took against: never an answer."),
    dry_run: bool = option(
        False, "Only say what the fit would cost: epochs, seconds, memory.", "--dry-run"
    ),
    tune: bool = option(False, "Look for the penalty closely: as long as five fits.", "--tune"),
    learning_rate: float | None = option(None, "The step size."),
    validation: Path | None = file("Held-out interactions; the best epoch is kept."),
    hold_out: float | None = option(
        None, "A share of each user's interactions to hold out.", min=0, max=0.9
    ),
    metric: str | None = option(None, "What is watched on held-out data; default: ndcg@20."),
    patience: int | None = option(None, "End after so many epochs without a better value.", min=1),
    time_limit: float | None = option(None, "The search for λ included.", metavar="SECONDS"),
    checkpoint: Path | None = file("Save the state here every 10 minutes."),
    resume: bool = option(False, "Go on from the checkpoint, if there is one.", "--resume"),
    ray: str | None = option(
        None, "Train on a Ray cluster; checkpoints, logs and factors go here.", metavar="FOLDER"
    ),
    workers: int | None = option(None, "Processes that --ray trains on; 2 by default.", min=1),
    address: str | None = option(
        None, "Of the cluster, such as auto; by default one is started here."
    ),
    item_features: Path | None = ITEM_FEATURES,
    user_features: Path | None = USER_FEATURES,
    item_id: str | None = ITEM_ID,
    user_id: str | None = USER_ID,
    kinds: str | None = KINDS,
    feature_weights: str | None = WEIGHTS,
    list_separator: str | None = LIST_SEPARATOR,
    user: str | None = USER,
    item: str | None = ITEM,
    count: str | None = COUNT,
    time_column: str | None = TIME,
    sep: str | None = SEP,
    header: bool | None = HEADER,
    seed: int = SEED,
    device: DeviceName = DEVICE,
    threads: int | None = THREADS,
    as_json: bool = JSON,
    quiet: bool = QUIET,
) -> None:
    """Train a model and save it, ids and all. Ctrl-C saves what was learned once λ is found."""
    from robirank.engine.config import RayConfig
    from robirank.latent.train.request import DEFAULT_METRIC

    started = time.perf_counter()
    if validation is not None and hold_out is not None:
        raise typer.BadParameter("give --validation or --hold-out, not both")
    for name, value in (("patience", patience), ("metric", metric)):
        if value is not None and validation is None and hold_out is None:
            raise typer.BadParameter(f"--{name} needs --validation or --hold-out to watch")
    if resume and checkpoint is None and ray is None:
        raise typer.BadParameter("--resume needs --checkpoint, the file to go on from, or --ray")
    for name in ("regularization", "validation", "hold_out", "time_limit", "ray"):
        if tune and context.params[name] is not None:
            raise typer.BadParameter(f"give --tune or --{name.replace('_', '-')}, not both")
    for name, value in (("address", address), ("workers", workers)):
        if value is not None and ray is None:
            raise typer.BadParameter(f"--{name} needs --ray, a folder that the whole cluster sees")
    check_output(model_path, data, validation, item_features, user_features, dislikes)
    columns = Columns(user, item, count, time_column, sep, header)
    config = {} if ray is None else {"engine": RayConfig(ray, address, workers or 2)}
    given = {
        "factors": number_of_factors(factors, method),
        "regularization": regularization,
        "iterations": iterations,
        "learning_rate": learning_rate,
        "weighting": weighting,
        "random_state": seed,
        "num_threads": threads,
        **config,
    }
    of_robirank = {"order": order, "half_life": _half_life(half_life)}
    model = _make(method, given, solver=solver, rho=rho, device=device, **of_robirank)
    tables = read_to_train(
        {"item": item_features, "user": user_features},
        {"item": item_id, "user": user_id},
        kinds,
        feature_weights,
        list_separator,
    )
    part, held_out = _parts(data, columns, validation, hold_out, seed, ray is not None)
    against = None
    if dislikes is not None:
        if ray is not None:
            raise typer.BadParameter("give --dislikes or --ray, not both")
        against, _ = known(dislikes, read(dislikes, replace(columns, time=None)), *_ids_of(part))
    part, held_out, against = (with_text_ids(t, tables) for t in (part, held_out, against))
    features = {f"{side}_features": table for side, table in tables.items()}
    note(plan_in_words(model, part))
    if dry_run:
        print_facts("A fit would take", cost_facts(model, part), as_json=as_json)
        return
    if tune:
        search = {**features, "checkpoint": checkpoint, "resume": resume}
        model.set_params(**_tuned(model, part, not quiet, search))
    with step("train") as details:
        model.fit(
            part,
            **features,
            dislikes=against,
            show_progress=show_progress(),
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
    report = _training_report(model, part, tables, metric or DEFAULT_METRIC) | {
        "model": str(model_path),
        "interrupted": interrupted,
        "seconds": round(time.perf_counter() - started, 3),
    }
    print_facts(f"Trained {type(model).__name__}", report, as_json=as_json)
    if interrupted:
        tell(f"robirank: interrupted; {model_path} holds what was learned so far")
        raise typer.Exit(INTERRUPTED)


@app.command()
def evaluate(
    model_path: Path = MODEL,
    test: Path = option(..., "Interactions to be found.", metavar="FILE"),
    train: Path | None = file("Interactions that are known: left out."),
    cutoffs: str = option("1,10,20", "Lengths of the lists.", "-k", "--cutoffs", metavar="1,10,20"),
    fold_in: bool = option(
        False, "The users are new: find their factors from --train, then judge.", "--fold-in"
    ),
    variety: float = VARIETY,
    popularity: float = POPULARITY,
    sweep_over: Literal["variety", "popularity"] | None = option(
        None, "Measure for several values of one of these.", "--sweep"
    ),
    values: str | None = option(None, "Values of the sweep.", metavar="0,0.1,0.3"),
    plot: Path | None = file("A plot of the sweep: .png, .svg or .pdf."),
    user: str | None = USER,
    item: str | None = ITEM,
    count: str | None = COUNT,
    time_column: str | None = TIME,
    sep: str | None = SEP,
    header: bool | None = HEADER,
    device: DeviceName = DEVICE,
    threads: int | None = THREADS,
    as_json: bool = JSON,
    _quiet: bool = QUIET,
) -> None:
    """Measure how well a model finds held-out interactions among all items."""
    from robirank.data.interactions import grouped
    from robirank.latent.factors.evaluate import evaluate as measure

    if fold_in and train is None:
        raise typer.BadParameter("--fold-in needs --train, what the new users have")
    knobs: dict[str, Any] = {"variety": variety, "popularity": popularity}
    over = Over.typed(sweep_over, values, plot, knobs)
    check_output(plot, model_path, test, train)
    ks = _cutoffs(cutoffs)
    model, users, items = load(model_path, threads, device)
    columns = Columns(user, item, count, time_column, sep, header)
    if train is None:
        note("without --train, items that users have already may come back")
        seen = grouped(users, items)
    else:
        whole = read(train, columns)
        users = whole.users if fold_in else users
        seen, counts = known(train, whole, users, items)
    held_out, test_counts = known(test, read(test, columns), users, items)
    if over is not None:
        show_sweep(over, model, seen, held_out, ks[-1], fold_in, as_json)
        return
    with step("evaluate") as details:
        result = measure(model, train=seen, test=held_out, k=ks, recalculate_user=fold_in, **knobs)
        details.append(f"{result.n_users:,} users")
    by_items = train is not None and model.item_centres_ is not None
    if as_json:
        about = {"users": result.n_users, "folded_in": fold_in, "test": test_counts}
        about |= {} if train is None else {"train": counts} | _by_history(result)
        about |= _by_items(result) if by_items else {}
        about |= {"metrics": result.means, "standard_errors": result.errors}
        print_json(about | {"shown": result.shown})
    else:
        _print_evaluation(result, f"All {result.n_items:,} items, " if by_items else "")
        for age, part in _by_age(result) if by_items else ():
            _print_evaluation(part, f"{part.n_items:,} {age} items alone, ")
        if train is not None:
            print(result.coverage)


app.command()(recommend)
app.command()(similar)
app.command()(explain)
app.command()(add_items)
app.command()(remove_items)
app.command("map")(map_items)
app.command()(update)


@app.command()
def partition(
    data: Path = argument("DATA", "One interaction a line: CSV, TSV (.gz) or Parquet."),
    out: str = argument("OUT", "A folder, or a URL such as s3://bucket/plays."),
    parts: int = option(8, "How many; a multiple of the number of workers.", min=1),
    seed: int = option(0, "Decides which users come together.", min=0),
    _quiet: bool = QUIET,
    user: str | None = USER,
    item: str | None = ITEM,
    count: str | None = COUNT,
    sep: str | None = SEP,
    header: bool | None = HEADER,
) -> None:
    """Cut interactions into parts, which the workers of a cluster read each for itself.

    Memory is needed for the ids and for one part, not for the whole file.
    """
    from robirank.data.partitions import partition as cut

    columns = Columns(user, item, count, None, sep, header).options()
    with step(f"cut {data}"):
        done = cut(data, out, parts=parts, random_state=seed, **columns)
    facts = {"parts": done.parts, "users": done.n_users, "items": done.n_items}
    print_facts(out, facts | {"interactions": done.n_interactions})


def _make(method: str, given: dict[str, Any], **of_robirank: Any) -> Any:
    """The model with the given parameters, where they are not None."""
    params = {name: value for name, value in given.items() if value is not None}
    if method == "robirank":
        from robirank.latent.model import LatentRoBiRank

        return LatentRoBiRank(**params, **of_robirank)
    from robirank.latent.warp import WARP

    usual = {"solver": "auto", "rho": "log", "device": "cpu", "order": False, "half_life": None}
    for name, default in usual.items():
        if of_robirank[name] != default:
            option_name = f"--{name.replace('_', '-')}"
            value = "" if name == "order" else f" {of_robirank[name]}"
            raise typer.BadParameter(f"{option_name}{value} is for --method robirank, not for WARP")
    return WARP(**params)


def _half_life(text: str | None) -> float | str | None:
    """A half-life as typed: a number in the unit of the times, or text such as 30d."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _parts(
    path: str,
    columns: Columns,
    validation: Path | None,
    hold_out: float | None,
    seed: int,
    on_cluster: bool = False,
) -> tuple[Table, Interactions | None]:
    """Read the table to train on and the validation part, or split one off."""
    from robirank.data.ids import Ids
    from robirank.data.partitions import open_partitions
    from robirank.data.splits import split_ratio, split_time

    if on_cluster and ("://" in path or Path(path).is_dir()):
        if hold_out is not None:
            raise typer.BadParameter("--hold-out needs a table; give --validation with partitions")
        cut = open_partitions(path)
        if validation is None:
            return cut, None
        users = cut.user_ids() or Ids.range(cut.n_users)
        items = cut.item_ids() or Ids.range(cut.n_items)
        return cut, known(validation, read(validation, columns), users, items)[0]
    data = read(Path(path), columns)
    if validation is not None:
        return data, known(validation, read(validation, columns), data.users, data.items)[0]
    if not hold_out:
        return data, None
    if columns.time is not None:
        part, held_out = split_time(data, fraction=hold_out)
    else:
        part, held_out = split_ratio(data, hold_out, random_state=seed)
    note(f"held out: {len(held_out):,} interactions; trained on: {len(part):,}")
    return part, held_out


def _ids_of(data: Table) -> tuple[Any, Any]:
    """The users and items of a table in memory."""
    table: Any = data
    return table.users, table.items


def _tuned(model: Any, data: Table, show: bool, options: dict[str, Any]) -> dict[str, Any]:
    """The parameters that a search finds; its last fit is the caller's."""
    from robirank.latent.cv import LatentRoBiRankCV

    with step("tune") as details:
        chosen: dict[str, Any] = LatentRoBiRankCV(model).search(data, show, **options)
        details.append(f"λ = {chosen['regularization']:.4g}")
    return chosen


def _training_report(
    model: Any, data: Table, features: dict[str, Features], metric: str
) -> dict[str, Any]:
    from robirank.latent.factors.order import taste_width

    report: dict[str, Any] = {
        **known_by_features(model, features),
        "interactions": len(data),
        "factors": taste_width(model.factors_.items),
        "solver": model.solver_,
        "regularization": model.regularization_,
    }
    if "rho" in model.get_params():
        report["rho"] = model.rho
    report |= {"epochs": model.n_iter_, "loss": model.history_[-1]["loss"]}
    watched = [epoch[metric] for epoch in model.history_ if metric in epoch]
    if getattr(model, "order", False):
        report["order_weight"] = model.order_weight_
    if watched:
        report |= {"best_epoch": model.best_iter_, f"validation_{metric}": max(watched)}
    return report | {"training_seconds": round(model.history_[-1]["seconds"], 3)}


def _print_evaluation(result: Any, which: str = "") -> None:
    """Print a table of metrics; its title begins with ``which`` items were ranked."""
    from robirank.latent.factors.list_metrics import METRICS

    cells = {m: f"{mean:.4f} ± {result.errors[m]:.4f}" for m, mean in result.means.items()}
    rows = [[name, *(cells[f"{name}@{k}"] for k in result.k)] for name in METRICS]
    rows += [[name, *row] for name, row in result.shown_rows()]
    title = f"{which}{result.n_users:,} users, means ± standard errors"
    print_table(title, ["Metric", *(f"@{k}" for k in result.k)], rows)


def _by_history(result: Any) -> dict[str, Any]:
    """Whom and what was measured, and the means of users with and without history."""
    groups = {name: getattr(result, name) for name in ("with_history", "without_history")}
    means = {name: None if group is None else group.means for name, group in groups.items()}
    return {"coverage": asdict(result.coverage), **means}


def _by_age(result: Any) -> list[tuple[str, Any]]:
    """The evaluations with old items alone and with new ones alone, where there are such."""
    parts = (("old", result.old_items), ("new", result.new_items))
    return [(age, part) for age, part in parts if part is not None]


def _by_items(result: Any) -> dict[str, Any]:
    """How many items were ranked, and what was measured with old and new ones alone."""
    parts = {
        f"{age}_items": {
            "users": part.n_users,
            "items": part.n_items,
            "metrics": part.means,
            "standard_errors": part.errors,
        }
        for age, part in _by_age(result)
    }
    return {"items": result.n_items, "old_items": None, "new_items": None} | parts


def _cutoffs(text: str) -> list[int]:
    try:
        ks = [int(k) for k in text.split(",")]
    except ValueError:
        ks = [0]
    if min(ks) < 1:
        raise typer.BadParameter(f"-k must be lengths such as 1,10,20; got {text!r}")
    return ks

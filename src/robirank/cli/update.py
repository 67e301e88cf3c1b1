"""``robirank latent update``: go on from a model with what has come since."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from robirank.cli.console import check_output, note, print_facts, show_progress, step
from robirank.cli.interactions import COUNT, HEADER, ITEM, SEP, TIME, USER, Columns, load, read
from robirank.cli.options import JSON, QUIET, THREADS, argument, file, option
from robirank.cli.recommend import MODEL

if TYPE_CHECKING:
    from robirank.data.interactions import Interactions


def update(
    model_path: Path = MODEL,
    data: Path = argument("DATA", "What the users have: all interactions, the new ones too."),
    output: Path = option(
        ..., "Where to save the model; may be MODEL.", "--output", "-o", metavar="OUT"
    ),
    feedback: Path | None = option(
        None, "The log of `robirank serve`, whose lines are added to DATA.", metavar="FOLDER"
    ),
    save_data: Path | None = file("Write DATA with the feedback here, as Parquet; may be DATA."),
    iterations: int = option(10, "Passes over the data.", min=1),
    user: str | None = USER,
    item: str | None = ITEM,
    count: str | None = COUNT,
    time_column: str | None = TIME,
    sep: str | None = SEP,
    header: bool | None = HEADER,
    threads: int | None = THREADS,
    as_json: bool = JSON,
    _quiet: bool = QUIET,
) -> None:
    """Let a model learn from new interactions, users and items, in a few passes over the data."""
    began = time.perf_counter()
    if save_data is not None and not save_data.name.endswith((".parquet", ".pq")):
        raise typer.BadParameter(f"--save-data must end with .parquet; got {save_data}")
    check_output(output, data)
    check_output(save_data)
    model, users, items = load(model_path, threads)
    table = read(data, Columns(user, item, count, time_column, sep, header))
    n_before = len(table)
    if feedback is not None:
        table = with_feedback(table, feedback)
    n_new = len(table) - n_before
    table_of_model = _in_order_of(table, users, items)
    with step("update") as details:
        model.partial_fit(table_of_model, iterations, show_progress=show_progress())
        details.append(f"{model.n_iter_} epochs to a loss of {model.history_[-1]['loss']:.4f}")
    if save_data is not None:
        table.save(save_data)
    model.save(output)
    facts = {
        "users": len(model.user_factors),
        "new_users": len(model.user_factors) - len(users),
        "items": len(model.item_factors),
        "new_items": len(model.item_factors) - len(items),
        "interactions": len(table),
        "from_feedback": n_new,
        "model": str(output),
        "seconds": round(time.perf_counter() - began, 3),
    }
    print_facts(f"Updated {type(model).__name__}", facts, as_json=as_json)


def with_feedback(table: Interactions, folder: Path) -> Interactions:
    """A table with what users took according to a log, each pair once, at its earliest time."""
    from robirank.serve.feedback_log import read_feedback

    with step(f"read {folder}") as details:
        pairs: dict[tuple[Any, Any], int] = {}
        n_lines = n_strange = 0
        for line in read_feedback(folder):
            n_lines += 1
            who = _as_kind(table.users.kind, line.user)
            when = int(line.time.timestamp() * 1e6)
            for thing in line.items:
                what = _as_kind(table.items.kind, thing)
                n_strange += who is None or what is None
                if who is not None and what is not None:
                    pairs.setdefault((who, what), when)
        details.append(f"{n_lines:,} lines, {len(pairs):,} pairs of users and items")
    if n_strange:
        note(f"{n_strange:,} pairs passed over: ids of the table are integers, and theirs are not")
    return table if not pairs else _extended(table, pairs)


def _extended(table: Interactions, pairs: dict[tuple[Any, Any], int]) -> Interactions:
    """The table with those pairs that it does not have."""
    import numpy as np

    from robirank.data.interactions import Interactions

    times: Any = np.array([*pairs.values()]).astype("datetime64[us]")
    if table.timestamps is not None and not table.has_dates:
        times = times.astype(np.int64) // 10**6  # seconds, as numbers mostly are
        note("--time holds numbers; times of feedback are seconds since 1970")
    who: Any = [user for user, _ in pairs]
    what: Any = [item for _, item in pairs]
    new = Interactions.from_arrays(who, what, times=None if table.timestamps is None else times)
    row, column = table.users.find(new.users[:]), table.items.find(new.items[:])
    is_known = np.zeros(len(new), bool)
    rows, columns = row[new.user_codes()], column[new.indices]
    both = np.flatnonzero((rows >= 0) & (columns >= 0))
    keys = np.repeat(np.arange(table.n_users), table.lengths) * table.n_items + table.indices
    is_known[both] = np.isin(rows[both].astype(np.int64) * table.n_items + columns[both], keys)
    return table.extend(new.take(~is_known)) if not is_known.all() else table


def _in_order_of(table: Interactions, users: Any, items: Any) -> Interactions:
    """The table with the users and items of a model first, and without times."""
    from dataclasses import replace

    from scipy.sparse import csr_matrix

    from robirank.data.interactions import Interactions

    shape: Any = (len(users), len(items))
    empty = csr_matrix(shape, dtype="float32")
    return Interactions.from_matrix(empty, users, items).extend(replace(table, timestamps=None))


def _as_kind(kind: str, id: str | int) -> str | int | None:
    """The id as those of a table are written; None where a table of integers cannot have it."""
    if kind == "str" or isinstance(id, int):
        return str(id) if kind == "str" else id
    digits = id.removeprefix("-")
    if len(digits) > 19 or not digits.isdecimal() or str(int(id)) != id:
        return None
    return int(id) if -(2**63) <= int(id) < 2**63 else None

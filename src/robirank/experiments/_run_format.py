"""What the files of a run must hold, and what is said where they do not."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

FORMAT = 1
KINDS = ("ltr", "latent", "scaling")
ROUNDING = 1e-9

#: Columns of the results, one row for each method, query and measure; k is 0 for the whole list.
RESULTS: Mapping[str, Any] = {
    "method": pl.String,
    "fold": pl.String,
    "qid": pl.String,
    "measure": pl.String,
    "k": pl.Int32,
    "value": pl.Float64,
}
#: Columns of the results of a latent run: a measure on the test part after some epochs.
SNAPSHOTS: Mapping[str, Any] = {
    "method": pl.String,
    "fold": pl.String,
    "epoch": pl.Int32,
    "seconds": pl.Float64,
    "measure": pl.String,
    "value": pl.Float64,
    "error": pl.Float64,
}
_SETTINGS: Mapping[str, tuple[type, ...]] = {
    "kind": (str,),
    "title": (str,),
    "data": (dict,),
    "convention": (str, dict),
    "select": (str,),
    "k_max": (int,),
    "seed": (int,),
    "methods": (list,),
}
_FIT: Mapping[str, tuple[type, ...]] = {
    "method": (str,),
    "fold": (str,),
    "status": (str,),
    "params": (dict,),
    "grid": (list,),
    "validation": (dict,),
    "seconds": (dict,),
    "error": (str, type(None)),
}
# What may differ when a run is taken up again; everything else decides the numbers.
_MAY_DIFFER = {"created", "command", "machine", "methods"}


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which Fold2 comes before Fold10.

    Examples
    --------
    >>> sorted(["Fold10", "Fold2", "a"], key=natural)
    ['Fold2', 'Fold10', 'a']
    """
    parts = [part for part in re.split(r"([0-9]+)", name) if part]
    return tuple((0, int(p), "") if p[0] in "0123456789" else (1, 0, p) for p in parts)


def plain(value: Any) -> Any:
    """Turn a value into what JSON knows; NaN becomes None and infinity a word.

    Examples
    --------
    >>> plain({"n": np.int64(3), "shape": (1, 2), "loss": float("nan"), "C": float("inf")})
    {'n': 3, 'shape': [1, 2], 'loss': None, 'C': 'inf'}
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(v) for key, v in value.items()}
    if isinstance(value, str) or not isinstance(value, Sequence | float):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    return [plain(v) for v in value]


def _check_fields(value: Any, fields: Mapping[str, tuple[type, ...]], where: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be an object; got {type(value).__name__}")
    for name, types in fields.items():
        if name not in value:
            raise ValueError(f"{where} has no {name!r}")
        if not isinstance(value[name], types) or isinstance(value[name], bool):
            words = " or ".join(t.__name__ for t in types)
            raise ValueError(f"{where}: {name!r} must be {words}; got {value[name]!r}")


def checked_settings(settings: Any, where: str) -> dict[str, Any]:
    if isinstance(settings, dict) and settings.get("format") != FORMAT:
        raise ValueError(
            f"{where} has format {settings.get('format')!r}; this version reads {FORMAT}"
        )
    _check_fields(settings, _SETTINGS, where)
    if settings["kind"] not in KINDS:
        raise ValueError(f"{where}: kind={settings['kind']!r} is unknown; use one of {KINDS}")
    if settings["k_max"] < 1:
        raise ValueError(f"{where}: k_max must be an integer ≥ 1; got {settings['k_max']}")
    methods = settings["methods"]
    if not methods or not all(isinstance(m, str) and m for m in methods):
        raise ValueError(f"{where}: 'methods' must be names; got {methods!r}")
    if len(set(methods)) != len(methods):
        raise ValueError(f"{where}: 'methods' names one twice; got {methods!r}")
    return dict(settings)


def check_same(folder: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name in sorted((set(old) | set(new)) - _MAY_DIFFER):
        if old.get(name) != new.get(name):
            raise ValueError(
                f"{folder} holds a run with {name}={old.get(name)!r}, not {new.get(name)!r}; "
                "choose another folder"
            )


def checked_fit(fit: Any, where: str) -> dict[str, Any]:
    _check_fields(fit, _FIT, where)
    if fit["status"] not in ("ok", "failed"):
        raise ValueError(f"{where}: status must be 'ok' or 'failed'; got {fit['status']!r}")
    if not fit["method"] or not fit["fold"]:
        raise ValueError(f"{where}: 'method' and 'fold' must not be empty")
    for name in ("search", "final"):
        _check_number(fit["seconds"].get(name), f"{where}: seconds[{name!r}]", low=0)
    _check_number(fit["validation"].get("value"), f"{where}: validation['value']")
    for i, point in enumerate(fit["grid"]):
        _check_fields(point, {"params": (dict,)}, f"{where}: grid[{i}]")
        _check_number(point.get("validation"), f"{where}: grid[{i}]['validation']")
    return dict(fit)


def _check_number(value: Any, where: str, low: float = -math.inf) -> None:
    """Check a number that may be missing."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= low:
        bound = "" if low == -math.inf else f" ≥ {low:g}"
        raise ValueError(f"{where} must be a number{bound} or null; got {value!r}")


def _as_results(
    frame: pl.DataFrame, where: str, columns: Mapping[str, Any] = RESULTS
) -> pl.DataFrame:
    if set(frame.columns) != set(columns):
        raise ValueError(f"{where} must have the columns {list(columns)}; got {frame.columns}")
    try:
        return frame.select(pl.col(name).cast(dtype) for name, dtype in columns.items())
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{where} has a column of the wrong type: {error}") from None


def checked_results(
    frame: pl.DataFrame, unit: tuple[str, str], k_max: int, where: str
) -> pl.DataFrame:
    """Check the measures of a method on a fold: one value for each query, measure and cut-off."""
    frame = _as_results(frame, where)
    _check_unit(frame, unit, where)
    wanted = {("ndcg", k) for k in range(1, k_max + 1)} | {("mean_ndcg", 0), ("map", 0)}
    n_queries = frame["qid"].n_unique()
    counts = frame.group_by("measure", "k").agg(pl.len(), pl.col("qid").n_unique().alias("n"))
    found = {(m, k): (rows, n) for m, k, rows, n in counts.iter_rows()}
    if frame["qid"].null_count() or set(found) != wanted:
        odd = sorted(f"{m}@{k}" for m, k in set(found) ^ wanted)
        raise ValueError(
            f"{where} must hold ndcg at each k from 1 to {k_max}, and mean_ndcg and map at k=0, of "
            f"every query; missing or not wanted: {some(odd) or 'a query id'}"
        )
    for (measure, k), (rows, n) in found.items():
        if not rows == n == n_queries:
            raise ValueError(
                f"{where} must have one value a query; {measure} at k={k} has {rows} values of "
                f"{n} of the {n_queries} queries"
            )
    value = frame["value"].to_numpy()
    outside = value[(value < -ROUNDING) | (value > 1 + ROUNDING)]
    if len(outside):
        raise ValueError(f"{where}: values must be from 0 to 1; got {outside[0]}")
    return frame


def checked_snapshots(frame: pl.DataFrame, unit: tuple[str, str], where: str) -> pl.DataFrame:
    """Check what a latent method reached: the same measures after each of some rising epochs."""
    frame = _as_results(frame, where, SNAPSHOTS)
    _check_unit(frame, unit, where)
    if not len(frame):
        raise ValueError(f"{where} must hold at least one snapshot; it is empty")
    per_epoch = frame.group_by("epoch").agg(pl.col("measure").sort(), pl.col("seconds").unique())
    if per_epoch["measure"].n_unique() > 1 or (per_epoch["seconds"].list.len() > 1).any():
        raise ValueError(f"{where} must have the same measures once at each epoch")
    seconds = per_epoch.sort("epoch")["seconds"].list.first()
    if seconds.null_count() or (seconds.diff() < 0).any() or seconds[0] < 0:
        raise ValueError(f"{where}: seconds must be ≥ 0 and rise with the epochs")
    value = frame["value"].to_numpy()
    outside = value[~((value >= -ROUNDING) & (value <= 1 + ROUNDING))]
    if len(outside):
        raise ValueError(f"{where}: values must be from 0 to 1; got {outside[0]}")
    return frame


def _check_unit(frame: pl.DataFrame, unit: tuple[str, str], where: str) -> None:
    for name, wanted in zip(("method", "fold"), unit, strict=True):
        others = set(frame[name].unique()) - {wanted}
        if others:
            raise ValueError(f"{where}: column {name!r} must be {wanted!r}; got {others}")


def checked_run(
    frame: pl.DataFrame, methods: Sequence[str], k_max: int, where: str
) -> pl.DataFrame:
    """Check the measures of a whole run: methods that are listed, on a fold the same queries."""
    frame = _as_results(frame, where)
    queries: dict[str, tuple[str, set[str]]] = {}
    for (method, fold), part in frame.group_by("method", "fold", maintain_order=True):
        if method not in methods:
            raise ValueError(f"{where} has results of {method!r}, which run.json does not list")
        checked_results(part, (str(method), str(fold)), k_max, f"{where}: {method} on {fold}")
        found = set(part["qid"].unique())
        other, expected = queries.setdefault(str(fold), (str(method), found))
        if found != expected:
            raise ValueError(
                f"{where}: on {fold}, {method} and {other} have different queries, such as "
                f"{some(sorted(found ^ expected), 3)}"
            )
    return frame


def checked_snapshot_run(frame: pl.DataFrame, methods: Sequence[str], where: str) -> pl.DataFrame:
    """Check the snapshots of a whole run."""
    frame = _as_results(frame, where, SNAPSHOTS)
    for (method, fold), part in frame.group_by("method", "fold", maintain_order=True):
        if method not in methods:
            raise ValueError(f"{where} has results of {method!r}, which run.json does not list")
        checked_snapshots(part, (str(method), str(fold)), f"{where}: {method}, {fold}")
    return frame


def checked_significance(value: Any, where: str) -> dict[str, Any]:
    _check_fields(value, {"comparisons": (list,)}, where)
    for i, comparison in enumerate(value["comparisons"]):
        place = f"{where}: comparisons[{i}]"
        _check_fields(comparison, dict.fromkeys(("measure", "baseline", "method"), (str,)), place)
        for name in ("difference", "low", "high", "p", "p_adjusted"):
            _check_number(comparison.get(name), f"{place}[{name!r}]")
    return dict(value)


def some(names: Sequence[str], most: int = 6) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest

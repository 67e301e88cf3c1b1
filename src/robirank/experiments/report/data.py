"""What the report of a run knows: everything on the page that is computed rather than drawn."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from robirank.experiments._run_format import natural, some
from robirank.experiments.report.latent import latent_parts
from robirank.experiments.report.scaling import scaling_parts
from robirank.experiments.report.words import facts, findings, how_it_was_made, lead_measure
from robirank.experiments.run_dir import RunDirectory

FloatArray = NDArray[np.float64]

#: The method that the page is about, where a run has it.
EMPHASIS = "RoBiRank"
#: The sections of the page for each kind of run, in order; each is a file in the folder page.
SECTIONS: Mapping[str, Sequence[str]] = {
    "ltr": ("curves", "table", "queries", "settings", "times"),
    "latent": ("learning", "reached", "settings", "times"),
    "scaling": ("speed", "work", "parts", "simulated", "check"),
}
# Per-query values travel as integers of 16 bits: the value times SCALE, or MISSING.
SCALE, MISSING = 10_000, 65_535
# A difference in significance.json may be off by the rounding to three digits, not by more.
_TOLERANCE = 6e-4


def report_data(run: RunDirectory) -> dict[str, Any]:
    """Compute what the page shows, as one JSON object."""
    parts = _PARTS[run.settings["kind"]](run)
    settings = run.settings
    return {
        "kind": settings["kind"],
        "sections": SECTIONS[settings["kind"]],
        "title": settings["title"],
        "select": settings["select"],
        **parts,
        "fits": [_shown_fit(fit, run.methods, parts["folds"]) for fit in run.fits()],
        "run": {
            name: settings[name]
            for name in ("versions", "machine", "command", "created", "seed")
            if name in settings
        },
    }


def _ltr_parts(run: RunDirectory) -> dict[str, Any]:
    values = QueryValues.of(run)
    fits = run.fits()
    emphasis = _emphasis(run)
    comparisons = _checked_comparisons(run, values)
    methods = [_state(name, values, fits) for name in run.methods]
    settings = run.settings
    means = {name: values.means(i) for i, name in enumerate(run.methods)}
    return {
        "overline": "Learning to rank, a comparison",
        "facts": facts(settings, len(values.queries)),
        "findings": findings(
            settings, emphasis, methods, means, comparisons, _n_missing(run, fits)
        ),
        "how": how_it_was_made(
            settings, run.significance() or {}, len(values.queries), len(values.folds)
        ),
        "lead": lead_measure(settings),
        "kMax": run.k_max,
        "emphasis": run.methods.index(emphasis),
        "methods": methods,
        "folds": values.folds,
        "measures": values.measures,
        "means": [_rounded(means[name]) for name in run.methods],
        "scopes": _scopes(values, run.methods.index(emphasis)),
        "queries": {
            "id": [qid for _, qid in values.queries],
            "fold": [values.folds.index(fold) for fold, _ in values.queries],
        },
        "values": values.encoded(),
        "scale": SCALE,
        "missing": MISSING,
        "comparisons": comparisons,
    }


_PARTS: Mapping[str, Callable[[RunDirectory], dict[str, Any]]] = {
    "ltr": _ltr_parts,
    "latent": latent_parts,
    "scaling": scaling_parts,
}


class QueryValues:
    """The measures of every query by every method, as one array.

    Attributes
    ----------
    methods, measures, folds : list of str
        Measures are "ndcg@1" to "ndcg@k_max", "mean_ndcg" and "map".
    queries : list of pairs of fold and query id
        In the order of the array; a query id may come back in another fold.
    array : array of shape (n_methods, n_measures, n_queries)
        NaN where a method has no value.
    """

    def __init__(
        self,
        methods: list[str],
        measures: list[str],
        queries: list[tuple[str, str]],
        folds: list[str],
        array: FloatArray,
        ran: NDArray[np.bool_],
    ) -> None:
        self.methods, self.measures, self.queries, self.folds = methods, measures, queries, folds
        self.array = array
        self._ran = ran

    @classmethod
    def of(cls, run: RunDirectory) -> QueryValues:
        """Collect the results of a run."""
        frame = run.results()
        seen = {fit["fold"] for fit in run.fits()} | set(frame["fold"].unique())
        folds = sorted(seen, key=natural)
        pairs = frame.select("fold", "qid").unique().rows()
        queries = sorted(pairs, key=lambda q: (folds.index(q[0]), natural(q[1])))
        measures = [f"ndcg@{k}" for k in range(1, run.k_max + 1)] + ["mean_ndcg", "map"]
        name = pl.when(pl.col("k") > 0).then(pl.format("{}@{}", "measure", "k"))
        frame = frame.with_columns(name.otherwise("measure").alias("measure"))
        place = pl.DataFrame(queries, schema=["fold", "qid"], orient="row").with_row_index("at")
        frame = frame.join(place, on=["fold", "qid"], how="left") if queries else frame
        array = np.full((len(run.methods), len(measures), len(queries)), np.nan)
        ran = np.zeros((len(run.methods), len(folds)), dtype=bool)
        for (method, measure), part in frame.group_by("method", "measure"):
            i = run.methods.index(str(method))
            array[i, measures.index(str(measure)), part["at"].to_numpy()] = part["value"].to_numpy()
            ran[i, [folds.index(fold) for fold in part["fold"].unique()]] = True
        return cls(run.methods, measures, queries, folds, array, ran)

    def complete(self, method: int, fold: int | None = None) -> bool:
        """Whether a method has results on a fold, or on all of them."""
        row = self._ran[method]
        return bool(row[fold] if fold is not None else len(row) and row.all())

    def rows(self, fold: int | None = None) -> NDArray[np.intp]:
        """Return the places of the queries of a fold, or of all."""
        wanted = None if fold is None else self.folds[fold]
        return np.array([i for i, (f, _) in enumerate(self.queries) if wanted in (None, f)], int)

    def means(self, method: int) -> dict[str, float]:
        """Return the means over all queries; none for a method that lacks a fold."""
        if not self.complete(method):
            return {}
        means = mean_interval(self.array[method])[0]
        return {m: float(v) for m, v in zip(self.measures, means, strict=True)}

    def difference(self, measure: str, method: str, baseline: str) -> float | None:
        """Mean of a method less that of another, over the queries that both have."""
        if measure not in self.measures:
            return None
        pair = [self.methods.index(name) for name in (method, baseline)]
        if not all(map(self.complete, pair)):
            return None
        a, b = self.array[pair, self.measures.index(measure)]
        return float(mean_interval((a - b)[None, :])[0][0])

    def encoded(self) -> str:
        """All values as integers of 16 bits, little-endian, in base 64."""
        whole = np.round(np.clip(self.array, 0, 1) * SCALE)
        return base64.b64encode(
            np.where(np.isnan(whole), MISSING, whole).astype("<u2").tobytes()
        ).decode()


def mean_interval(values: FloatArray, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    r"""Mean along the last axis and half the width of its confidence interval.

    Student's interval :math:`\bar v \pm t_{n-1} s / \sqrt n`; NaN are left out, and the half-width
    is NaN where fewer than two values are left.

    Examples
    --------
    >>> mean, half = mean_interval(np.array([[0.2, 0.4, np.nan], [0.5, np.nan, np.nan]]))
    >>> mean.round(4).tolist(), half.round(4).tolist()
    ([0.3, 0.5], [1.2706, nan])
    """
    n = np.sum(~np.isnan(values), axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(values, axis=-1) / n
        variance = np.nansum((values - mean[..., None]) ** 2, axis=-1) / (n - 1)
        half = stats.t.ppf((1 + level) / 2, np.maximum(n - 1, 1)) * np.sqrt(variance / n)
    return np.where(n > 0, mean, np.nan), np.where(n > 1, half, np.nan)


def _scopes(values: QueryValues, emphasis: int) -> list[dict[str, Any]]:
    """Curves over all queries, and over those of each fold where there are several."""
    choices: list[int | None] = [None, *range(len(values.folds))]
    if len(values.folds) < 2:
        choices = [None]
    return [_scope(values, emphasis, fold) for fold in choices]


def _scope(values: QueryValues, emphasis: int, fold: int | None) -> dict[str, Any]:
    rows = values.rows(fold)
    at_k = slice(0, len(values.measures) - 2)
    base = values.array[emphasis, at_k][:, rows] if values.complete(emphasis, fold) else None
    curves: list[dict[str, Any] | None] = []
    for method in range(len(values.methods)):
        if not values.complete(method, fold):
            curves.append(None)
            continue
        own = values.array[method, at_k][:, rows]
        mean, half = mean_interval(own)
        curve = {"mean": _rounded(mean), "half": _rounded(half)}
        if base is not None:
            difference, width = mean_interval(own - base)
            curve |= {"difference": _rounded(difference), "differenceHalf": _rounded(width)}
        curves.append(curve)
    name = "All queries" if fold is None else values.folds[fold]
    return {"name": name, "queries": len(rows), "curves": curves}


def _emphasis(run: RunDirectory) -> str:
    baselines = [c["baseline"] for c in (run.significance() or {}).get("comparisons", [])]
    candidates = [EMPHASIS, *baselines, run.methods[0]]
    return next(name for name in candidates if name in run.methods)


def _n_missing(run: RunDirectory, fits: Sequence[Mapping[str, Any]]) -> int:
    """Count the fits that are still to be done; none where only the results were kept."""
    if not fits and run.finished:
        return 0
    folds = run.settings["data"].get("folds") or len({fit["fold"] for fit in fits})
    return max(0, len(run.methods) * int(folds) - len(fits))


def _state(name: str, values: QueryValues, fits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Say whether a method can be shown whole, and if not, why."""
    method = values.methods.index(name)
    if values.complete(method):
        return {"name": name, "state": "ok"}
    failed = [fit for fit in fits if fit["method"] == name and fit["status"] == "failed"]
    if failed:
        folds = [fit["fold"] for fit in failed]
        where = "on every fold" if len(folds) == len(values.folds) else f"on {some(folds)}"
        return {"name": name, "state": "failed", "note": f"failed {where}"}
    missing = [f for i, f in enumerate(values.folds) if not values.complete(method, i)]
    note = f"not yet run on {some(missing)}" if missing else "not yet run"
    return {"name": name, "state": "missing", "note": note}


def _checked_comparisons(run: RunDirectory, values: QueryValues) -> list[dict[str, Any]]:
    """Read the comparisons and check them against the results, which they may be older than."""
    comparisons = (run.significance() or {}).get("comparisons", [])
    for c in comparisons:
        strangers = {c["method"], c["baseline"]} - set(run.methods)
        if strangers:
            raise ValueError(
                f"{run.path / 'significance.json'} compares {some(sorted(strangers))}, "
                "which run.json does not list"
            )
        found = values.difference(c["measure"], c["method"], c["baseline"])
        stated = c.get("difference")
        if found is None or stated is None or abs(found - stated) <= _TOLERANCE:
            continue
        raise ValueError(
            f"{run.path / 'significance.json'} does not belong to these results: it says that "
            f"{c['method']} less {c['baseline']} is {stated:.4f} in {c['measure']}, "
            f"and the results say {found:.4f}"
        )
    return [_rounded(c) for c in comparisons]


def _shown_fit(
    fit: Mapping[str, Any], methods: Sequence[str], folds: Sequence[str]
) -> dict[str, Any]:
    return {
        "method": methods.index(fit["method"]),
        "fold": folds.index(fit["fold"]),
        "status": fit["status"],
        "params": fit["params"],
        "measure": fit["validation"].get("measure"),
        "validation": _rounded(fit["validation"].get("value")),
        "seconds": _rounded(fit["seconds"]),
        "error": fit["error"],
        "grid": [
            {"params": point["params"], "validation": _rounded(point.get("validation"))}
            for point in fit["grid"]
        ],
    }


def _rounded(value: Any, digits: int = 6) -> Any:
    """Round numbers, wherever they are; what is not finite becomes None."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _rounded(v, digits) for key, v in value.items()}
    if isinstance(value, list):
        return [_rounded(v, digits) for v in value]
    if isinstance(value, float):
        return round(value, digits) if np.isfinite(value) else None
    return value

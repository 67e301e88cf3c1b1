"""The folder of one experiment: what stands in it, how it is written, how it is read.

::

    run.json            what was asked for: data, measures, methods, versions, the command
    units/              one finished piece of work each, a method on a fold (or from a seed):
      Fold1__MART.json      the chosen setting, the grid that was searched, the seconds
      Fold1__MART.parquet   the measures of every test query, or of every snapshot of a latent
                            model; missing where the method failed
    results.parquet     all units together, once every method has seen every fold
    significance.json   which differences between methods are more than chance

A unit counts as done when its JSON file is there, and that file is written last. So a run that is
killed at any moment goes on where it stopped, and no unit is ever half there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from robirank.experiments._run_format import (
    FORMAT,
    RESULTS,
    SNAPSHOTS,
    check_same,
    checked_fit,
    checked_results,
    checked_run,
    checked_settings,
    checked_significance,
    checked_snapshot_run,
    checked_snapshots,
    natural,
    plain,
    some,
)
from robirank.storage.files import write_text, write_whole


@dataclass(frozen=True)
class RunDirectory:
    """The folder of one experiment.

    Make it with :meth:`create` or :meth:`open`, which check what they find.

    Attributes
    ----------
    path : Path
    settings : dict
        What ``run.json`` holds.

    Examples
    --------
    >>> import tempfile
    >>> settings = {
    ...     "kind": "ltr", "title": "Toy", "data": {"folds": 1}, "convention": "letor",
    ...     "select": "ndcg@1", "k_max": 1, "seed": 0, "methods": ["RoBiRank"],
    ... }
    >>> run = RunDirectory.create(Path(tempfile.mkdtemp()) / "toy", settings)
    >>> fit = {
    ...     "method": "RoBiRank", "fold": "Fold1", "status": "ok", "params": {"alpha": 0.1},
    ...     "grid": [], "validation": {"measure": "ndcg@1", "value": 0.5},
    ...     "seconds": {"search": 2.0, "final": 0.5}, "error": None,
    ... }
    >>> measures = pl.DataFrame({
    ...     "method": "RoBiRank", "fold": "Fold1", "qid": "q1",
    ...     "measure": ["ndcg", "mean_ndcg", "map"], "k": [1, 0, 0], "value": [1.0, 0.8, 0.7],
    ... })
    >>> run.append_fit(fit, measures)
    >>> run.fit("RoBiRank", "Fold1")["params"]
    {'alpha': 0.1}
    >>> run.finish().name
    'results.parquet'
    """

    path: Path
    settings: Mapping[str, Any]

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], settings: Mapping[str, Any], *, resume: bool = True
    ) -> RunDirectory:
        """Start a run, or take up one that was broken off.

        Parameters
        ----------
        path : str or path-like
            The folder; made if it is missing.
        settings : dict
            What goes into ``run.json``; ``format`` is filled in.
        resume : bool, default=True
            Whether a run that is already there may be taken up. Its settings must then be the
            same, but for the methods (new ones join the old ones) and what cannot change a number
            (``created``, ``command``, ``machine``).
        """
        folder = Path(path)
        wanted = checked_settings({"format": FORMAT, **plain(settings)}, "settings")
        if (folder / "run.json").exists():
            if not resume:
                raise ValueError(f"{folder} already holds a run; choose another folder")
            found = cls.open(folder)
            check_same(folder, found.settings, wanted)
            old = [m for m in found.methods if m not in wanted["methods"]]
            # The command that is kept is the one that runs most of the methods.
            wanted = {**(found.settings if old else wanted), "methods": [*wanted["methods"], *old]}
        (folder / "units").mkdir(parents=True, exist_ok=True)
        write_text(folder / "run.json", _json(wanted))
        return cls(folder, wanted)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunDirectory:
        """Open a run that is there already, finished or not."""
        folder = Path(path)
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no run directory {folder}")
        file = folder / "run.json"
        if not file.is_file():
            raise ValueError(f"{folder} is no run directory: it has no run.json")
        return cls(folder, checked_settings(_read_json(file), str(file)))

    @property
    def methods(self) -> list[str]:
        """The names of the methods in the order in which they are shown."""
        return list(self.settings["methods"])

    @property
    def k_max(self) -> int:
        """The largest cut-off of NDCG@k."""
        return int(self.settings["k_max"])

    # Units

    def append_fit(self, fit: Mapping[str, Any], results: pl.DataFrame | None = None) -> None:
        """Record a finished unit, replacing an older one of the same method and fold.

        Parameters
        ----------
        fit : dict
            ``method``, ``fold``, ``status`` ("ok" or "failed"), ``params`` (the chosen setting),
            ``grid`` (a list of ``{"params", "validation", "seconds"}``), ``validation``
            (``{"measure", "value"}``), ``seconds`` (``{"search", "final"}``) and ``error`` (None,
            or why it failed).
        results : polars.DataFrame, optional
            The measures of every test query, with the columns of `RESULTS`, or of snapshots, with
            those of `SNAPSHOTS`; not for a failed fit.
        """
        unit = checked_fit(plain(fit), "fit")
        method, fold = unit["method"], unit["fold"]
        if method not in self.methods:
            known = ", ".join(self.methods)
            raise ValueError(f"fit['method'] is {method!r}, which run.json does not list ({known})")
        if (results is None) != (unit["status"] == "failed"):
            raise ValueError(
                f"results must be given for a fit that is ok and only then; {method} on {fold} is "
                f"{unit['status']!r} and {'has none' if results is None else 'has some'}"
            )
        json_file, parquet_file = (self._unit(method, fold, s) for s in (".json", ".parquet"))
        frame = None if results is None else self._checked(results, (method, fold), "results")
        # The old unit stops counting before anything of it is replaced.
        (self.path / "results.parquet").unlink(missing_ok=True)
        (self.path / "significance.json").unlink(missing_ok=True)
        json_file.unlink(missing_ok=True)
        if frame is None:
            parquet_file.unlink(missing_ok=True)
        else:
            _write_parquet(parquet_file, frame)
        write_text(json_file, _json(unit))

    def fit(self, method: str, fold: str) -> dict[str, Any] | None:
        """Return the fit of a method on a fold, or None if that is still to be done."""
        file = self._unit(method, fold, ".json")
        return checked_fit(_read_json(file), str(file)) if file.exists() else None

    def fits(self) -> list[dict[str, Any]]:
        """All fits so far, the methods in the order of `methods`, the folds by name."""
        place = {name: i for i, name in enumerate(self.methods)}
        files = (self.path / "units").glob("*.json")
        fits = [checked_fit(_read_json(file), str(file)) for file in files]
        for fit in fits:
            if fit["method"] not in place:
                raise ValueError(
                    f"{self.path / 'units'} has a fit of {fit['method']!r}, "
                    f"which run.json does not list"
                )
        return sorted(fits, key=lambda fit: (place[fit["method"]], natural(fit["fold"])))

    def results(self) -> pl.DataFrame:
        """Return every measure of every query, of all units so far.

        Methods are paired by query, so within a fold all of them must have the same queries.
        """
        file = self.path / "results.parquet"
        if file.is_file():
            frames = [_read_parquet(file)]
        else:
            columns = SNAPSHOTS if self._is_latent else RESULTS
            frames = [pl.DataFrame(schema=columns), *self._unit_results()]
        frame = pl.concat(frames)
        if self._is_latent:
            return checked_snapshot_run(frame, self.methods, str(self.path))
        return checked_run(frame, self.methods, self.k_max, str(self.path))

    def missing(self) -> list[tuple[str, str]]:
        """Pairs of method and fold that are not done, of the folds that any method has seen."""
        done = {(fit["method"], fit["fold"]) for fit in self.fits()}
        folds = sorted({fold for _, fold in done}, key=natural)
        return [(m, fold) for m in self.methods for fold in folds if (m, fold) not in done]

    # The whole

    def finish(self) -> Path:
        """Put all units together into ``results.parquet``; every method must have every fold."""
        fits = self.fits()
        n_folds = self.settings["data"].get("folds")
        seen = len({fit["fold"] for fit in fits})
        gaps = [f"{method} on {fold}" for method, fold in self.missing()]
        if gaps or not fits or (n_folds is not None and seen != n_folds):
            raise ValueError(
                f"{self.path} is not complete: {seen} of {n_folds or '?'} folds are there"
                + (f"; missing: {some(gaps)}" if gaps else "")
            )
        frame = self.results()
        _write_parquet(self.path / "results.parquet", frame)
        return self.path / "results.parquet"

    @property
    def finished(self) -> bool:
        """Whether the results have been put together and no unit is missing."""
        return (self.path / "results.parquet").is_file() and not self.missing()

    def write_significance(self, significance: Mapping[str, Any]) -> None:
        """Write ``significance.json``: a list ``comparisons`` and how they were made, in words."""
        value = checked_significance(plain(significance), "significance")
        write_text(self.path / "significance.json", _json(value))

    def significance(self) -> dict[str, Any] | None:
        """Read ``significance.json``; None if there is none."""
        file = self.path / "significance.json"
        return checked_significance(_read_json(file), str(file)) if file.is_file() else None

    def _unit(self, method: str, fold: str, suffix: str) -> Path:
        return self.path / "units" / f"{_file_name(fold)}__{_file_name(method)}{suffix}"

    def _unit_results(self) -> Iterator[pl.DataFrame]:
        for fit in self.fits():
            if fit["status"] == "ok":
                file = self._unit(fit["method"], fit["fold"], ".parquet")
                if not file.is_file():
                    raise ValueError(f"{file} is missing; remove the .json beside it to redo it")
                unit = fit["method"], fit["fold"]
                yield self._checked(_read_parquet(file), unit, str(file))

    @property
    def _is_latent(self) -> bool:
        return self.settings["kind"] in ("latent", "scaling")

    def _checked(self, frame: pl.DataFrame, unit: tuple[str, str], where: str) -> pl.DataFrame:
        if self._is_latent:
            return checked_snapshots(frame, unit, where)
        return checked_results(frame, unit, self.k_max, where)


def _file_name(name: str) -> str:
    """Make any name a part of a file name; "__" stands only between fold and method."""
    return quote(name, safe=" +,()=").replace("_", "%5F")


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is not JSON: {error}") from None


def _write_parquet(file: Path, frame: pl.DataFrame) -> None:
    with write_whole(file) as stream:
        frame.write_parquet(stream)


def _read_parquet(file: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(file, glob=False)  # the folder's name may have brackets
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{file} is not a Parquet file: {error}") from None

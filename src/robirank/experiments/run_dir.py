"""The folder of one experiment: what stands in it, how it is written, how it is read.

::

    run.json            what was asked for: data, measures, methods, versions, the command
    units/              one finished piece of work each:
      MART__Fold1.json      how it came out: chosen setting, searched grid, seconds, or the error
      MART__Fold1.parquet   its measures on the test part; missing where it failed
    results.parquet     all units together, once every method is done
    significance.json   which differences between methods are more than chance

A unit of work is a method on a fold (ltr), a method from a seed (latent: ``WARP__0``), or a run of
the comparison (scaling: ``RoBiRank 2``). It counts as done when its JSON file is there, which is
written last. So a run that is killed at any moment goes on where it stopped, and no unit is ever
half there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np
import polars as pl

from robirank.data.interaction_files import POLARS_ERRORS
from robirank.experiments.run_format import (
    FORMAT,
    AnySettings,
    Fit,
    Settings,
    Significance,
    check_results,
)
from robirank.experiments.text import abbreviate, natural_key
from robirank.storage.files import refuse_link, write_whole

# What may differ when a run is continued; everything else decides the numbers.
_MAY_DIFFER = {"created", "command", "machine", "methods", "title"}

# What a run makes beside its units; anything of these names is replaced.
_MADE = ("results.parquet", "significance.json", "simulation.json", "table.md", "figures")

_T = TypeVar("_T")
S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class RunDirectory(Generic[S]):
    """The folder of one experiment.

    Make it with :meth:`create` or :meth:`open`, which check what they find.

    Attributes
    ----------
    path : Path
    settings : Settings
        What ``run.json`` holds.
    """

    path: Path
    settings: S

    @classmethod
    def create(cls, path: str | os.PathLike[str], settings: S) -> RunDirectory[S]:
        """Start a run, or continue one that was broken off.

        Parameters
        ----------
        path : str or path-like
            The folder; made if it is missing.
        settings : Settings
            What goes into ``run.json``. If a run is there already, its settings must be the same,
            but for the methods (new ones join the old ones) and what cannot change a number
            (``created``, ``command``, ``machine``, ``title``).
        """
        folder, settings = Path(path), checked(settings)
        _check_own(folder)
        if (folder / "run.json").exists():
            found = cls.open(folder).settings
            _check_same(folder, found, settings)
            old = [m for m in found.methods if m not in settings.methods]
            # The command that is kept is the one that runs most of the methods.
            kept = found if old else settings
            settings = msgspec.structs.replace(kept, methods=[*settings.methods, *old])
        (folder / "units").mkdir(parents=True, exist_ok=True)
        write_json(folder / "run.json", settings)
        return cls(folder, settings)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunDirectory[S]:
        """Open a run that is there already, finished or not."""
        folder = Path(path)
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no run directory {folder}")
        file = folder / "run.json"
        if not file.is_file():
            raise ValueError(f"{folder} is no run directory: it has no run.json")
        number = read_json(file, _AnyFormat).format
        if number != FORMAT:
            raise ValueError(f"{file} has format {number!r}; this version reads {FORMAT}")
        return cls(folder, read_json(file, AnySettings))

    @property
    def methods(self) -> list[str]:
        """The names of the methods in the order in which they are shown."""
        return self.settings.methods

    # Units

    def append_fit(self, fit: Fit, results: pl.DataFrame | None = None) -> None:
        """Record a finished unit, replacing an older one of the same method and case.

        Parameters
        ----------
        fit : Fit
            Of the type that the settings name.
        results : polars.DataFrame, optional
            The measures on the test part, with the columns that the settings name; not for a unit
            that failed.
        """
        fit = checked(fit)
        if fit.method not in self.methods:
            known = ", ".join(self.methods)
            raise ValueError(f"method is {fit.method!r}, which run.json does not list ({known})")
        if (results is None) != (fit.error is not None):
            raise ValueError(
                "results must be given for a unit that did not fail and only then; "
                f"{_unit_name(fit.unit)} has {'none' if results is None else 'some'} and the error "
                f"{fit.error!r}"
            )
        frame = None if results is None else self._checked_unit(results, fit, "results")
        # The old unit stops counting before anything of it is replaced.
        json_file, parquet_file = (self._file(fit.unit, s) for s in (".json", ".parquet"))
        for outdated in ("results.parquet", "significance.json"):
            (self.path / outdated).unlink(missing_ok=True)
        json_file.unlink(missing_ok=True)
        if frame is None:
            parquet_file.unlink(missing_ok=True)
        else:
            _write_parquet(parquet_file, frame)
        write_json(json_file, fit)

    def fit(self, *unit: Any) -> Any:
        """Return the fit of a unit (method and fold, method and seed), or None if it is to do."""
        file = self._file(unit, ".json")
        return read_json(file, self.settings.fit_type) if file.exists() else None

    def fits(self) -> list[Any]:
        """All fits so far, the methods in the order of `methods`."""
        place = {name: i for i, name in enumerate(self.methods)}
        files = (self.path / "units").glob("*.json")
        fits = [read_json(file, self.settings.fit_type) for file in files]
        for fit in fits:
            if fit.method not in place:
                raise ValueError(
                    f"{self.path / 'units'} has a fit of {fit.method!r}, "
                    f"which run.json does not list"
                )
        return sorted(fits, key=lambda fit: (place[fit.method], natural_key(fit.case)))

    def todo(self) -> list[tuple[Any, ...]]:
        """The units that are missing or have failed, in the order in which they are done."""
        done = {fit.unit for fit in self.fits() if fit.error is None}
        return [unit for unit in self.settings.units if unit not in done]

    def missing(self) -> list[tuple[Any, ...]]:
        """The units that have no fit, not even one that failed."""
        return [unit for unit in self.settings.units if not self._file(unit, ".json").exists()]

    def complete_methods(self) -> list[str]:
        """The methods of which no unit failed, in the order of the run."""
        failed = {fit.method for fit in self.fits() if fit.error is not None}
        return [m for m in self.methods if m not in failed]

    def results(self) -> pl.DataFrame:
        """Return all measures on the test part, of all units so far."""
        file = self.path / "results.parquet"
        if file.is_file():
            frame = _read_parquet(file)
        else:
            fits = [fit for fit in self.fits() if fit.error is None]
            schema = pl.DataFrame(schema=self.settings.schema)
            frame = pl.concat([schema, *map(self._unit_results, fits)])
        return check_results(frame, self.settings, str(self.path))

    # The whole

    def finish(self) -> Path:
        """Put all units together into ``results.parquet``; none may be missing."""
        missing = self.missing()
        if missing:
            names = abbreviate([_unit_name(unit) for unit in missing])
            raise ValueError(f"{self.path} is not complete; missing: {names}")
        file = self.path / "results.parquet"
        _write_parquet(file, self.results())
        return file

    @property
    def finished(self) -> bool:
        """Whether the results have been put together and no unit is missing."""
        return (self.path / "results.parquet").is_file() and not self.missing()

    def write_significance(self, significance: Significance) -> None:
        """Write ``significance.json``."""
        write_json(self.path / "significance.json", significance)

    def significance(self) -> Significance | None:
        """Read ``significance.json``; None if there is none."""
        file = self.path / "significance.json"
        return read_json(file, Significance) if file.is_file() else None

    def _file(self, unit: tuple[Any, ...], suffix: str) -> Path:
        return self.path / "units" / ("__".join(_file_name(str(part)) for part in unit) + suffix)

    def _unit_results(self, fit: Fit) -> pl.DataFrame:
        file = self._file(fit.unit, ".parquet")
        if not file.is_file():
            raise ValueError(f"{file} is missing; remove the .json beside it to redo it")
        return self._checked_unit(_read_parquet(file), fit, str(file))

    def _checked_unit(self, frame: pl.DataFrame, fit: Fit, where: str) -> pl.DataFrame:
        if not len(frame):
            raise ValueError(f"{where} of {_unit_name(fit.unit)} must have at least one row")
        for name, wanted in zip(fit.unit_fields, fit.unit, strict=True):
            others = set(frame[name].unique()) - {wanted} if name in frame.columns else None
            if others:
                raise ValueError(f"{where}: column {name!r} must be {wanted!r}; got {others}")
        return check_results(frame, self.settings, where)


def _unit_name(unit: tuple[Any, ...]) -> str:
    return " on ".join(map(str, unit))


def _file_name(name: str) -> str:
    """Make any name a part of a file name; "__" stands only between parts."""
    return quote(name, safe=" +,()=").replace("_", "%5F")


def _check_own(folder: Path) -> None:
    """Raise an error where a run would replace files that no run has written."""
    for name in ("run.json", "units", *_MADE):
        refuse_link(folder / name)
    if (folder / "run.json").exists():
        return
    units = folder / "units"
    found = [name for name in _MADE if (folder / name).exists()]
    found += ["units"] if units.exists() and (not units.is_dir() or any(units.iterdir())) else []
    if found:
        raise FileExistsError(
            f"{folder} has {found[0]!r} and no run.json, so it belongs to something else; choose "
            "another folder"
        )


def _check_same(folder: Path, old: Settings, new: Settings) -> None:
    if type(old) is not type(new):
        raise ValueError(f"{folder} holds a run of kind={old.kind!r}, not {new.kind!r}")
    for name in sorted(set(old.__struct_fields__) - _MAY_DIFFER):
        before, now = getattr(old, name), getattr(new, name)
        if before == now:
            continue
        if isinstance(before, msgspec.Struct):
            fields = [f for f in before.__struct_fields__ if getattr(before, f) != getattr(now, f)]
            what = f"other {name} ({', '.join(fields)} differ)"
        else:
            what = f"{name}={before!r}, not {now!r}"
        raise ValueError(f"{folder} holds a run with {what}; choose another folder")


# Files


class _AnyFormat(msgspec.Struct):
    format: Any = None


def read_json(file: Path, kind: type[_T]) -> _T:
    """Read a JSON file as a structure; what is wrong in it is named with its place."""
    return _decode(file.read_bytes(), kind, str(file))


def write_json(file: Path, value: Any) -> None:
    """Write a structure as a JSON file that `read_json` reads, whole or not at all."""
    content = _encode(checked(value))
    with write_whole(file) as stream:
        stream.write(content)


def checked(value: _T) -> _T:
    """A structure as it is read back: all fields checked, tuples as lists, NaN as None."""
    return _decode(_encode(value), type(value), type(value).__name__)


def _encode(value: Any) -> bytes:
    """Numbers that are not finite become null."""
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=_as_builtin), indent=1) + b"\n"


def _as_builtin(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"{type(value).__name__} cannot be written as JSON")


def _decode(content: bytes, kind: type[_T], where: str) -> _T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON: {error}") from None


def _write_parquet(file: Path, frame: pl.DataFrame) -> None:
    with write_whole(file) as stream:
        frame.write_parquet(stream)


def _read_parquet(file: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(file, glob=False)  # the folder's name may have brackets
    except POLARS_ERRORS as error:
        raise ValueError(f"{file} is not a Parquet file: {error}") from None

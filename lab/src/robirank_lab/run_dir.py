"""The folder of one experiment: what stands in it, how it is written, how it is read.

::

    run.json            what was asked for: data, experiment, methods, versions, the command
    units/              one finished unit of work each, a method on a fold or from a seed:
      MART__Fold1.json      how it came out: chosen setting, searched grid, seconds, or the error
      MART__Fold1.parquet   its metrics on the test part; missing where it failed
    results.parquet     all units together, once every method is done
    significance.json   which differences between methods are more than chance

A unit counts as done when its JSON file is there, which is written last. So a run that is killed at
any moment goes on where it stopped, and no unit is ever half there.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np
import polars as pl

from robirank_lab.files import write_whole
from robirank_lab.run_format import FORMAT, Fit, Settings, Significance, check_results
from robirank_lab.text import abbreviate

_T = TypeVar("_T")


@dataclass(frozen=True)
class RunDirectory:
    """The folder of one experiment.

    Make it with :meth:`create` or :meth:`open`, which check what they find.

    Attributes
    ----------
    path : Path
    settings : Settings
        What ``run.json`` holds.
    """

    path: Path
    settings: Settings

    @classmethod
    def create(cls, path: str | os.PathLike[str], settings: Settings) -> RunDirectory:
        """Start a run, or continue one that was broken off.

        Parameters
        ----------
        path : str or path-like
            The folder; made if it is missing, and else empty or that of a run.
        settings : Settings
            What goes into ``run.json``. If a run is there already, it must have the same
            experiment, data and versions; new methods join the old ones.
        """
        folder, settings = Path(path), checked(settings)
        if (folder / "run.json").exists():
            old = cls.open(folder).settings
            _check_same(folder, old, settings)
            others = [m for m in old.methods if m not in settings.methods]
            # The command that is kept is the one that runs most of the methods.
            main = old if others else settings
            settings = msgspec.structs.replace(main, methods=[*settings.methods, *others])
        elif folder.exists() and any(folder.iterdir()):
            raise FileExistsError(
                f"{folder} is not empty and has no run.json, so it belongs to something else; "
                "choose another folder"
            )
        (folder / "units").mkdir(parents=True, exist_ok=True)
        write_json(folder / "run.json", settings)
        return cls(folder, settings)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunDirectory:
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
        return cls(folder, read_json(file, Settings))

    @property
    def methods(self) -> list[str]:
        """The names of the methods in the order in which they are shown."""
        return self.settings.methods

    @property
    def experiment(self) -> Any:
        """What was asked for; its type is that of the kind of experiment."""
        return self.settings.experiment

    @property
    def data(self) -> Any:
        """The facts of the data."""
        return self.settings.data

    def append_fit(self, fit: Fit, results: pl.DataFrame | None = None) -> None:
        """Record a finished unit, replacing an older one of the same method and case.

        Parameters
        ----------
        fit : Fit
        results : polars.DataFrame, optional
            The metrics on the test part, with the columns that the experiment names; None for a
            unit that failed.
        """
        fit, name = checked(fit), _unit_name(fit.unit)
        if fit.unit not in self.settings.units:
            raise ValueError(f"{name} is no unit of this run, which has {abbreviate(self.methods)}")
        json_file, parquet_file = self._file(fit.unit, ".json"), self._file(fit.unit, ".parquet")
        content = None
        if results is not None:
            content = _parquet(check_results(results, self.settings, name))
        # The old unit stops counting before anything of it is replaced.
        for outdated in (self.path / "results.parquet", self.path / "significance.json"):
            outdated.unlink(missing_ok=True)
        json_file.unlink(missing_ok=True)
        parquet_file.unlink(missing_ok=True)
        if content is not None:
            write_whole(parquet_file, content)
        write_json(json_file, fit)

    def fit(self, *unit: str) -> Fit | None:
        """The fit of a unit, its method and case; None if it is to do."""
        file = self._file(unit, ".json")
        return read_json(file, Fit) if file.exists() else None

    def fits(self) -> list[Fit]:
        """All fits so far, the methods in the order of `methods`."""
        fits = [read_json(file, Fit) for file in (self.path / "units").glob("*.json")]
        for fit in fits:
            if fit.unit not in self.settings.units:
                raise ValueError(
                    f"{self.path / 'units'} has a fit of {_unit_name(fit.unit)}, "
                    "which run.json does not list"
                )
        methods, cases = self.methods, self.settings.cases
        return sorted(fits, key=lambda fit: (methods.index(fit.method), cases.index(fit.case)))

    def todo(self) -> list[tuple[str, str]]:
        """The units that are missing or have failed, in the order in which they are done."""
        done = {fit.unit for fit in self.fits() if fit.error is None}
        return [unit for unit in self.settings.units if unit not in done]

    def missing(self) -> list[tuple[str, str]]:
        """The units that have no fit, not even one that failed."""
        return [unit for unit in self.settings.units if not self._file(unit, ".json").exists()]

    def complete_methods(self) -> list[str]:
        """The methods of which no unit failed, in the order of the run."""
        failed = {fit.method for fit in self.fits() if fit.error is not None}
        return [m for m in self.methods if m not in failed]

    def results(self) -> pl.DataFrame:
        """All metrics on the test part, of all units so far."""
        file = self.path / "results.parquet"
        if file.is_file():
            return check_results(_read_parquet(file), self.settings, str(file))
        done = [fit.unit for fit in self.fits() if fit.error is None]
        frames = [
            check_results(_read_parquet(unit_file), self.settings, str(unit_file))
            for unit_file in (self._file(unit, ".parquet") for unit in done)
        ]
        return pl.concat([pl.DataFrame(schema=self.settings.experiment.schema), *frames])

    def finish(self) -> None:
        """Put all units together into ``results.parquet``; none may be missing."""
        missing = self.missing()
        if missing:
            names = abbreviate([_unit_name(unit) for unit in missing])
            raise ValueError(f"{self.path} is not complete; missing: {names}")
        write_whole(self.path / "results.parquet", _parquet(self.results()))

    def write_significance(self, significance: Significance) -> None:
        """Write ``significance.json``."""
        write_json(self.path / "significance.json", significance)

    def significance(self) -> Significance | None:
        """Read ``significance.json``; None if there is none."""
        file = self.path / "significance.json"
        return read_json(file, Significance) if file.is_file() else None

    def _file(self, unit: tuple[str, ...], suffix: str) -> Path:
        return self.path / "units" / ("__".join(map(_file_name, unit)) + suffix)


def _unit_name(unit: tuple[str, str]) -> str:
    return " on ".join(filter(None, unit))


def _file_name(name: str) -> str:
    """Make any name a part of a file name; "__" stands only between parts."""
    return quote(name, safe=" +,()=").replace("_", "%5F")


def _check_same(folder: Path, old: Settings, new: Settings) -> None:
    """Raise an error where other numbers would come out than those that are there."""
    for name in ("experiment", "data", "versions"):
        before, now = (msgspec.to_builtins(getattr(settings, name)) for settings in (old, new))
        differ = [f for f in sorted({*before, *now}) if before.get(f) != now.get(f)]
        what = [f if name == "data" else f"{f}={before.get(f)!r}" for f in differ]
        if what:
            raise ValueError(
                f"{folder} holds a run with other {name}: {', '.join(what)}; choose another folder"
            )


class _AnyFormat(msgspec.Struct):
    format: Any = None


def read_json(file: Path, kind: type[_T]) -> _T:
    """Read a JSON file as a structure; what is wrong in it is named with its place."""
    return _decode(file.read_bytes(), kind, str(file))


def write_json(file: Path, value: Any) -> None:
    """Write a structure as a JSON file that `read_json` reads, whole or not at all."""
    write_whole(file, msgspec.json.format(_encode(checked(value)), indent=1) + b"\n")


def checked(value: _T) -> _T:
    """A structure as it is read back: all fields checked, tuples as lists, NaN as None."""
    return _decode(_encode(value), type(value), type(value).__name__)


def _encode(value: Any) -> bytes:
    """Numbers that are not finite become null."""
    return msgspec.json.encode(value, enc_hook=_as_builtin)


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


def _parquet(frame: pl.DataFrame) -> bytes:
    content = io.BytesIO()
    frame.write_parquet(content)
    return content.getvalue()


def _read_parquet(file: Path) -> pl.DataFrame:
    if not file.is_file():
        raise ValueError(f"{file} is missing; remove the .json beside it to redo it")
    try:
        return pl.read_parquet(file, glob=False)  # the folder's name may have brackets
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise ValueError(f"{file} is not a Parquet file: {error}") from None

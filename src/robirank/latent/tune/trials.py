"""What a search has tried: one entry for a path or a fit, kept in a file while it goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from robirank.storage.files import write_whole
from robirank.storage.tensor_file import ModelFileError

_MOST_BYTES = 1 << 26
Positive = Annotated[float, msgspec.Meta(gt=0)]


class Trial(msgspec.Struct, frozen=True):
    """A path or whole fits on one split.

    Attributes
    ----------
    kind : {"path", "fit"}
    params : dict
        What differs from the estimator's parameters.
    split : int
    regularizations, values : list of float
        Of each epoch of a path, or of each fit; several run side by side on a card.
    seconds : float
    """

    kind: Literal["path", "fit"]
    params: dict[str, bool | int | float | str | None]
    split: int
    regularizations: list[Positive]
    values: list[float]
    seconds: Annotated[float, msgspec.Meta(ge=0)]

    def is_of(self, kind: str, params: dict[str, Any], split: int) -> bool:
        """Whether this is what would be tried."""
        return (self.kind, self.params, self.split) == (kind, params, split)


class _File(msgspec.Struct, frozen=True):
    search: str
    trials: list[Trial]


class TrialLog:
    """The trials of a search, in order; with a path, each is written as soon as it is done.

    Parameters
    ----------
    path : path-like, optional
    search : str
        Tells one search from another; a file of another one is refused.
    resume : bool
        Whether to take up the trials that the file holds.
    tell : callable
        Called with each trial that is done.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        search: str,
        resume: bool,
        tell: Callable[[Trial], None],
    ) -> None:
        self._path = None if path is None else Path(path)
        self._search, self._tell = search, tell
        self.trials: list[Trial] = []
        self._known = self._read() if resume and self._path and self._path.exists() else []

    def get(
        self,
        kind: Literal["path", "fit"],
        params: dict[str, Any],
        split: int,
        do: Callable[[], tuple[list[float], list[float]]],
    ) -> Trial:
        """A trial that the file holds, or else done now."""
        for trial in self._known:
            if trial.is_of(kind, params, split):
                break
        else:
            begin = time.perf_counter()
            found = do()
            trial = Trial(kind, params, split, *found, seconds=time.perf_counter() - begin)
        self.trials.append(trial)
        self._write()
        self._tell(trial)
        return trial

    def _write(self) -> None:
        if self._path is not None:
            content = msgspec.json.encode(_File(self._search, self.trials))
            with write_whole(self._path) as file:
                file.write(msgspec.json.format(content, indent=1))

    def _read(self) -> list[Trial]:
        assert self._path is not None
        if self._path.stat().st_size > _MOST_BYTES:
            raise ModelFileError(f"{self._path} is too large to be the log of a search")
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ModelFileError(f"{self._path} is damaged: {error}") from None
        if found.search != self._search:
            raise ModelFileError(
                f"{self._path} belongs to another search: settings, data or version differ. Search "
                "with the same ones to go on, or take another path"
            )
        return found.trials

"""What a search has tried: one entry for a path or a fit, kept in a file while it goes on.

The file is text. Each line is the CRC32 of a JSON object, a space, and the object: which search it
is, and then its trials.
"""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from robirank._callers import warn
from robirank.latent.factors.content import Content
from robirank.storage.files import write_whole
from robirank.storage.tensor_file import ModelFileError

_MOST_BYTES = 1 << 26
Positive = Annotated[float, msgspec.Meta(gt=0)]


class Trial(msgspec.Struct, frozen=True):
    """A path or whole fits on one split of the table.

    Attributes
    ----------
    kind : {"path", "fit"}
    params : dict
        The parameters that differ from those of the estimator.
    split : int
    regularizations, values : list of float
        λ and metric of each epoch of a path, or of each fit; several fits run at once on a card.
    seconds : float
    parts : list of dict
        With features: the metric of old users and items, of new items and of new users, each apart.
    contents : list of Content
        With features of items: the weights of content scores that each fit had.
    """

    kind: Literal["path", "fit"]
    params: dict[str, bool | int | float | str | None]
    split: int
    regularizations: list[Positive]
    values: list[float]
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    parts: list[dict[str, float]] = []
    contents: list[Content] = []

    def is_of(self, kind: str, params: dict[str, Any], split: int) -> bool:
        """Whether the trial has this kind, these parameters and this split."""
        return (self.kind, self.params, self.split) == (kind, params, split)


class _Head(msgspec.Struct, frozen=True):
    search: str


class TrialLog:
    """The trials of a search, in order; with a path, each is written as soon as it is done.

    Parameters
    ----------
    path : path-like, optional
    search : str
        A text that tells one search from another; a file of another search is refused.
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
        self._from_file: list[Trial] = []
        self._failed = False
        if self._path is not None and self._path.exists():
            _check_log(self._path)
            self._from_file = self._read(self._path) if resume else []

    def get(
        self,
        kind: Literal["path", "fit"],
        params: dict[str, Any],
        split: int,
        do: Callable[[], dict[str, Any]],
    ) -> Trial:
        """A trial that the file holds, or else one that is done now; ``do`` gives its results."""
        for trial in self._from_file:
            if trial.is_of(kind, params, split):
                self.trials.append(trial)
                break
        else:
            begin = time.perf_counter()
            results = do()
            seconds = time.perf_counter() - begin
            trial = Trial(kind=kind, params=params, split=split, seconds=seconds, **results)
            self.trials.append(trial)
            self._write()
        self._tell(trial)
        return trial

    def _write(self) -> None:
        """Write all trials, also those of the file that nobody asked for yet.

        Where that fails, as on a full disk, a warning says so once, and the search goes on.
        """
        if self._path is None:
            return
        unused = [trial for trial in self._from_file if trial not in self.trials]
        lines = map(_line, [_Head(self._search), *self.trials, *unused])
        try:
            with write_whole(self._path) as file:
                file.writelines(lines)
            self._failed = False
        except OSError as error:
            if not self._failed:
                warn(
                    f"{self._path} could not be written ({error.strerror or error}); the search "
                    "goes on, and tries it again after the next trial",
                    RuntimeWarning,
                )
            self._failed = True

    def _read(self, path: Path) -> list[Trial]:
        content = path.read_bytes()
        try:
            search, trials = _decode(content)
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            raise ModelFileError(
                f"{path} is damaged: {error}. Remove it to search anew, or take another path"
            ) from None
        if search != self._search:
            raise ModelFileError(
                f"{path} belongs to another search: settings, data or version differ. Search "
                "with the same ones to go on, or take another path"
            )
        return trials


def _check_log(path: Path) -> None:
    """Raise an error unless a file is the log of a search, damaged or not, or empty."""
    if not path.is_file():
        raise ModelFileError(f"{path} must be a file, for the log of a search; it is none")
    if path.stat().st_size > _MOST_BYTES:
        raise ModelFileError(f"{path} is too large to be the log of a search")
    with path.open("rb") as file:
        head = file.read(100)
    if head and not re.match(rb'.{8} \{"search"', head):
        raise ModelFileError(
            f"{path} is not the log of a search, and is not overwritten; remove it, or take "
            "another path"
        )


def _line(entry: msgspec.Struct) -> bytes:
    content = msgspec.json.encode(entry)
    return b"%08x %b\n" % (zlib.crc32(content), content)


def _decode(content: bytes) -> tuple[str, list[Trial]]:
    """The name of the search, and its trials."""
    objects = []
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        crc, _, text = line.partition(b" ")
        if crc != b"%08x" % zlib.crc32(text):
            raise ValueError(f"the checksum of line {number} is wrong")
        objects.append(text)
    if not objects or not content.endswith(b"\n"):
        raise ValueError("its last line is cut short")
    head = msgspec.json.decode(objects[0], type=_Head)
    return head.search, [msgspec.json.decode(text, type=Trial) for text in objects[1:]]

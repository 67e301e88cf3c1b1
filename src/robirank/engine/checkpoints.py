"""Checkpoints of a run on a cluster: many files, and a manifest that makes them one.

The files of a checkpoint carry in their names the tick that wrote them last; what has not changed
since the checkpoint before is not written again. The manifest is written last, with a checksum of
itself, and names every file with its size and checksum: a checkpoint that was torn, whatever the
reason, is recognised, and the one before is used.
"""

from __future__ import annotations

import contextlib
import json
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from robirank.storage.folder import DamagedFileError, Entry, Folder

__all__ = ["Checkpoint", "Checkpoints"]

_KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """A state of a run between two ticks.

    Attributes
    ----------
    tick : int
        How many ticks led here.
    blocks_epoch : int
        In whose order V lies.
    factors, slopes, blocks : list of Entry
        Files: U of each part, the slopes of each part, the blocks of V.
    first, results, said : int, list, dict
        The first tick of the present epoch, what it and those after it gave, and what the solver
        wants to know again.
    """

    tick: int
    blocks_epoch: int
    factors: list[Entry]
    slopes: list[Entry]
    blocks: list[Entry]
    first: int
    results: list[Any]
    said: dict[str, Any]

    def entries(self) -> dict[str, Entry]:
        """All files by name."""
        return {e["name"]: e for e in (*self.factors, *self.slopes, *self.blocks)}


class Checkpoints:
    """The checkpoints of one run, in one folder.

    Parameters
    ----------
    folder : Folder
    run : str
        What tells this run from others; manifests of others are refused.
    """

    def __init__(self, folder: Folder, run: str) -> None:
        self.folder, self._run = folder, run

    def write(self, checkpoint: Checkpoint) -> None:
        """Write the manifest; from now on the checkpoint counts, and old ones go."""
        body = json.dumps({"run": self._run, **asdict(checkpoint)})
        content = json.dumps({"crc32": zlib.crc32(body.encode()), "body": body}).encode()
        self.folder.write_bytes(_name(checkpoint.tick), content)
        self.prune()

    def newest_first(self) -> Iterator[Checkpoint]:
        """Whole manifests; one that is damaged is passed over with a warning."""
        for name in reversed(self._manifests()):
            try:
                yield self._read(name)
            except (DamagedFileError, OSError) as error:
                warnings.warn(
                    f"a checkpoint cannot be used, the one before is tried: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def clear(self) -> None:
        """Remove all checkpoints."""
        for name in self.folder.names():
            self.folder.remove(name)

    def drop(self, checkpoint: Checkpoint) -> None:
        """Remove one whose files turned out to be damaged."""
        with contextlib.suppress(OSError):
            self.folder.remove(_name(checkpoint.tick))

    def prune(self) -> None:
        """Remove what none of the last checkpoints needs."""
        kept: set[str] = set()
        for name in self._manifests()[-_KEPT:]:
            with contextlib.suppress(DamagedFileError, OSError):
                kept |= {name, *self._read(name).entries()}
        with contextlib.suppress(OSError):
            for name in self.folder.names():
                if name not in kept:
                    self.folder.remove(name)

    def _manifests(self) -> list[str]:
        names = self.folder.names()
        return [n for n in names if n.startswith("checkpoint-") and n.endswith(".json")]

    def _read(self, name: str) -> Checkpoint:
        path = self.folder.path(name)
        with self.folder.open(name) as file:
            content = file.read()
        try:
            outer = json.loads(content)
            body: str = outer["body"]
            right = zlib.crc32(body.encode()) == outer["crc32"]
            fields: dict[str, Any] = json.loads(body) if right else {}
        except (ValueError, KeyError, TypeError):
            right = False
        if not right:
            raise DamagedFileError(f"{path} is damaged: its checksum is wrong")
        if fields.pop("run") != self._run:
            raise ValueError(
                f"{path} belongs to another run: settings or data differ. Train with the same ones "
                "to go on, take another run_dir, or leave resume=False to start anew"
            )
        return Checkpoint(**fields)


def _name(tick: int) -> str:
    return f"checkpoint-{tick:09d}.json"

"""The checkpoints of a run on a cluster: many files, and a manifest that makes them one.

The name of a file holds the number of the step that changed it last; what has not changed since the
checkpoint before is not written again. The manifest is written last and names every file with its
size and checksum: a checkpoint that is not whole, whatever the reason, is recognised, and the one
before is used.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from robirank._callers import warn
from robirank.storage.folder import DamagedFileError, FileEntry, Folder
from robirank.storage.manifest import Count, Manifest, read_manifest, write_manifest

_KEPT = 2
_MANIFEST = r"checkpoint-\d{9}\.json"
_OWN = rf"{_MANIFEST}|(factors|slopes|blocks)-\d{{9}}-\d{{5}}\.safetensors"


class ClusterCheckpoint(Manifest, frozen=True, kw_only=True):
    """A state of a run between two steps.

    Attributes
    ----------
    run : str
        Tells one run from another.
    step : int
        How many steps led here.
    blocks_epoch : int
        In whose order V lies.
    factors, slopes, blocks : list of FileEntry
        Files: U of each part, the slopes of each part, the blocks of V.
    first_step : int
        The first step of the present epoch.
    figures : list of (str, dict)
        Labels and figures of it and the steps after it.
    progress : dict
        What the training loop knew when the epoch began.
    """

    format: str = "robirank-checkpoint"
    format_version: int = 2

    run: str
    step: Count
    blocks_epoch: Count
    factors: list[FileEntry]
    slopes: list[FileEntry]
    blocks: list[FileEntry]
    first_step: Count
    figures: list[tuple[str, dict[str, int | float]]]
    progress: dict[str, Any]

    def __post_init__(self) -> None:
        if len(self.figures) != self.step - self.first_step:
            raise ValueError("it must have the figures of all steps since first_step")
        if not len(self.factors) == len(self.slopes) == len(self.blocks) > 0:
            raise ValueError("it must name a file of each kind for each part")
        for kind in ("factors", "slopes", "blocks"):
            for entry in getattr(self, kind):
                if not re.fullmatch(rf"{kind}-\d{{9}}-\d{{5}}\.safetensors", entry.name):
                    raise ValueError(f"{entry.name} is not the name of a file of {kind}")

    def entries(self) -> dict[str, FileEntry]:
        """All files by name."""
        return {entry.name: entry for entry in (*self.factors, *self.slopes, *self.blocks)}


class CheckpointFolder:
    """The checkpoints of one run.

    Parameters
    ----------
    folder : Folder
    run : str
        Checkpoints of another run are refused.
    """

    def __init__(self, folder: Folder, run: str) -> None:
        self.folder, self._run = folder, run

    def write(self, **fields: Any) -> ClusterCheckpoint:
        """Write the manifest; from now on the checkpoint counts, and old ones are removed."""
        checkpoint = ClusterCheckpoint(run=self._run, **fields)
        checkpoint = write_manifest(self.folder, _name(checkpoint), checkpoint)
        self.prune()
        return checkpoint

    def newest_first(self) -> Iterator[ClusterCheckpoint]:
        """Whole manifests; one that is damaged is passed over with a warning."""
        for name in reversed(self._manifests()):
            try:
                checkpoint = self._read(name)
            except (DamagedFileError, OSError) as error:
                warn(
                    f"a checkpoint cannot be used, the one before is tried: {error}",
                    RuntimeWarning,
                )
                continue
            if checkpoint.run != self._run:
                raise ValueError(
                    f"{self.folder.path(name)} belongs to another run: settings or data differ. "
                    "Train with the same ones to go on, take another run_dir, or leave "
                    "resume=False to start anew"
                )
            yield checkpoint

    def clear(self) -> None:
        """Remove all checkpoints; files with other names stay."""
        self.folder.remove_matching(_OWN)

    def drop(self, checkpoint: ClusterCheckpoint) -> None:
        """Remove one whose files turned out to be damaged."""
        with contextlib.suppress(OSError):
            self.folder.remove(_name(checkpoint))

    def prune(self) -> None:
        """Remove files of checkpoints that none of the last ones needs."""
        kept: set[str] = set()
        with contextlib.suppress(OSError):
            for name in self._manifests()[-_KEPT:]:
                with contextlib.suppress(DamagedFileError):
                    kept |= {name, *self._read(name).entries()}
            self.folder.remove_matching(_OWN, keep=kept)

    def _manifests(self) -> list[str]:
        return [name for name in self.folder.names() if re.fullmatch(_MANIFEST, name)]

    def _read(self, name: str) -> ClusterCheckpoint:
        return read_manifest(self.folder, name, ClusterCheckpoint)


def _name(checkpoint: ClusterCheckpoint) -> str:
    return f"checkpoint-{checkpoint.step:09d}.json"

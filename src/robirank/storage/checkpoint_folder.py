"""The checkpoints of a run on a cluster: files with arrays, and a manifest for each checkpoint.

The name of a file has the number of the step that changed its content last; files that have not
changed since the previous checkpoint are not written again. The manifest is written last and lists
every file with its size and checksum. If a checkpoint is incomplete or damaged, the previous one is
used.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from robirank._callers import warn
from robirank.storage.folder import DamagedFileError, FileEntry, Folder
from robirank.storage.manifest import Count, Manifest, read_manifest, write_manifest

_MOST_CHECKPOINTS = 2
_MANIFEST = r"checkpoint-\d{9}\.json"
_ARRAY = r"([A-Za-z_]+)-(\d{9})-\d{5}\.safetensors"
_FILES = rf"{_MANIFEST}|{_ARRAY}"


class ClusterCheckpoint(Manifest, frozen=True, kw_only=True):
    """The manifest of a checkpoint: the state of a run between two steps."""

    format: str = "robirank-checkpoint"
    format_version: int = 3

    run: str  # identifies the run
    step: Count  # the number of steps done
    blocks_epoch: Count  # the epoch whose order the items are in
    arrays: dict[str, list[FileEntry]]  # the files of each array, one for each part or block
    first_step: Count  # the first step of the current epoch
    figures: list[tuple[str, dict[str, int | float]]]  # labels and figures since first_step
    progress: dict[str, Any]  # the state of the training loop at the beginning of the epoch

    def __post_init__(self) -> None:
        if len(self.figures) != self.step - self.first_step:
            raise ValueError("it must have the figures of all steps since first_step")
        if len({len(files) for files in self.arrays.values()}) != 1 or not self.n_parts:
            raise ValueError("it must name a file of each array for each part")
        for array, files in self.arrays.items():
            for entry in files:
                match = re.fullmatch(_ARRAY, entry.name)
                if match is None or match[1] != array:
                    raise ValueError(f"{entry.name} is not the name of a file of {array}")

    @property
    def n_parts(self) -> int:
        """The number of parts and blocks."""
        return len(next(iter(self.arrays.values())))

    def entries(self) -> dict[str, FileEntry]:
        """All files by name."""
        return {entry.name: entry for files in self.arrays.values() for entry in files}

    def changed_at(self) -> dict[str, int]:
        """The step that changed each array last."""
        return {array: int(files[0].name.split("-")[1]) for array, files in self.arrays.items()}


class CheckpointFolder:
    """The checkpoints of one run, which ``run`` identifies; those of another are an error."""

    def __init__(self, folder: Folder, run: str) -> None:
        self.folder, self._run = folder, run

    def write(self, **fields: Any) -> ClusterCheckpoint:
        """Write the manifest, which completes the checkpoint, and remove old checkpoints."""
        checkpoint = ClusterCheckpoint(run=self._run, **fields)
        checkpoint = write_manifest(self.folder, _name(checkpoint), checkpoint)
        self.prune()
        return checkpoint

    def newest_first(self) -> Iterator[ClusterCheckpoint]:
        """Yield valid manifests, the newest first; a warning names a damaged one."""
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
        self.folder.remove_matching(_FILES)

    def drop(self, checkpoint: ClusterCheckpoint) -> None:
        """Remove the manifest of a checkpoint whose files are damaged."""
        with contextlib.suppress(OSError):
            self.folder.remove(_name(checkpoint))

    def prune(self) -> None:
        """Remove checkpoints except the last ones, and the files that these do not need."""
        needed: set[str] = set()
        with contextlib.suppress(OSError):
            for name in self._manifests()[-_MOST_CHECKPOINTS:]:
                with contextlib.suppress(DamagedFileError):
                    needed |= {name, *self._read(name).entries()}
            self.folder.remove_matching(_FILES, keep=needed)

    def _manifests(self) -> list[str]:
        return [name for name in self.folder.names() if re.fullmatch(_MANIFEST, name)]

    def _read(self, name: str) -> ClusterCheckpoint:
        return read_manifest(self.folder, name, ClusterCheckpoint)


def _name(checkpoint: ClusterCheckpoint) -> str:
    return f"checkpoint-{checkpoint.step:09d}.json"

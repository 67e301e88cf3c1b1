"""The run directory of a fit on a cluster: what stands in it, and whether it is one.

::

    run.json             which run it is
    workers.jsonl        a line for each step and worker
    checkpoints/         see `robirank.storage.checkpoint_folder`
    model/               the model in shards
    data/, validation/   partitions, where a table was given

Only files that a run made are ever removed or replaced.
"""

from __future__ import annotations

import json
from typing import Never

from robirank.engine.ray.actors import ClusterError
from robirank.storage.folder import DamagedFileError, FileEntry, Folder
from robirank.storage.manifest import format_of

_STAMP = {"format": "robirank-cluster-run", "format_version": 1}
_RUN, _LOG = "run.json", "workers.jsonl"
_SUBFOLDERS = ("checkpoints", "model")


def check_run_folder(folder: Folder) -> None:
    """Raise an error where a folder is in use by something else than runs on a cluster."""
    if folder.size(_RUN) is not None:
        if format_of(folder, _RUN) != _STAMP["format"] and not _is_older_run_file(folder):
            _refuse(folder, f"its {_RUN} belongs to something else")
        return
    if folder.size(_LOG) is not None:
        _refuse(folder, f"it has a {_LOG}, and no {_RUN} of a run on a cluster")
    for sub in _SUBFOLDERS:
        for name in folder.sub(sub).names():
            if not name.startswith("."):
                _refuse(folder, f"it has {sub}/{name}, and no {_RUN} of a run on a cluster")


def begin_run(folder: Folder, run: str) -> FileEntry:
    """Make the folders of a run that are missing, and write which run it is."""
    check_run_folder(folder)
    folder.make(*_SUBFOLDERS)
    return folder.write_bytes(_RUN, json.dumps(_STAMP | {"run": run}).encode())


def _is_older_run_file(folder: Folder) -> bool:
    """Whether the run file is of an older version, which wrote the name of the run alone."""
    try:
        with folder.open(_RUN) as file:
            return file.read(2) == b'["'
    except DamagedFileError:  # a link, or no file
        return False


def _refuse(folder: Folder, reason: str) -> Never:
    raise ClusterError(
        f"run_dir {folder} is in use by something else: {reason}. Name another folder"
    )

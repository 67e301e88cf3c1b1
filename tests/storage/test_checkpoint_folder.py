"""Checkpoints of a run on a cluster: the newest whole one counts."""

import pytest

from robirank.storage.checkpoint_folder import CheckpointFolder
from robirank.storage.folder import Folder


def write(checkpoints, step):
    folder = checkpoints.folder
    kinds = ("factors", "slopes", "blocks")
    files = {kind: [folder.write_bytes(f"{kind}-{step:09d}-0", b"x")] for kind in kinds}
    figures = [("sgd_task 0", {"loss": 0.1, "done": 3})]
    progress = {"epochs": 4, "history": [{"loss": 1 / 3}]}
    return checkpoints.write(
        step=step, blocks_epoch=1, first_step=0, figures=figures, progress=progress, **files
    )


def test_the_newest_whole_checkpoint_comes_first(tmp_path):
    checkpoints = CheckpointFolder(Folder(tmp_path), "run")
    made = [write(checkpoints, step) for step in (3, 5, 12)]
    found = list(checkpoints.newest_first())
    assert [c.step for c in found] == [12, 5]  # two are kept
    assert found[0].figures == made[2].figures
    assert found[0].progress == made[2].progress
    assert not [name for name in checkpoints.folder.names() if "-000000003" in name]
    path = tmp_path / "checkpoint-000000012.json"
    path.write_bytes(path.read_bytes().replace(b"0.1", b"0.2"))
    with pytest.warns(RuntimeWarning, match="the one before is tried.*its checksum is wrong"):
        assert [c.step for c in checkpoints.newest_first()] == [5]


def test_checkpoints_of_another_run_are_refused(tmp_path):
    write(CheckpointFolder(Folder(tmp_path), "one"), 3)
    with pytest.raises(ValueError, match="belongs to another run"):
        list(CheckpointFolder(Folder(tmp_path), "other").newest_first())


def test_figures_keep_every_bit(tmp_path):
    checkpoints = CheckpointFolder(Folder(tmp_path), "run")
    values = {"loss": 1 / 3, "drift": -0.7, "tiny": 2.0**-1060, "units": 2**62, "done": 5}
    files = {kind: [] for kind in ("factors", "slopes", "blocks")}
    checkpoints.write(
        step=1, blocks_epoch=0, first_step=0, figures=[("x", values)], progress={}, **files
    )
    (found,) = checkpoints.newest_first()
    assert found.figures == [("x", values)]

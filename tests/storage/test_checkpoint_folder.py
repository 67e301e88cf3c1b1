"""Checkpoints of a run on a cluster: the newest whole one counts."""

import json
import zlib

import msgspec
import pytest

from robirank.storage.checkpoint_folder import CheckpointFolder
from robirank.storage.folder import FileEntry, Folder


def write(checkpoints, step, figures=(("sgd_task 0", {"loss": 0.1, "done": 3}),)):
    folder = checkpoints.folder
    name = f"{step:09d}-00000.safetensors"
    arrays = {array: [folder.write_bytes(f"{array}-{name}", b"x")] for array in ("U", "V", "sums")}
    return checkpoints.write(
        step=step,
        blocks_epoch=1,
        arrays=arrays,
        first_step=step - 1,
        figures=list(figures),
        progress={"epochs": 4, "history": [{"loss": 1 / 3}]},
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
    write(checkpoints, 1, figures=[("x", values)])
    (found,) = checkpoints.newest_first()
    assert found.figures == [("x", values)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"arrays": {"U": [FileEntry("U-000000005-00000.safetensors", 1, 0)], "V": []}},
            "each part",
        ),
        ({"arrays": {}}, "a file of each array for each part"),
        ({"first_step": 9}, "the figures of all steps"),
        ({"figures": []}, "the figures of all steps"),
        ({"blocks_epoch": -7}, "Expected `int` >= 0"),
        ({"arrays": {"U": [FileEntry("V-000000005-00000.safetensors", 1, 0)]}}, "not the name of"),
        ({"arrays": {"U": [FileEntry("U-x-00000.safetensors", 1, 0)]}}, "not the name of a file"),
        ({"step": "3"}, "Expected `int`, got `str`"),
    ],
)
def test_a_checkpoint_that_cannot_be_is_passed_over(tmp_path, change, message):
    """Its checksum is right, whoever wrote it."""
    checkpoints = CheckpointFolder(Folder(tmp_path), "run")
    write(checkpoints, 5)
    path = tmp_path / "checkpoint-000000005.json"
    fields = json.loads(path.read_text()) | msgspec.to_builtins(change) | {"crc32": 0}
    body = json.dumps(fields, separators=(",", ":"))
    path.write_text(json.dumps(fields | {"crc32": zlib.crc32(body.encode())}))
    with pytest.warns(RuntimeWarning, match=message):
        assert list(checkpoints.newest_first()) == []


def test_a_store_that_does_not_answer_is_no_reason_to_stop(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("the store does not answer")

    monkeypatch.setattr(Folder, "names", fail)
    CheckpointFolder(Folder(tmp_path), "run").prune()


def test_only_files_of_checkpoints_are_removed(tmp_path):
    """Strangers' files stay, and so does what a link leads to."""
    checkpoints = CheckpointFolder(Folder(tmp_path / "checkpoints"), "run")
    (tmp_path / "checkpoints").mkdir()
    others = ["resnet_epoch90.pt", "checkpoint-best.json", "U.safetensors", "V-1.txt"]
    for name in others:
        (tmp_path / "checkpoints" / name).write_text("of a stranger")
    (tmp_path / "else").write_text("of a stranger")
    link = tmp_path / "checkpoints" / "sums-000000001-00000.safetensors"
    link.symlink_to(tmp_path / "else")
    left = tmp_path / "checkpoints" / ".U-000000002-00000.safetensors.0a1b2c3d.tmp"
    left.write_text("half")
    for step in (3, 5, 12):
        write(checkpoints, step)
    assert not left.exists()
    checkpoints.clear()
    assert {p.name for p in (tmp_path / "checkpoints").iterdir()} == {*others, link.name}
    assert (tmp_path / "else").read_text() == "of a stranger"

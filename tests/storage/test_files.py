"""Files that are written whole: what a killed writer left is removed."""

import os
import signal
import subprocess
import sys

import pytest

import robirank as rr
from robirank.data.names import Names
from robirank.storage.files import refuse_device, remove_leftovers, write_whole

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files are locked on POSIX")

WRITER = """
import sys, time
from robirank.storage.files import write_whole
with write_whole(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def writer_of(path):
    """A process that has begun to write a file."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "writing\n"
    return process


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_next_write_removes_what_a_killed_one_left(tmp_path):
    path = tmp_path / "model"
    with writer_of(path) as process:
        (left,) = names(tmp_path)
        with write_whole(path) as file:
            file.write(b"first")
        assert names(tmp_path) == sorted([left, "model"])  # it is still being written
        process.send_signal(signal.SIGKILL)
    with write_whole(path) as file:
        file.write(b"second")
    assert names(tmp_path) == ["model"]
    assert path.read_bytes() == b"second"


def test_only_regular_temporary_files_of_the_same_target_are_removed(tmp_path):
    keep = ["model", "model.0a1b2c3d.tmp", ".other.0a1b2c3d.tmp", ".model.0a1b2c3d.tmp.txt"]
    keep += [".model.0A1B2C3D.tmp", ".model.tmp"]
    for name in (*keep, ".model.0a1b2c3d.tmp", ".model.00000000.tmp"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / ".model.11111111.tmp").symlink_to("model")
    os.mkfifo(tmp_path / ".model.22222222.tmp")
    remove_leftovers(tmp_path / "model")
    assert names(tmp_path) == sorted([*keep, ".model.11111111.tmp", ".model.22222222.tmp"])
    assert (tmp_path / "model").read_bytes() == b"x"


def test_a_file_taken_for_a_leftover_before_its_lock_is_made_again(tmp_path, monkeypatch):
    import fcntl

    flock, calls = fcntl.flock, []

    def late(descriptor, operation):
        calls.append(operation)
        if len(calls) == 1:
            (left,) = names(tmp_path)
            (tmp_path / left).unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with write_whole(tmp_path / "model") as file:
        file.write(b"whole")
    assert len(calls) == 2
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model").read_bytes() == b"whole"


@pytest.mark.parametrize("load", [rr.load_interactions, rr.load_letor, Names.read])
def test_devices_are_refused(tmp_path, load):
    """Reading /dev/zero would end with the memory."""
    path = tmp_path / "endless.csv"
    path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=r"endless\.csv must be a file on a disk; it is a device"):
        load(path)


@pytest.mark.parametrize("load", [rr.load_interactions, Names.read])
def test_pipes_are_refused_by_what_waits_for_them_or_reads_twice(tmp_path, load):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(ValueError, match=r"pipe\.csv must be a file on a disk; it is a pipe"):
        load(tmp_path / "pipe.csv")
    refuse_device(tmp_path / "pipe.csv", pipes=True)
    refuse_device(tmp_path / "missing.csv")
    refuse_device(__file__)

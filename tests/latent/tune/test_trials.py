"""The log of a search: known trials stay, and damage is found."""

import errno
import json
import os
import zlib

import numpy as np
import pytest

from robirank.latent.tune.trials import TrialLog
from robirank.storage.tensor_file import ModelFileError


def open_log(path, resume=True, search="mine"):
    return TrialLog(path, search, resume, lambda _: None)


def results(regularizations=(0.1,), values=(0.5,)):
    return {"regularizations": list(regularizations), "values": list(values)}


def ask(log, number, do=results):
    return log.get("fit", {"factors": number}, 0, do)


def never():
    pytest.fail("it was done once more")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "fit.search"
    log = open_log(path)
    for number in range(4):
        ask(log, number, lambda: results([0.1, 0.2], [1 / 3, 0.25]))
    return path


def test_each_line_has_its_checksum(path):
    lines = path.read_bytes().splitlines()
    assert len(lines) == 5
    for line in lines:
        assert int(line[:8], 16) == zlib.crc32(line[9:])
    assert json.loads(lines[0][9:]) == {"search": "mine"}
    assert json.loads(lines[1][9:])["values"] == [1 / 3, 0.25]


def test_a_resumed_search_that_ends_early_loses_no_trial(path):
    log = open_log(path)
    ask(log, 2, never)
    ask(log, 9)  # the search is interrupted here
    again = open_log(path)
    for number in (2, 9, 0, 1, 3):
        ask(again, number, never)
    assert len(path.read_bytes().splitlines()) == 6


def test_no_flipped_bit_changes_a_trial(path):
    rng, content = np.random.default_rng(0), path.read_bytes()
    for place in rng.integers(len(content), size=300):
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        with pytest.raises(ModelFileError, match=r"fit\.search is (damaged|not the log)"):
            open_log(path)


def test_a_log_that_is_cut_short_is_damaged(path):
    content = path.read_bytes()
    first_line = content.index(b"\n") + 1
    for length in range(20, len(content)):
        path.write_bytes(content[:length])
        if content[length - 1 : length] != b"\n":
            with pytest.raises(ModelFileError, match="is damaged"):
                open_log(path)
    path.write_bytes(content[:first_line])
    open_log(path)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("content", ["user,item\n", '{"format": 2}', "12345678 {}\n"])
def test_a_file_that_is_no_log_is_not_overwritten(tmp_path, content, resume):
    (tmp_path / "fit.search").write_text(content)
    with pytest.raises(ModelFileError, match=r"fit\.search is not the log of a search"):
        open_log(tmp_path / "fit.search", resume)
    assert (tmp_path / "fit.search").read_text() == content


def test_without_resume_a_log_is_begun_anew(path):
    log = open_log(path, resume=False)
    ask(log, 1)
    assert len(path.read_bytes().splitlines()) == 2


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_a_file_is_read(tmp_path, kind, resume):
    """A pipe would be waited for, and /dev/zero has no end."""
    path = tmp_path / "fit.search"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(ModelFileError, match=r"fit\.search must be a file"):
        open_log(path, resume)


def test_a_full_disk_is_told_once_and_the_search_goes_on(path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    before, log = path.read_bytes(), open_log(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.warns(RuntimeWarning, match=r"could not be written \(No space left") as told:
            assert [ask(log, number).values for number in (7, 8)] == [[0.5], [0.5]]
    assert len(told) == 1
    assert path.read_bytes() == before
    ask(log, 9)  # there is room again
    again = open_log(path)
    for number in range(4):
        ask(again, number, never)
    for number in (7, 8, 9):
        ask(again, number, never)

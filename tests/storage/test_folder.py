"""Folders: what is written comes back, and damage, links and devices are found."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file

from robirank.storage.folder import DamagedFileError, FileEntry, Folder
from robirank.storage.tensor_file import ArraySpec

V = ArraySpec("F32", (3, 2))


def test_a_folder_gives_back_what_was_written(tmp_path):
    folder = Folder(tmp_path)
    arrays = {"V": np.ones((3, 2), np.float32), "users": np.arange(4, dtype=np.int32)}
    entry = folder.write_arrays("a.safetensors", arrays)
    expected = {"V": V, "users": ArraySpec("I32", (4,))}
    for found in (folder.read_arrays(entry, expected), load_file(tmp_path / "a.safetensors")):
        assert_array_equal(found["V"], arrays["V"])
        assert_array_equal(found["users"], arrays["users"])
    assert_array_equal(folder.read_arrays(entry, expected, mapped=True)["V"], arrays["V"])
    assert folder.names() == ["a.safetensors"]
    folder.remove("a.safetensors")
    folder.remove("a.safetensors")
    with pytest.raises(DamagedFileError, match="is missing"):
        folder.read_bytes(entry)


def test_a_folder_in_a_store(s3):
    folder = Folder(f"{s3}/things")
    assert folder.names() == []
    entry = folder.write_bytes("one", b"text")
    assert (folder.names(), folder.size("one"), folder.size("two")) == (["one"], 4, None)
    assert folder.read_bytes(entry) == b"text"
    arrays = folder.write_arrays("V", {"V": np.ones((3, 2), np.float32)})
    assert_array_equal(folder.read_arrays(arrays, {"V": V}, mapped=True)["V"], np.ones((3, 2)))
    ids = {"V": np.ones((3, 2), np.float32), "ids.ints": np.arange(3)}
    both = folder.write_arrays("V", ids)
    assert_array_equal(
        folder.read_arrays(both, {"V": V}, "ids.", mapped=True)["ids.ints"], [0, 1, 2]
    )
    for name in ("one", "V"):
        folder.remove(name)
    assert folder.names() == []


def test_slices_of_wider_arrays_are_written_as_they_look(tmp_path):
    wide = np.arange(12, dtype=np.float32).reshape(3, 4)
    entry = Folder(tmp_path).write_arrays("a", {"V": wide[:, :2]})
    assert_array_equal(Folder(tmp_path).read_arrays(entry, {"V": V})["V"], wide[:, :2])


@pytest.mark.parametrize(
    ("change", "message"), [(b"", "has 0 bytes, 4 were written"), (b"texT", "checksum is wrong")]
)
def test_damage_is_found(tmp_path, change, message):
    entry = Folder(tmp_path).write_bytes("a", b"text")
    (tmp_path / "a").write_bytes(change)
    with pytest.raises(DamagedFileError, match=message):
        Folder(tmp_path).read_bytes(entry)


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"V": ArraySpec("F32", (2, 3))}, r"V must be F32 of shape \(2, 3\); it is F32 of"),
        ({"V": ArraySpec("I32", (3, 2))}, "V must be I32"),
        ({"V": V, "U": V}, "U must be .* it is missing"),
        ({}, "has an array 'V', which does not belong there"),
    ],
)
def test_arrays_must_be_those_expected(tmp_path, expected, message):
    entry = Folder(tmp_path).write_arrays("a", {"V": np.ones((3, 2), np.float32)})
    with pytest.raises(DamagedFileError, match=message):
        Folder(tmp_path).read_arrays(entry, expected)


def test_arrays_must_be_finite(tmp_path):
    entry = Folder(tmp_path).write_arrays("a", {"V": np.full((3, 2), np.nan, np.float32)})
    with pytest.raises(DamagedFileError, match="V holds NaN or infinity"):
        Folder(tmp_path).read_arrays(entry, {"V": V})


@pytest.mark.parametrize("target", ["/dev/zero", "other"])
def test_links_are_not_followed(tmp_path, target):
    (tmp_path / "other").write_bytes(b"text")
    entry = Folder(tmp_path).write_bytes("a", b"text")
    (tmp_path / "a").unlink()
    (tmp_path / "a").symlink_to(tmp_path / target)
    with pytest.raises(DamagedFileError, match=r"a is a link|it has 0 bytes"):
        Folder(tmp_path).read_bytes(entry)


def test_a_folder_in_the_place_of_a_file(tmp_path):
    (tmp_path / "a").mkdir()
    size = (tmp_path / "a").stat().st_size
    with pytest.raises(DamagedFileError, match="is not a file"):
        Folder(tmp_path).read_bytes(FileEntry("a", size, 0))


def test_nothing_is_written_through_a_link(tmp_path):
    (tmp_path / "other").write_bytes(b"text")
    (tmp_path / "a").symlink_to("other")
    with pytest.raises(FileExistsError, match="a is a link, which is not followed"):
        Folder(tmp_path).write_bytes("a", b"new")
    (tmp_path / "real").mkdir()
    (tmp_path / "checkpoints").symlink_to("real")
    with pytest.raises(FileExistsError, match="checkpoints is a link"):
        Folder(tmp_path).make("checkpoints")
    Folder(tmp_path / "checkpoints").make()  # its user named it
    Folder(tmp_path).remove("a")
    assert (tmp_path / "a").is_symlink()
    assert (tmp_path / "other").read_bytes() == b"text"


def test_files_that_match_are_removed_but_those_to_keep(tmp_path):
    folder = Folder(tmp_path)
    for name in ("a-1", "a-2", "mine.txt"):
        folder.write_bytes(name, b"")
    folder.remove_matching(r"a-\d", keep={"a-2"})
    assert folder.names() == ["a-2", "mine.txt"]

"""Files of the laboratory are written whole or not at all."""

import pytest

from robirank_lab.files import write_whole


def test_a_file_is_replaced_in_one_step(tmp_path, monkeypatch):
    write_whole(tmp_path / "a.txt", "old")
    write_whole(tmp_path / "a.txt", "new: λ")
    assert (tmp_path / "a.txt").read_text("utf-8") == "new: λ"
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_whole(tmp_path / "a.txt", b"half")
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text("utf-8") == "new: λ"


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_whole(tmp_path / "none" / "a.txt", "text")

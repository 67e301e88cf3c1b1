"""The run directory of a cluster: nothing of others is removed or replaced."""

import json

import pytest

from robirank.engine.ray.actors import ClusterError
from robirank.engine.ray.run_folder import begin_run, check_run_folder
from robirank.storage.folder import Folder


def test_a_run_begins_in_an_empty_folder_and_in_its_own(tmp_path):
    folder = Folder(tmp_path / "new" / "run")
    for run in ("one", "two"):
        begin_run(folder, run)
        assert json.loads((tmp_path / "new" / "run" / "run.json").read_text())["run"] == run
        (tmp_path / "new" / "run" / "checkpoints" / "notes.txt").write_text("of the user")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / ".DS_Store").write_text("")
    (tmp_path / "notes.txt").write_text("")
    begin_run(Folder(tmp_path), "three")


def test_the_run_file_of_an_older_version_is_known(tmp_path):
    (tmp_path / "run.json").write_text('["0.1.0", {"class": "LatentRoBiRank"}, null, ""]')
    (tmp_path / "workers.jsonl").write_text("")
    begin_run(Folder(tmp_path), "run")
    assert json.loads((tmp_path / "run.json").read_text())["run"] == "run"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("run.json", '{"format": 2, "kind": "ltr"}', "its run.json belongs to something else"),
        ("run.json", "", "its run.json belongs to something else"),
        ("workers.jsonl", "{}", "it has a workers.jsonl, and no run.json of a run"),
        ("checkpoints/resnet_epoch90.pt", "x", "it has checkpoints/resnet_epoch90.pt, and no run"),
        ("model/manifest.json", "{}", "it has model/manifest.json, and no run.json of a run"),
    ],
)
def test_a_folder_of_others_is_refused(tmp_path, name, content, reason):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content)
    with pytest.raises(ClusterError, match=f"is in use by something else: {reason}"):
        begin_run(Folder(tmp_path), "run")
    assert (tmp_path / name).read_text() == content
    assert len(list(tmp_path.rglob("*"))) == len(name.split("/"))


@pytest.mark.parametrize("name", ["run.json", "checkpoints", "model"])
def test_links_are_not_followed(tmp_path, name):
    begin_run(Folder(tmp_path / "real"), "real")
    before = (tmp_path / "real" / "run.json").read_bytes()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "real" / name)
    with pytest.raises((ClusterError, OSError), match=r"belongs to something else|is a link"):
        begin_run(Folder(tmp_path / "run"), "run")
    assert (tmp_path / "real" / "run.json").read_bytes() == before


def test_a_path_through_a_file_is_not_in_use(tmp_path):
    (tmp_path / "file").write_text("")
    check_run_folder(Folder(tmp_path / "file" / "run"))

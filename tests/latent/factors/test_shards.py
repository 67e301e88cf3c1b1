"""Sharded models: what a folder that somebody else wrote may and may not hold."""

from itertools import pairwise

import numpy as np
import pytest
from msgspec import structs
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix

import robirank as rr
from robirank.data.ids import Ids
from robirank.data.user_parts import user_parts
from robirank.engine.strata import DATA_ORDER, Plan
from robirank.latent.factors.shards import ShardedManifest
from robirank.storage.folder import FileEntry, Folder
from robirank.storage.manifest import MANIFEST, write_manifest

PARTS, SEED = 3, 5
NUMBERS = {
    "n_iter_": 4,
    "best_iter_": 4,
    "solver_": "sgd",
    "user_scale_": 1.0,
    "regularization_": 0.2,
    "noise_level_": 0.3,
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((20, 2)).astype("f4"), rng.standard_normal((9, 2)).astype("f4")


def write(path, rows, **changes):
    """A sharded model without ids; ``changes`` are fields of its manifest."""
    (U, V), folder = rows, Folder(path)
    folder.make()
    users = [
        folder.write_arrays(
            f"users-{n:05}-a.safetensors", {"user_factors": U[own], "users": own.astype(np.int32)}
        )
        for n, own in enumerate(user_parts(SEED, len(U), PARTS))
    ]
    bounds = Plan(0, DATA_ORDER, len(V), PARTS).bounds
    items = [
        folder.write_arrays(f"items-{n:05}-a.safetensors", {"item_factors": V[low:high]})
        for n, (low, high) in enumerate(pairwise(bounds))
    ]
    manifest = ShardedManifest(
        model="LatentRoBiRank",
        params={"factors": 2, "solver": "sgd"},
        numbers=NUMBERS,
        shape=(len(U), len(V)),
        factors=2,
        parts=PARTS,
        part_seed=SEED,
        users=users,
        items=items,
        user_ids=False,
        item_ids=None,
    )
    write_manifest(folder, MANIFEST, structs.replace(manifest, **changes))
    return path


def test_a_folder_is_read_as_one_model(tmp_path, rows):
    model = rr.load_model(write(tmp_path, rows))
    assert_array_equal(model.user_factors, rows[0])
    assert_array_equal(model.item_factors, rows[1])
    assert model.n_iter_ == 4
    assert model.user_ids_ is None
    few = rr.ShardedModel(tmp_path).recommend([3, 17], None, filter_already_liked_items=False)
    assert_array_equal(few[0], model.recommend([3, 17], None, filter_already_liked_items=False)[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"params": {"factors": 2, "shell": "sh"}}, "it has a parameter 'shell'"),
        ({"params": {"factors": 3}}, "factors is 3, and rows have 2 columns"),
        ({"numbers": {}}, "must be a"),
        ({"numbers": NUMBERS | {"n_iter_": -1}}, "n_iter_ must be a int; it is -1"),
        ({"numbers": NUMBERS | {"solver_": 3}}, "solver_ must be a str; it is 3"),
        ({"numbers": NUMBERS | {"more_": 3}}, "its numbers are"),
        ({"model": "RoBiRank"}, "RoBiRank"),
        ({"model": "os.system"}, "os.system"),
        ({"factors": 1000}, "too small for 20 × 1000 factors"),
        ({"shape": (1 << 30, 9)}, "too small"),
        ({"parts": 2}, "must name 2 shards of each"),
        ({"part_seed": 6}, "has the rows of other users"),
        ({"items": [FileEntry("gone.safetensors", 90, 1)] * 3}, "gone.safetensors is missing"),
    ],
)
def test_a_manifest_that_claims_what_is_not_there(tmp_path, rows, changes, message):
    write(tmp_path, rows, **changes)
    with pytest.raises(rr.ModelFileError, match=message):
        rr.load_model(tmp_path)


@pytest.mark.parametrize("side", ["users", "items"])
def test_rows_of_one_shard_in_the_place_of_others(tmp_path, rows, side):
    """They have the right sizes and checksums, and would give the wrong answers."""
    shards = getattr(rr.ShardedModel(write(tmp_path / "right", rows)).manifest, side)
    write(tmp_path / "wrong", rows, **{side: [shards[0]] * 3})
    with pytest.raises(rr.ModelFileError, match="must name each shard once"):
        rr.load_model(tmp_path / "wrong")


def test_users_of_another_shard_are_noticed_when_they_are_served(tmp_path, rows):
    write(tmp_path / "wrong", (rows[0][:18], rows[1]))  # parts of equal size
    first, second, third = rr.ShardedModel(tmp_path / "wrong").manifest.users
    write(tmp_path / "wrong", (rows[0][:18], rows[1]), users=[second, first, third])
    served = rr.ShardedModel(tmp_path / "wrong")
    with pytest.raises(rr.ModelFileError, match="has the rows of other users"):
        served.recommend(np.arange(18), None, filter_already_liked_items=False)


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/passwd", "a/../../x", "..", "x\\y"])
def test_names_that_leave_the_folder(tmp_path, rows, name):
    entry = FileEntry(name, 104, 1)
    write(tmp_path, rows, items=[entry] * 3)
    with pytest.raises(rr.ModelFileError, match=r"manifest.json is damaged: .*items\[0\].name"):
        rr.load_model(tmp_path)


@pytest.mark.parametrize("target", ["/dev/zero", "another"])
@pytest.mark.parametrize("name", ["manifest.json", "items-00000-a.safetensors"])
def test_links_are_not_followed(tmp_path, rows, name, target):
    (tmp_path / "another").write_bytes((write(tmp_path / "m", rows) / name).read_bytes())
    (tmp_path / "m" / name).unlink()
    (tmp_path / "m" / name).symlink_to(tmp_path / target)
    with pytest.raises(rr.ModelFileError, match=r"link|not a file|is damaged"):
        rr.load_model(tmp_path / "m")


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"\xff", b"[" * 100_000, b'{"model": "WARP", "x": ' + b"[" * 100_000, b"{}"],
)
def test_a_manifest_that_is_none(tmp_path, rows, content):
    (write(tmp_path, rows) / "manifest.json").write_bytes(content)
    with pytest.raises(rr.ModelFileError, match=r"manifest.json is damaged"):
        rr.load_model(tmp_path)
    with pytest.raises(rr.ModelFileError, match=r"manifest.json is damaged"):
        rr.ShardedModel(tmp_path)


def test_numbers_that_are_none(tmp_path, rows):
    wrong = rows[1].copy()
    wrong[5, 0] = np.nan
    write(tmp_path, (rows[0], wrong))
    with pytest.raises(rr.ModelFileError, match=r"items-00001.*holds NaN"):
        rr.load_model(tmp_path)
    with pytest.raises(rr.ModelFileError, match=r"items-00001.*holds NaN"):
        rr.ShardedModel(tmp_path).recommend([1], None, filter_already_liked_items=False)


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b[:-1] + b"?"])
def test_files_that_were_damaged(tmp_path, rows, change):
    write(tmp_path, rows)
    file = tmp_path / "users-00001-a.safetensors"
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(rr.ModelFileError, match=r"users-00001-a.safetensors is damaged"):
        rr.load_model(tmp_path)


def test_a_folder_without_a_manifest(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no sharded model at"):
        rr.ShardedModel(tmp_path)


def test_outside_ids_are_understood(tmp_path, rows):
    """The items of this folder have names; the users are called by their numbers."""
    names = Ids([f"item {n}" for n in range(9)])
    entry = Folder(tmp_path).write_arrays("item-ids-a.safetensors", names.to_tensors("ids"))
    model = rr.ShardedModel(write(tmp_path, rows, item_ids=entry))
    whole = rr.load_model(tmp_path)
    options = {"N": 3, "filter_already_liked_items": False}
    ids, scores = model.by_id.recommend(4, **options)
    expected, their_scores = whole.recommend(4, **options)
    assert ids.tolist() == [f"item {code}" for code in expected]
    assert_array_equal(scores, their_scores)
    assert whole.by_id.recommend([4], **options)[0].tolist() == [ids.tolist()]
    with pytest.raises(ValueError, match="no user 'ann' in the model"):
        model.recommend("ann", **options)


def test_users_without_interactions_get_the_popular_items(tmp_path, rows):
    U = rows[0].copy()
    U[[3, 11]] = 0
    counts = np.array([1, 5, 2, 0, 5, 3, 0, 1, 9], dtype=np.int32)
    entry = Folder(tmp_path).write_arrays("counts.safetensors", {"item_counts": counts})
    sharded = rr.ShardedModel(write(tmp_path, (U, rows[1]), item_counts=entry))
    whole = rr.load_model(tmp_path)
    assert_array_equal(whole.item_counts_, counts)
    liked = csr_matrix(np.eye(9, dtype=np.float32)[[8, 0, 1]])
    for model in (sharded, whole):
        with pytest.warns(rr.UnknownUserWarning, match="2 of 3 users have no interaction"):
            ids, scores = model.recommend([3, 4, 11], liked, N=4)
        assert ids[[0, 2]].tolist() == [[1, 4, 5, 2], [8, 4, 5, 2]]
        assert scores[[0, 2]].tolist() == [[5, 5, 3, 2], [9, 5, 3, 2]]
        empty, _ = model.recommend([3], liked[:1], N=2, unknown_users="empty")
        assert empty.tolist() == [[-1, -1]]
    known, _ = whole.recommend(4, liked[1], N=4)
    assert ids[1].tolist() == known.tolist()


def test_an_older_folder_has_no_counts(tmp_path, rows):
    model = rr.load_model(write(tmp_path, rows))
    assert "item_counts" not in (tmp_path / MANIFEST).read_text()
    assert not hasattr(model, "item_counts_")


def test_counts_of_other_items(tmp_path, rows):
    wrong = {"item_counts": np.ones(8, dtype=np.int32)}
    entry = Folder(tmp_path).write_arrays("counts.safetensors", wrong)
    with pytest.raises(rr.ModelFileError, match="item_counts"):
        rr.load_model(write(tmp_path, rows, item_counts=entry))

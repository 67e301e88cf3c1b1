"""Partitions on disk: the same interactions, whole or a clear error."""

import io
import json
import re
import subprocess
import sys
import zlib

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import robirank as rr
from robirank.data.partitions import PartitionsError
from robirank.data.user_parts import user_parts

pairs = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 7), st.integers(1, 3)), min_size=1, max_size=60
)


def make(rows, text):
    users, items, counts = zip(*rows, strict=True)
    if text:
        users = [f"user {u}" for u in users]
    return rr.Interactions.from_arrays(users, items, counts)


def same(one, other):
    assert one.users == other.users
    assert one.items == other.items
    assert_array_equal(one.indptr, other.indptr)
    assert_array_equal(one.indices, other.indices)
    assert_array_equal(one.matrix.data, other.matrix.data)


@settings(max_examples=30)
@given(pairs, st.integers(1, 12), st.booleans(), st.integers(0, 99))
def test_what_is_cut_can_be_put_together(tmp_path_factory, rows, parts, text, seed):
    data, folder = make(rows, text), tmp_path_factory.mktemp("cut")
    made = rr.partition(data, folder, parts=parts, random_state=seed)
    read = rr.open_partitions(folder)
    assert read.manifest == made.manifest
    assert made.parts <= parts
    same(read.interactions(), data)
    assert_array_equal(read.item_counts(), np.bincount(data.indices, minlength=data.n_items))
    lengths, times = read.manifest.lengths
    assert_array_equal(np.repeat(lengths, times), np.sort(data.lengths))


@settings(max_examples=30)
@given(pairs, st.integers(1, 5), st.booleans(), st.booleans())
def test_a_file_is_cut_as_the_table_is(tmp_path_factory, rows, parts, text, counted):
    """Duplicates included; the very same files."""
    folder = tmp_path_factory.mktemp("file")
    lines = [
        ",".join([f"u{u}" if text else str(u), str(i), str(c)][: 2 + counted]) for u, i, c in rows
    ]
    (folder / "plays.csv").write_text("\n".join(lines) + "\n")
    options = {"count": 2} if counted else {}
    data = rr.load_interactions(folder / "plays.csv", **options)
    whole = rr.partition(data, folder / "a", parts=parts, random_state=0)
    by_blocks = rr.partition(
        folder / "plays.csv", folder / "b", parts=parts, random_state=0, **options
    )
    assert whole.manifest == by_blocks.manifest


def test_a_file_in_many_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("robirank.data.interaction_files._CHUNK_BYTES", 1 << 10)
    monkeypatch.setattr("robirank.data.spool._CHUNK_ROWS", 100)
    data = rr.make_interactions(200, 50, 3000, random_state=0)
    rows = pl.DataFrame({"user": data.user_codes(), "item": data.indices})
    rows.sample(fraction=1.0, shuffle=True, seed=0).write_csv(tmp_path / "plays.csv")
    data = rr.load_interactions(tmp_path / "plays.csv")
    whole = rr.partition(data, tmp_path / "a", parts=3, random_state=0)
    by_blocks = rr.partition(tmp_path / "plays.csv", tmp_path / "b", parts=3, random_state=0)
    assert whole.manifest == by_blocks.manifest


def test_parts_have_the_users_of_the_plan(tmp_path):
    data = rr.make_interactions(30, 20, 100, random_state=0)
    made = rr.partition(data, tmp_path, parts=4, random_state=5)
    for number, users in enumerate(user_parts(made.seed, 30, 4)):
        part = made.read_part(number)
        assert_array_equal(made.part_users[number], users)
        for place, user in enumerate(users):
            own = data.indices[data.indptr[user] : data.indptr[user + 1]]
            assert_array_equal(part.items[part.indptr[place] : part.indptr[place + 1]], own)
        table = pl.read_parquet(tmp_path / f"part-{number:05d}.parquet")
        assert_array_equal(table["user"], np.repeat(users, data.lengths[users]))


def test_weights_are_those_of_the_models(tmp_path):
    data = rr.Interactions.from_arrays([0, 0, 1], [0, 1, 1], [1, 3, 7])
    made = rr.partition(data, tmp_path, parts=1, random_state=0)
    part = made.read_part(0).rows(np.argsort(made.part_users[0]))
    assert part.weighted("binary").weight is None
    assert part.weighted("log").weight.tolist() == [1, 2, 3]
    assert part.weighted("count").weight.tolist() == [1, 3, 7]


@pytest.fixture
def folder(tmp_path):
    rr.partition(rr.make_interactions(30, 20, 100, random_state=0), tmp_path, parts=3)
    return tmp_path


def edit(folder, **changes):
    """Change fields of the manifest; its checksum becomes right again."""
    manifest = json.loads((folder / "manifest.json").read_text()) | changes
    body = json.dumps(manifest | {"crc32": 0}, separators=(",", ":"))
    manifest["crc32"] = zlib.crc32(body.encode())
    (folder / "manifest.json").write_text(json.dumps(manifest))


def replace(folder, name, frame):
    """Put another table in the place of a file; its entry becomes right again."""
    content = io.BytesIO()
    frame.write_parquet(content)
    (folder / name).write_bytes(content.getvalue())
    entry = {"name": name, "bytes": len(content.getvalue())}
    entry |= {"crc32": zlib.crc32(content.getvalue()), "rows": len(frame)}
    manifest = json.loads((folder / "manifest.json").read_text())
    kind = name.split("-")[0].removesuffix(".parquet")
    if kind == "items":
        edit(folder, items=entry)
    else:
        edit(folder, **{kind: [entry if e["name"] == name else e for e in manifest[kind]]})


def spoil_checksum(folder):
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(re.sub(r'"seed": \d+', '"seed": 5', text))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "part-00001.parquet").unlink(), r"part-00001.parquet is missing"),
        (lambda f: (f / "users-00002.parquet").unlink(), r"users-00002.parquet is missing"),
        (lambda f: (f / "items.parquet").write_bytes(b"x"), r"it has 1 bytes, \d+ were written"),
        (lambda f: (f / "manifest.json").unlink(), "there are no partitions at"),
        (lambda f: (f / "manifest.json").write_text("{"), "manifest.json is damaged"),
        (lambda f: edit(f, format_version=9), "format version 9; this robirank reads version 2"),
        (lambda f: edit(f, format="x"), "does not describe robirank-partitions"),
        (lambda f: edit(f, n_records=99), "do not fit together"),
        (lambda f: edit(f, n_users=10**8), "do not fit together"),
        (lambda f: edit(f, n_users=2**61), "Expected `int` <= 2147483647"),
        (lambda f: edit(f, n_items=21), "do not fit together"),
        (lambda f: edit(f, lengths=[[0, 1], []]), "do not fit together"),
        (lambda f: edit(f, mean_weight={}), "do not fit together"),
        (lambda f: edit(f, parts=2), "do not fit together"),
        (spoil_checksum, "manifest.json is damaged: its checksum is wrong"),
        (lambda f: edit(f, seed="3"), r"Expected `int`, got `str` - at `\$.seed`"),
        (lambda f: edit(f, part=[{"name": "../x", "bytes": 1, "crc32": 0}]), "matching regex"),
        (lambda f: (f / "manifest.json").write_text("[" * 10**5), "manifest.json is damaged"),
    ],
)
def test_damaged_partitions_are_refused_at_once(folder, damage, message):
    damage(folder)
    with pytest.raises(PartitionsError, match=message):
        rr.open_partitions(folder)


def first_part(folder):
    return pl.read_parquet(folder / "part-00000.parquet")


def first_users(folder):
    return pl.read_parquet(folder / "users-00000.parquet")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: first_part(f).with_columns(item=pl.lit(20, pl.Int32)), "is 20; it must be from"),
        (lambda f: first_part(f).with_columns(item=-pl.col("item")), "it must be from 0 to 19"),
        (lambda f: first_part(f).with_columns(item=pl.lit(7, pl.Int32)), "items must rise"),
        (lambda f: first_part(f).reverse(), "items must rise"),
        (lambda f: first_part(f).cast({"item": pl.Int64}), "columns are not those"),
        (lambda f: first_part(f).cast({"item": pl.Float64}), "columns are not those"),
        (
            lambda f: first_part(f).with_columns(item=pl.lit(None, pl.Int32)),
            "columns are not those",
        ),
    ],
)
def test_interactions_that_cannot_be(folder, damage, message):
    replace(folder, "part-00000.parquet", damage(folder))
    with pytest.raises(PartitionsError, match=message):
        rr.open_partitions(folder).read_part(0)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda f: first_users(f).with_columns(records=-pl.col("records")),
            "the table is damaged: indptr",
        ),
        (
            lambda f: first_users(f).with_columns(records=pl.col("records") + 1),
            "the table is damaged: indptr",
        ),
        (lambda f: first_users(f).with_columns(user=pl.lit(3, pl.Int32)), "not those of the part"),
    ],
)
def test_users_that_cannot_be(folder, damage, message):
    replace(folder, "users-00000.parquet", damage(folder))
    with pytest.raises(PartitionsError, match=message):
        rr.open_partitions(folder).read_part(0)


@pytest.mark.parametrize("bad", [np.nan, -1.0, 0.0, np.inf])
def test_counts_that_cannot_be(tmp_path, bad):
    rr.partition(make([(0, 1, 2), (1, 3, 4)], False), tmp_path, parts=1)
    table = pl.read_parquet(tmp_path / "part-00000.parquet")
    replace(tmp_path, "part-00000.parquet", table.with_columns(count=pl.lit(bad, pl.Float32)))
    with pytest.raises(PartitionsError, match="counts must be positive finite numbers"):
        rr.open_partitions(tmp_path).read_part(0)


def test_a_changed_byte_is_found(folder):
    path = folder / "part-00000.parquet"
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    with pytest.raises(PartitionsError, match="its checksum is wrong"):
        rr.open_partitions(folder).read_part(0)


def test_an_unfinished_folder_has_no_manifest(folder, monkeypatch):
    """Writing anew takes the old manifest away first."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("robirank.data.partitions._write", full)
    with pytest.raises(OSError, match="No space left"):
        rr.partition(rr.make_interactions(30, 20, 100, random_state=1), folder, parts=3)
    with pytest.raises(PartitionsError, match="there are no partitions at"):
        rr.open_partitions(folder)


def test_an_unfinished_folder_is_written_anew(folder):
    (folder / "manifest.json").unlink()
    data = rr.make_interactions(30, 20, 100, random_state=1)
    cut = rr.partition(data, folder, parts=3, random_state=0)
    assert (cut.interactions().matrix != data.matrix).nnz == 0


@pytest.mark.parametrize("name", ["manifest.json", "items.parquet", "part-00001.parquet"])
@pytest.mark.parametrize("kind", ["text", "table", "link"])
def test_files_of_others_are_not_overwritten(tmp_path, name, kind):
    path = out = tmp_path / "out" / name
    out.parent.mkdir()
    if kind == "link":
        path = tmp_path / "else"
        out.symlink_to(path)
    if kind == "text":
        path.write_text('{"format": "webpack", "format_version": 2}')
    else:
        pl.DataFrame({"item": [1], "title": ["tea"]}).write_parquet(path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=f"{name} is there already, and is no file of"):
        rr.partition(rr.make_interactions(30, 20, 100, random_state=1), out.parent, parts=3)
    assert path.read_bytes() == before
    assert [p.name for p in out.parent.iterdir()] == [name]


@pytest.mark.parametrize(
    ("data", "options", "kind", "message"),
    [
        (rr.make_interactions(9, 9, 20), {"parts": 0}, ValueError, "parts must be a positive"),
        (rr.make_interactions(9, 9, 20), {"sep": ","}, TypeError, "sep must be left out"),
        ([[1]], {}, TypeError, "data must be Interactions or the path of a file; got list"),
        ("plays.csv", {"time": 2}, TypeError, "partitions hold no times"),
        (
            rr.Interactions.from_arrays([(1, 2)], [3]),
            {},
            TypeError,
            "ids can be saved if all are 64-bit integers or all are text",
        ),
    ],
)
def test_bad_input_is_named(tmp_path, data, options, kind, message):
    with pytest.raises(kind, match=message):
        rr.partition(data, tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_the_command(tmp_path):
    (tmp_path / "plays.tsv").write_text("ann\ttea\t3\nbob\ttea\t1\nann\trum\t2\n")
    command = [sys.executable, "-m", "robirank", "latent", "partition", "--parts", "2"]
    told = subprocess.run(
        [*command, str(tmp_path / "plays.tsv"), str(tmp_path / "out"), "--count", "2"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "interactions" in told.stdout
    data = rr.open_partitions(tmp_path / "out").interactions()
    assert data.matrix.toarray().tolist() == [[3, 2], [1, 0]]
    assert list(data.users) == ["ann", "bob"]

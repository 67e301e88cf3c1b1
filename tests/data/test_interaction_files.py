"""Interactions from and to files."""

import bz2
import gzip

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robirank import Interactions, load_interactions
from robirank.data import interaction_files as module
from robirank.data.ids import Ids


def pairs(data):
    user, item = data.users[data.user_codes()].tolist(), data.items[data.indices].tolist()
    counts = np.ones(len(data)) if data.counts is None else data.counts
    return dict(zip(zip(user, item, strict=True), counts.tolist(), strict=True))


@pytest.fixture
def write(tmp_path):
    def write(text, name="plays.tsv"):
        path = tmp_path / name
        content = text if isinstance(text, bytes) else text.encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("a\t7\t2\nb\t7\t1\na\t9\t5\n", "x.tsv", {"count": 2}),
        ("a\t7\t2\nb\t7\t1\na\t9\t5\n", "x.tsv.gz", {"count": 2}),
        ("a\t7\t2\r\nb\t7\t1\r\na\t9\t5", "x.txt", {"count": 2}),
        ("a,7,2\n\nb,7,1\na,9,5\n\n\n", "x.csv", {"count": 2}),
        ("\ufeffa;7;2\nb;7;1\na;9;5\n", "x.dat", {"count": 2}),
        ("a 7 2\nb 7 1\na 9 5\n", "x", {"count": 2}),
        ("a|7|2\nb|7|1\na|9|5\n", "x.csv", {"count": 2, "sep": "|"}),
        ("2,7,a\n1,7,b\n5,9,a\n", "x.csv", {"user": 2, "item": 1, "count": 0}),
        ("item,n,user\n7,2,a\n7,1,b\n9,5,a\n", "x.csv", {"count": "n"}),
        (
            "who,what,n\na,7,2\nb,7,1\na,9,5\n",
            "x.csv",
            {"user": "who", "item": "what", "count": "n"},
        ),
        (
            "who,what,n\na,7,2\nb,7,1\na,9,5\n",
            "x.csv",
            {"header": True, "user": 0, "item": 1, "count": 2},
        ),
        ('"a",7,2\n"b",7,1\n"a",9,5\n', "x.csv", {"count": 2}),
    ],
)
@pytest.mark.parametrize("block", [8, 1 << 20])
def test_formats(write, monkeypatch, text, name, options, block):
    monkeypatch.setattr(module, "_CHUNK_BYTES", block)
    data = load_interactions(write(text, name), **options)
    assert pairs(data) == {("a", 7): 2, ("b", 7): 1, ("a", 9): 5}
    assert list(data.users) == ["a", "b"]
    assert (data.users.kind, data.items.kind) == ("str", "int")


@pytest.mark.parametrize("block", [8, 1 << 20])
@pytest.mark.parametrize(
    ("written", "kind"),
    [
        (["1", "-2", "0", "9223372036854775807"], "int"),
        (["1", "2", "007", "7"], "str"),
        (["1", "2", "9223372036854775808"], "str"),
        (["1", "2", "-0"], "str"),
        (["1", "2", " 3"], "str"),
        (["1", "2.0"], "str"),
        (["12345678", "23456789", "x"], "str"),  # found out in a later block
    ],
)
def test_ids_are_integers_only_if_all_are(write, monkeypatch, block, written, kind):
    monkeypatch.setattr(module, "_CHUNK_BYTES", block)
    data = load_interactions(write("".join(f"{v}\ti\n" for v in written)))
    assert data.users.kind == kind
    assert [str(v) for v in data.users] == written


@settings(max_examples=40)
@given(
    interactions=st.lists(
        st.tuples(st.sampled_from(["1", "01", "b", "ü"]), st.integers(-3, 3), st.integers(1, 5)),
        min_size=1,
        max_size=20,
    ),
    block=st.integers(8, 40),
)
def test_files_say_what_frames_say(tmp_path_factory, interactions, block):
    frame = pl.DataFrame(interactions, schema=["user", "item", "n"], orient="row")
    folder = tmp_path_factory.mktemp("plays")
    frame.write_csv(folder / "plays.csv")
    frame.write_parquet(folder / "plays.parquet")
    whole = Interactions.from_frame(frame, count="n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK_BYTES", block)
        patch.setattr(module, "_CHUNK_ROWS", 3)
        parquet = load_interactions(folder / "plays.parquet", count="n")
        text = load_interactions(folder / "plays.csv", count="n", users=whole.users)
    assert parquet.users == text.users == whole.users
    assert parquet.items == text.items == whole.items
    assert pairs(parquet) == pairs(text) == pairs(whole)


@pytest.mark.parametrize("options", [{}, {"count": "qty"}, {"user": "customer_id"}])
def test_named_columns_are_never_guessed(tmp_path, options):
    """An order is no user, though it comes first; Parquet and CSV say so in the same words."""
    frame = pl.DataFrame({"order_id": [1, 2], "customer_id": [7, 7], "qty": [1, 3]})
    frame.write_parquet(tmp_path / "x.parquet")
    frame.write_csv(tmp_path / "x.csv")
    lacking = "item" if "user" in options else "user"
    message = (
        rf"has no column '{lacking}'; it has \['order_id', 'customer_id', 'qty'\]; "
        "name the columns, such as user='order_id', item='customer_id'"
    )
    with pytest.raises(ValueError, match=r"x.parquet " + message):
        load_interactions(tmp_path / "x.parquet", **options)
    with pytest.raises(ValueError, match=r"x.csv " + message):
        load_interactions(tmp_path / "x.csv", header=True, **options)
    named = {"user": "customer_id", "item": "order_id"}
    assert pairs(load_interactions(tmp_path / "x.parquet", **named)) == {(7, 1): 1, (7, 2): 1}
    places = {"user": 1, "item": 0}
    assert pairs(load_interactions(tmp_path / "x.parquet", **places)) == {(7, 1): 1, (7, 2): 1}


def test_a_column_that_is_called_user_is_found_beside_one_that_is_named(write):
    path = write("song,user\nhelp,ann\n", "x.csv")
    assert pairs(load_interactions(path, item="song")) == {("ann", "help"): 1}


def test_given_ids_decide_how_text_is_read(write):
    path = write("1\ta\n007\ta\n7\ta\nx\ta\n")
    data = load_interactions(path, users=Ids([7, 1]), unseen="drop")
    assert pairs(data) == {(7, "a"): 1, (1, "a"): 1}  # 007 is not 7
    data = load_interactions(path, users=Ids(["007", "1"]), unseen="drop")
    assert pairs(data) == {("007", "a"): 1, ("1", "a"): 1}
    with pytest.raises(ValueError, match=r"2 of 4 rows have a user .* first is '007'"):
        load_interactions(path, users=Ids([7, 1]))


def test_times(write):
    path = write("a,1,30\na,2,10\na,1,20\n", "x.csv")
    assert load_interactions(path, time=2).timestamps.tolist() == [20, 10]
    path = write("a,1,0.5\nb,1,2\n", "x.csv")
    assert load_interactions(path, time=2).timestamps.tolist() == [0.5, 2.0]
    path = write("a,1,1970-01-01T00:00:01Z\nb,1,1970-01-01T00:00:02Z\n", "x.csv")
    assert load_interactions(path, time=2).timestamps.tolist() == [1_000_000, 2_000_000]
    path = write("a,1,1970-01-01 00:00:01\nb,1,1970-01-01 00:00:02\n", "x.csv")
    assert load_interactions(path, time=2).timestamps.tolist() == [1_000_000, 2_000_000]
    path = write("a,1,2024-05-17T08:30:00+02:00\nb,1,2024-05-17T08:30:00Z\n", "x.csv")
    first, second = load_interactions(path, time=2).timestamps.tolist()
    assert second - first == 2 * 3600 * 10**6
    with pytest.raises(ValueError, match="dates such as"):
        load_interactions(write("a,1,soon\n", "x.csv"), time=2)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["7", "", "2024-05-17"], "it has numbers, and line 3 has a date"),
        (["2024-05-17", "", "7"], "it has dates, and line 3 has a number"),
    ],
)
def test_numbers_and_dates_in_one_column(write, monkeypatch, times, message):
    """In two blocks, that is; each of them alone is sound."""
    monkeypatch.setattr(module, "_CHUNK_BYTES", 16)
    path = write("".join(f"ann,tea{k},{time}\n" for k, time in enumerate(times)), "x.csv")
    with pytest.raises(ValueError, match=rf"time must hold numbers or dates, not both; {message}"):
        load_interactions(path, time=2, on_missing="drop")


@pytest.mark.parametrize("block", [10, 1 << 20])
@pytest.mark.parametrize("blank", ["", "\n\n"])
def test_missing_fields_name_their_line(write, monkeypatch, block, blank):
    monkeypatch.setattr(module, "_CHUNK_BYTES", block)
    path = write(f"user,item\na,1\n{blank}b,\nc,2\nd,\n,3\n", "x.csv")
    line = 3 + len(blank)
    message = (
        rf"x.csv: 1 of 5 rows have no user \(the first is line {line + 3}\), "
        rf"2 of 5 rows have no item \(the first is line {line}\)"
    )
    with pytest.raises(ValueError, match=message):
        load_interactions(path)
    assert set(pairs(load_interactions(path, on_missing="drop"))) == {("a", 1), ("c", 2)}


@pytest.mark.parametrize(
    ("text", "name", "options", "message"),
    [
        ("", "x.csv", {}, "x.csv is empty"),
        ("\n1,2\n", "x.csv", {}, "begins with an empty line"),
        ("userId,movieId\n1,2\n", "x.csv", {}, r"looks like a header, \['userId', 'movieId'\]"),
        ("user_id\tsong\nu1\ts1\n", "x.tsv", {}, "looks like a header.*user='user_id'"),
        ("a,b\n", "x.csv", {"user": "who"}, r"user='who' is not a column of .*it has \['a', 'b'\]"),
        ("a,b\n", "x.csv", {"count": 2}, "count=2 is not a column of .*it has 2 columns"),
        ("a,b\n", "x.csv", {"count": -1}, "count=-1 is not a column"),
        ("a,b\n", "x.csv", {"user": "a", "header": False}, "only with header=True"),
        ("a,b\n", "x.csv", {"user": 1}, "user and item must be two columns"),
        ("a\n", "x.txt", {}, "cannot see what separates the columns of 'a'"),
        ("a,b\n", "x.csv", {"sep": "::"}, "sep must be one character; got '::'"),
        ("a,b\nc,d\ne,f,g\n", "x.csv", {}, "x.csv: line 3 has 3 fields; the first line has 2"),
        ("a,b,many\n", "x.csv", {"count": 2}, "x.csv: count must hold numbers; got 'many'"),
        ("a,b,1\na,c,0\n", "x.csv", {"count": 2}, "x.csv: count must be .* line 2 has 0"),
        ("h,i,n\na,c,-1\n", "x.csv", {"user": "h", "item": "i", "count": "n"}, "line 2 has -1"),
        (b"a,b\nc,\xff\n", "x.csv", {}, "line 2 is not text in UTF-8"),
        (b"\xff\n", "x.csv", {}, "not a text file in UTF-8"),
        (b"PAR0", "x.parquet", {}, "x.parquet is not a Parquet file"),
    ],
)
def test_what_cannot_be_read_is_named(write, text, name, options, message):
    with pytest.raises(ValueError, match=message):
        load_interactions(write(text, name), **options)


def test_more_that_cannot_be_read(write, tmp_path):
    with pytest.raises(FileNotFoundError):
        load_interactions(tmp_path / "none.csv")
    with pytest.raises(FileNotFoundError):
        load_interactions(tmp_path / "none.parquet")
    with pytest.raises(TypeError, match="user must be the name or the position of a column"):
        load_interactions(write("a,b\n", "x.csv"), user=1.5)
    cut = tmp_path / "cut.tsv.gz"
    cut.write_bytes(gzip.compress("".join(f"{i}\t{i}\n" for i in range(9999)).encode())[:-9])
    with pytest.raises(ValueError, match=r"cut.tsv.gz: the gzip file is truncated"):
        load_interactions(cut)
    other = tmp_path / "other.tsv.bz2"
    other.write_bytes(bz2.compress(b"1\t2\n"))
    with pytest.raises(ValueError, match=r"other.tsv.bz2: the file is packed by bzip2; plain text"):
        load_interactions(other)


def test_quotes(write, monkeypatch):
    path = write('"Smith, J",1\n"O""Neil",2\n', "x.csv")
    assert list(load_interactions(path).users) == ["Smith, J", 'O"Neil']
    path = write('6" nails\t1\n"x"\t2\n', "x.tsv")  # in a TSV a quote is a character
    assert list(load_interactions(path).users) == ['6" nails', '"x"']
    monkeypatch.setattr(module, "_CHUNK_BYTES", 8)
    with pytest.raises(ValueError, match="line break within quotes"):
        load_interactions(write('a,1\n"one\ntwo three",1\n', "x.csv"))


def test_a_header_alone_is_an_empty_table(write):
    assert load_interactions(write("user,item\n", "x.csv")).shape == (0, 0)


def test_from_file_is_the_same(write):
    path = write("a,1\n", "x.csv")
    assert pairs(Interactions.from_file(path, sep=",")) == {("a", 1): 1}


IDS = [Ids(["x", "y", "z"]), Ids([7, -1, 3]), Ids.range(3)]


@pytest.mark.parametrize("users", IDS)
@pytest.mark.parametrize("counts", [None, [2.5, 1.0]])
@pytest.mark.parametrize("times", [None, [3, 4], [0.5, 1.5]])
def test_saved_tables_come_back_as_they_were(tmp_path, users, counts, times):
    """Users and items without interactions and the order of ids included."""
    data = Interactions(users, Ids(["b", "a", "c"]), [0, 0, 2, 2], [0, 2], counts, times)
    data.save(tmp_path / "saved.parquet")
    again = Interactions.load(tmp_path / "saved.parquet")
    assert again.users == data.users
    assert again.items == data.items
    for name in ("indptr", "indices", "counts", "timestamps"):
        old, new = getattr(data, name), getattr(again, name)
        assert (old is None) == (new is None)
        if old is not None:
            assert new.dtype == old.dtype
            assert new.tolist() == old.tolist()


def test_saved_tables_are_plain_tables_too(tmp_path):
    data = Interactions.from_arrays(["a", "b"], [5, 4], [3, 1])
    path = tmp_path / "saved.parquet"
    data.save(path)
    assert pairs(load_interactions(path, count="count")) == pairs(data)
    empty = Interactions.from_arrays([], [])
    empty.save(path)
    assert Interactions.load(path).shape == (0, 0)
    assert [p.name for p in tmp_path.iterdir()] == ["saved.parquet"]


@pytest.mark.parametrize("rows", [1, 1 << 20])
def test_parts_of_a_split_are_read_again(tmp_path, monkeypatch, rows):
    """Users and items without an interaction in a part keep their ids and codes."""
    monkeypatch.setattr(module, "_CHUNK_ROWS", rows)
    data = Interactions.from_arrays(["a", "b", "b", "c"], [5, 9, 4, 9], [3, 1, 2, 4])
    late = np.array([False, True, False, True])
    for part in (data.take(~late), data.take(late), data.take(late & False)):
        part.save(tmp_path / "part.parquet")
        count = None if part.counts is None else "count"
        again = load_interactions(tmp_path / "part.parquet", count=count)
        assert (again.users, again.items) == (data.users, data.items)
        assert (again.matrix != part.matrix).nnz == 0


def test_parts_of_a_split_are_read_into_other_ids(tmp_path):
    part = Interactions.from_arrays(["a", "b"], [5, 9]).take(np.array([True, False]))
    part.save(tmp_path / "part.parquet")
    ids = {"users": Ids(["z", "a"]), "items": Ids([5])}
    assert pairs(load_interactions(tmp_path / "part.parquet", **ids)) == {("a", 5): 1}
    turned = load_interactions(tmp_path / "part.parquet", user="item", item="user")
    assert (turned.users, turned.items) == (part.items, part.users)


def test_a_missing_id_in_a_saved_table_is_still_missing(tmp_path):
    columns = {"user": ["a", None], "item": [1, 1], "user_code": [0, 1], "item_code": [0, 0]}
    types = {"user_code": pl.Int32, "item_code": pl.Int32}
    pl.DataFrame(columns, schema_overrides=types).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="1 of 2 rows have no user"):
        load_interactions(tmp_path / "x.parquet")


@pytest.mark.parametrize("codes", [[4, 7], [0, 0], ["U4", "U7"]])
def test_codes_of_others_are_a_column_like_any_other(tmp_path, codes):
    frame = pl.DataFrame(
        {"user": ["b", "a"], "item": [3, 2], "user_code": codes, "item_code": codes}
    )
    if frame["user_code"].dtype == pl.Int64:
        frame = frame.cast({"user_code": pl.Int32, "item_code": pl.Int32})
    frame.write_parquet(tmp_path / "x.parquet")
    data = load_interactions(tmp_path / "x.parquet")
    assert (list(data.users), list(data.items)) == (["b", "a"], [3, 2])


def test_saved_dates_are_dates_again(tmp_path):
    dates = np.array(["2024-05-17T08:30", "1969-12-31T23:00"], "datetime64[us]")
    data = Interactions.from_arrays(["a", "b"], [5, 4], times=dates)
    data.save(tmp_path / "x.parquet")
    assert pl.read_parquet(tmp_path / "x.parquet")["time"].dtype == pl.Datetime("us", "UTC")
    read = Interactions.load, lambda path: load_interactions(path, time="time")
    for again in (load(tmp_path / "x.parquet") for load in read):
        assert again.has_dates
        assert again.timestamps.tolist() == data.timestamps.tolist()


def test_what_cannot_be_saved_or_loaded(tmp_path):
    path = tmp_path / "x.parquet"
    with pytest.raises(TypeError, match="of type tuple"):
        Interactions.from_arrays([(1, 2)], [1]).save(path)
    assert not path.exists()
    pl.DataFrame({"user": [1], "item": [2]}).write_parquet(path)
    with pytest.raises(ValueError, match=r"no column 'item_code', so Interactions.save did not"):
        Interactions.load(path)
    frame = pl.DataFrame({"user": [1], "item": [2], "user_code": [0], "item_code": [3]})
    frame.write_parquet(path)
    with pytest.raises(ValueError, match="user_code and item_code must number the ids from 0 on"):
        Interactions.load(path)


@pytest.mark.data
def test_real_files(real_data):
    folder = real_data / "implicit"
    gowalla = load_interactions(folder / "gowalla" / "train.tsv.gz")
    assert (gowalla.n_users, len(gowalla), gowalla.counts) == (29_858, 719_081, None)
    ids = {"users": Ids.range(29_858), "items": Ids.range(40_981)}
    test = load_interactions(folder / "gowalla" / "test.tsv.gz", **ids)
    assert test.shape == (29_858, 40_981)
    assert len(test) == 217_242
    lastfm = load_interactions(folder / "lastfm" / "interactions.tsv.gz", count=2)
    assert (lastfm.shape, len(lastfm)) == ((1_892, 17_632), 92_834)
    assert lastfm.matrix[lastfm.user_index(2), lastfm.item_index(51)] == 13_883
    songs = load_interactions(folder / "msd-subset" / "interactions.tsv.gz", count=2)
    assert len(songs) == 42_739
    assert songs.items[0] == "SOAKIMP12A8C130995"


# Damage


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ("ann\ttea\rbob\trum\r", "x.tsv", 1),
        ("ann,tea\rbob,rum\r", "x.csv", 1),
        ("ann,tea\r\nbob,rum\nkim,ale\rlea,gin\n", "x.csv", 3),
        ("ann\ttea\nbob\tru\rm\n", "x.tsv.gz", 2),
    ],
)
def test_carriage_returns_alone_are_no_line_ends(write, text, name, line):
    path = write(text, name)
    with pytest.raises(ValueError, match=rf"x\..*: line {line} has a carriage return without"):
        load_interactions(path)


def test_carriage_returns_far_down_are_found_too(write, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK_BYTES", 1 << 12)
    path = write("ann\ttea\n" * 20_000 + "bob\trum\rkim\tale\n")
    with pytest.raises(ValueError, match=r"plays.tsv: line 20001 has a carriage return"):
        load_interactions(path)


def test_a_field_that_is_too_long_for_a_column_is_named(write):
    with pytest.raises(ValueError, match=r"x.csv: .*cannot be read as columns: field larger"):
        load_interactions(write("a" * 200_000 + ",tea\n", "x.csv"))


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "x.parquet"
    Interactions.from_arrays([f"u{n}" for n in range(99)], [n % 7 for n in range(99)]).save(path)
    return path.read_bytes()


def test_damaged_parquet_names_the_file(parquet, tmp_path):
    """Whatever polars makes of the damage: errors of several kinds, and panics."""
    rng, path, found = np.random.default_rng(0), tmp_path / "x.parquet", 0
    for _ in range(150):
        content = np.frombuffer(parquet, np.uint8).copy()
        content[rng.integers(len(content), size=3)] = rng.integers(256, size=3)
        path.write_bytes(content.tobytes()[: None if rng.random() < 0.9 else -40])
        for read in (load_interactions, Interactions.load):
            try:
                read(path)
            except ValueError as error:
                assert str(path) in str(error)  # noqa: PT017
                found += 1
    assert found > 150


@pytest.mark.parametrize("error", [pl.exceptions.PanicException, pl.exceptions.ComputeError])
@pytest.mark.parametrize("read", [load_interactions, Interactions.load])
def test_what_polars_raises_on_the_way_names_the_file(write, parquet, monkeypatch, read, error):
    def fail(*_, **__):
        raise error("index out of bounds")

    path = write(parquet, "x.parquet")
    monkeypatch.setattr(pl.LazyFrame, "collect", fail)
    with pytest.raises(ValueError, match=r"x.parquet is damaged: index out of bounds"):
        read(path)


@pytest.mark.parametrize("codes", [[0, 10], [0, 1], [0, -1], [0, 10**12], ["0", "1"]])
def test_codes_that_number_nobody(tmp_path, codes):
    frame = pl.DataFrame({"user": ["a", None], "item": [1, 1], "item_code": [0, 0]})
    frame = frame.with_columns(pl.Series("user_code", codes))
    if isinstance(codes[1], int) and codes[1] < 2**31:
        frame = frame.cast({"user_code": pl.Int32})
    frame.cast({"item_code": pl.Int32}).write_parquet(tmp_path / "x.parquet")
    message = r"x.parquet: user_code and item_code must number the ids from 0 on"
    with pytest.raises(ValueError, match=message):
        Interactions.load(tmp_path / "x.parquet")

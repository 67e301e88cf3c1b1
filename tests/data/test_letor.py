from __future__ import annotations

import bz2
import gzip
import io
import locale
import lzma
import os
import pickle
import re
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from robirank import _core
from robirank.data.letor import (
    LetorFormatError,
    LetorOptions,
    load_letor,
    read_letor,
)
from robirank.data.letor_writer import save_letor
from robirank.data.ranking import RankingData

LETOR4 = (
    b"2 qid:10 1:0.007477 2:0.000000 3:1.000000 #docid = GX008-86-4444840 inc = 1 prob = 0.086622\n"
    b"0 qid:10 1:0.603738 2:0.5 3:0.25 #docid = GX037-06-11625428 inc = 0.003 prob = 0.08\n"
    b"1 qid:18 1:1 2:-3.5e-2 3:+.5 #docid = GX1 inc = 1\n"
)


def load(text: bytes, **options):
    return load_letor(io.BytesIO(text), **options)


def dense(data: RankingData) -> np.ndarray:
    return data.X.toarray() if sp.issparse(data.X) else data.X


def assert_same(a: RankingData, b: RankingData) -> None:
    assert a.X.dtype == b.X.dtype
    np.testing.assert_array_equal(dense(a), dense(b))
    np.testing.assert_array_equal(a.y, b.y)
    np.testing.assert_array_equal(a.qid, b.qid)
    assert a.qid.dtype.kind == b.qid.dtype.kind
    assert (a.doc_ids is None) == (b.doc_ids is None)
    if a.doc_ids is not None:
        np.testing.assert_array_equal(a.doc_ids, b.doc_ids)
    assert a.n_skipped == b.n_skipped


# What a good file gives


def test_a_letor_file_by_hand():
    data = load(LETOR4)
    expected = np.array(
        [[0.007477, 0, 1], [0.603738, 0.5, 0.25], [1, -0.035, 0.5]], dtype=np.float32
    )
    np.testing.assert_array_equal(data.X, expected)
    assert data.X.dtype == np.float32
    assert data.X.flags.c_contiguous
    assert data.X.flags.owndata
    assert data.y.tolist() == [2, 0, 1]
    assert data.y.dtype == np.float32
    assert data.qid.tolist() == [10, 10, 18]
    assert data.qid.dtype == np.int64
    assert data.doc_ids.tolist() == ["GX008-86-4444840", "GX037-06-11625428", "GX1"]
    assert data.doc_ids.dtype.kind == "U"
    assert data.n_skipped == 0


def test_absent_features_are_zero_and_the_largest_index_is_the_width():
    data = load(b"1 qid:1 2:5\n0 qid:1 7:1\n0 qid:2\n")
    assert data.X.tolist() == [[0, 5, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1], [0] * 7]


def test_an_explicit_zero_counts_for_the_width():
    assert load(b"1 qid:1 1:5 4:0\n").n_features == 4
    assert load(b"1 qid:1 1:5 4:0\n", sparse=True).X.shape == (1, 4)


def test_sparse_holds_no_zeros_and_32_bit_indices():
    data = load(b"1 qid:1 1:0 2:5 9:0.0\n0 qid:1\n2 qid:1 1:1 9:-0\n", sparse=True)
    assert sp.issparse(data.X)
    assert data.X.format == "csr"
    assert data.X.nnz == 2
    assert data.X.dtype == np.float32
    assert data.X.indices.dtype == np.int32
    assert data.X.has_canonical_format
    assert data.X.toarray().tolist() == [[0, 5, *[0] * 7], [0] * 9, [1, *[0] * 8]]


def test_n_features_fixes_the_width():
    assert load(LETOR4, n_features=5).X.shape == (3, 5)
    assert load(LETOR4, n_features=5, sparse=True).X.shape == (3, 5)
    np.testing.assert_array_equal(load(LETOR4, n_features=5).X[:, :3], load(LETOR4).X)


def test_zero_based():
    assert load(b"1 qid:1 0:5 2:1\n", zero_based=True).X.tolist() == [[5, 0, 1]]
    with pytest.raises(LetorFormatError, match="'2:1' is beyond n_features=2"):
        load(b"1 qid:1 0:5 2:1\n", zero_based=True, n_features=2)
    with pytest.raises(LetorFormatError, match="'1:1' comes after feature 2"):
        load(b"1 qid:1 2:5 1:1\n", zero_based=True)


def test_float64_keeps_all_digits():
    data = load(b"1 qid:1 1:0.1234567890123456 2:1e300\n", dtype=np.float64)
    assert data.X.tolist() == [[0.1234567890123456, 1e300]]


def test_labels_may_be_any_finite_number():
    assert load(b"-1 qid:1 1:1\n0.5 qid:1 1:1\n+3e0 qid:1 1:1\n").y.tolist() == [-1, 0.5, 3]


def test_normalize_is_what_ranking_data_does():
    np.testing.assert_array_equal(load(LETOR4, normalize=True).X, load(LETOR4).normalize().X)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([b"1", b"-5", b"0"], np.array([1, -5, 0])),
        ([b"7", b"q7"], np.array(["7", "q7"])),
        ([b"7", b"007"], np.array(["7", "007"])),
        ([b"12", b"-0"], np.array(["12", "-0"])),
        ([b"12", b"+3"], np.array(["12", "+3"])),
        ([b"999999999999999999"], np.array([999999999999999999])),
        ([b"9223372036854775808", b"1"], np.array(["9223372036854775808", "1"])),
        ([b"9223372036854775807", b"-9223372036854775808"], np.array([2**63 - 1, -(2**63)])),
        (["größe".encode(), b"a:b"], np.array(["größe", "a:b"])),
        ([b"\xff"], np.array(["\udcff"])),
    ],
)
def test_qids_are_integers_or_exact_text(written, expected):
    text = b"".join(b"1 qid:%b 1:1\n" % qid for qid in written)
    for threads in (1, 3):
        options = LetorOptions(num_threads=threads)
        data = read_letor(io.BytesIO(text), options, chunk_bytes=16, piece_bytes=1)
        np.testing.assert_array_equal(data.qid, expected)
        assert data.qid.dtype.kind == expected.dtype.kind


@pytest.mark.parametrize(
    ("comment", "doc_id"),
    [
        (b"#docid = 244338", "244338"),
        (b"# docid = 244338 ", "244338"),
        (b"#docid=x", "x"),
        (b"#\tdocid\t=\ta#b rest", "a#b"),
        (b"#inc = 1 docid = late", "late"),
        (b"#mydocid = 3 docid = right", "right"),
        (b"#docid docid = again", "again"),
        ("#docid = größe".encode(), "größe"),
        (b"#docid = ", ""),
        (b"#docid 5", ""),
        (b"#mydocid = 3", ""),
        (b"#doc", ""),
        (b"#", ""),
        (b"", ""),
    ],
)
def test_document_ids_come_from_comments(comment, doc_id):
    data = load(b"1 qid:1 1:1 #docid = first\n0 qid:1 1:2" + comment + b"\n")
    assert data.doc_ids.tolist() == ["first", doc_id]
    alone = load(b"0 qid:1 1:2 " + comment + b"\n")
    assert (alone.doc_ids is None) == (doc_id == "")


def test_one_very_long_document_id_does_not_widen_all():
    lines = [b"0 qid:1 1:1 #docid = %d\n" % i for i in range(2000)]
    lines[7] = b"0 qid:1 1:1 #docid = " + b"x" * 5000 + b"\n"
    data = load(b"".join(lines))
    assert data.doc_ids.dtype == object
    assert data.doc_ids[6:9].tolist() == ["6", "x" * 5000, "8"]


CLOTHES = {
    "crlf": LETOR4.replace(b"\n", b"\r\n"),
    "tabs": LETOR4.replace(b" ", b"\t"),
    "several blanks": LETOR4.replace(b" ", b"   "),
    "no final line end": LETOR4.rstrip(b"\n"),
    "crlf, no final line end": LETOR4.replace(b"\n", b"\r\n").rstrip(b"\n"),
    "byte order mark": b"\xef\xbb\xbf" + LETOR4,
    "blank lines and comments": b"\n\n# a comment\n   # another\n"
    + LETOR4.replace(b"\n", b" \n\n\t\r\n"),
    "comment without a blank before it": LETOR4.replace(b" #", b"#"),
    "gzip": gzip.compress(LETOR4),
    "gzip with a byte order mark": gzip.compress(b"\xef\xbb\xbf" + LETOR4),
    "gzip of two members": gzip.compress(LETOR4[:50]) + gzip.compress(LETOR4[50:]),
    "gzip with an empty member and padding": gzip.compress(LETOR4[:50])
    + gzip.compress(b"")
    + gzip.compress(LETOR4[50:])
    + b"\0" * 9,
}


@pytest.mark.parametrize("clothes", CLOTHES)
@pytest.mark.parametrize("chunk_bytes", [1, 7, 64, 1 << 20])
def test_the_same_file_in_other_clothes(clothes, chunk_bytes):
    file = io.BytesIO(CLOTHES[clothes])
    data = read_letor(file, LetorOptions(on_error="skip"), chunk_bytes=chunk_bytes)
    assert_same(data, load(LETOR4))


@pytest.mark.parametrize("sparse", [False, True])
def test_no_cut_changes_the_result(sparse):
    text = b"# start\n" + LETOR4 + b"\n0 qid:19\n3 qid:20 1:1e-3 9:4 # docid = last"
    options = LetorOptions(sparse=sparse, num_threads=2)
    whole = load(text, sparse=sparse)
    for size in range(1, len(text) + 2):
        assert_same(read_letor(io.BytesIO(text), options, chunk_bytes=size, piece_bytes=40), whole)
        assert_same(read_letor(io.BytesIO(text), options, piece_bytes=size), whole)


def test_chunks_that_are_read_ahead():
    """The next chunk is read by another thread, once the first one is large."""
    line = b"1 qid:7 1:0.5 2:" + b"0" * 1000 + b".25\n"
    rows = 4000
    for text in (line * rows, gzip.compress(line * rows, 1)):
        file = io.BytesIO(text)
        data = read_letor(file, LetorOptions(), chunk_bytes=3 << 19)
        assert data.X.tolist() == [[0.5, 0.25]] * rows
    with pytest.raises(LetorFormatError, match="truncated after 3,"):
        load(gzip.compress(line * rows, 1)[:-20])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_number_of_threads_does_not_change_the_result(sparse, dtype):
    rng = np.random.default_rng(0)
    lines = []
    for row in range(3000):
        columns = np.flatnonzero(rng.random(40) < rng.random()) + 1
        features = " ".join(f"{c}:{rng.normal():.{rng.integers(0, 9)}f}" for c in columns)
        lines.append(f"{rng.integers(3)} qid:{row // 20} {features} #docid = D{row}\n")
    text = "".join(lines).encode()
    results = [
        read_letor(
            io.BytesIO(text),
            LetorOptions(sparse=sparse, dtype=dtype, num_threads=num_threads),
            chunk_bytes=1 << 16,
            piece_bytes=1 << 11,
        )
        for num_threads in (1, 2, 4)
    ]
    for other in results[1:]:
        assert_same(results[0], other)
    X, y, qid = load_svmlight_file(io.BytesIO(text), query_id=True, dtype=dtype, n_features=40)
    np.testing.assert_array_equal(dense(results[0]), X.toarray())
    np.testing.assert_array_equal(results[0].y, y)
    np.testing.assert_array_equal(results[0].qid, qid)


# Numbers


@st.composite
def decimals(draw) -> str:
    whole = draw(st.text("0123456789", max_size=draw(st.sampled_from([1, 3, 20, 60]))))
    fraction = draw(st.text("0123456789", max_size=draw(st.sampled_from([0, 6, 9, 20, 60]))))
    assume(whole or fraction)
    point = "." if fraction or draw(st.booleans()) else ""
    exponent = draw(st.none() | st.integers(-60, 60) | st.integers(-400, 400))
    power = "" if exponent is None else draw(st.sampled_from(["e", "E"])) + str(exponent)
    if exponent is not None and exponent >= 0 and draw(st.booleans()):
        power = power[0] + "+" + power[1:]
    return draw(st.sampled_from(["", "-", "+"])) + whole + point + fraction + power


finite_texts = (
    decimals()
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr)
)


@settings(max_examples=400, deadline=None)
@given(st.lists(finite_texts, min_size=1, max_size=50))
@example(["9007199254740993", "9007199254740992", "9007199254740991", "18446744073709551616"])
@example(["1e22", "1e23", "123456789012345678e-22", "0.1e-22", "4.9406564584124654e-324"])
@example(["00000000000000000000000000001", "0.00000000000000000000000000001", "1e-99999999999"])
@example(["1.00000005960464477539062500000001", "1.000000059604644775390625", "12345678."])
@example([".12345678", ".123456789", "0.1234567", "1.12345678e1"])
def test_numbers_are_those_of_python(texts):
    values = np.array([float(text) for text in texts])
    assume(np.isfinite(values).all())
    features = " ".join(f"{index}:{text}" for index, text in enumerate(texts, 1))
    line = f"1 qid:1 {features}\n".encode()
    np.testing.assert_array_equal(load(line, dtype=np.float64).X[0], values)
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    if np.isfinite(single).all():
        np.testing.assert_array_equal(load(line).X[0], single)
    else:
        with pytest.raises(LetorFormatError, match="does not fit into float32; pass dtype="):
            load(line)


@settings(max_examples=500, deadline=None)
@given(st.text("0123456789.eE+-xnaif_", min_size=1, max_size=8))
@example("nan")
@example("inf")
@example("1e999")
@example("0x10")
@example("1_0")
@example(".")
@example("1e")
@example("--1")
def test_what_is_no_number_makes_a_bad_line(text):
    number = re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text)
    line = f"1 qid:1 1:{text}\n".encode()
    if number and np.isfinite(float(text)):
        assert load(line, dtype=np.float64).X.tolist() == [[float(text)]]
    else:
        with pytest.raises(LetorFormatError, match="is not a finite number"):
            load(line, dtype=np.float64)


def test_a_decimal_comma_in_the_locale_changes_nothing():
    before = locale.setlocale(locale.LC_NUMERIC)
    for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8"):
        try:
            locale.setlocale(locale.LC_NUMERIC, name)
            break
        except locale.Error:
            continue
    else:
        pytest.skip("no locale with a decimal comma on this machine")
    try:
        line = b"1 qid:1 1:0.12345678901234567890 2:1.5e-310\n"
        assert load(line, dtype=np.float64).X.tolist() == [[0.12345678901234567890, 1.5e-310]]
    finally:
        locale.setlocale(locale.LC_NUMERIC, before)


# Bad lines

GOOD = b"1 qid:1 1:0.5 2:1\n"
BAD = {
    "label is text": (b"good qid:1 1:1", "the label 'good' is not a finite number"),
    "label is nan": (b"nan qid:1 1:1", "the label 'nan' is not a finite number"),
    "label with a tail": (b"1x qid:1 1:1", "the label '1x' is not a finite number"),
    "label too large": (b"1e39 qid:1 1:1", "the label '1e39' does not fit into float32"),
    "label missing": (b"qid:1 1:1", "'qid:1' stands where the label should be"),
    "only a label": (b"1", "no query id after the label '1'"),
    "only a label and a comment": (b"1 # qid:3", "no query id after the label '1'"),
    "qid missing": (b"1 1:1 2:2", "expected qid:ID after the label, got '1:1'"),
    "qid in capitals": (b"1 QID:1 1:1", "expected qid:ID after the label, got 'QID:1'"),
    "qid empty": (b"1 qid: 1:1", "'qid:' names no query"),
    "qid with a control character": (b"1 qid:a\x01 1:1", r"'qid:a\x01' names no query"),
    "two qids": (b"1 qid:1 qid:2 1:1", "a second query id 'qid:2'"),
    "index is text": (b"1 qid:1 one:1", "the index of 'one:1' is not a whole number from 1"),
    "index is negative": (b"1 qid:1 -1:1", "the index of '-1:1' is not a whole number"),
    "index is a fraction": (b"1 qid:1 1.5:1", "the index of '1.5:1' is not a whole number"),
    "index missing": (b"1 qid:1 :1", "the index of ':1' is not a whole number"),
    "index too large": (b"1 qid:1 2147483647:1", "the index of '2147483647:1' is not a whole"),
    "index far too large": (b"1 qid:1 " + b"9" * 40 + b":1", "9:1' is not a whole number"),
    "index zero": (b"1 qid:1 0:1", "index 0, but LETOR counts features from 1; pass zero_based"),
    "index zero, later": (b"1 qid:1 1:1 0:1", "'0:1' has index 0"),
    "value is text": (b"1 qid:1 1:high", "the value of '1:high' is not a finite number"),
    "value missing": (b"1 qid:1 1: 2:1", "the value of '1:' is not a finite number"),
    "value is nan": (b"1 qid:1 1:nan", "the value of '1:nan' is not a finite number"),
    "value is infinite": (b"1 qid:1 1:-inf", "the value of '1:-inf' is not a finite number"),
    "value overflows": (b"1 qid:1 1:1e400", "the value of '1:1e400' is not a finite number"),
    "value with a comma": (b"1 qid:1 1:0,5", "the value of '1:0,5' is not a finite number"),
    "value with a tail": (b"1 qid:1 1:0.5:3", "the value of '1:0.5:3' is not a finite number"),
    "out of order": (b"1 qid:1 3:1 2:1", "'2:1' comes after feature 3; indices must increase"),
    "twice": (b"1 qid:1 2:1 2:1", "'2:1' gives feature 2 a second time"),
    "no colon": (b"1 qid:1 1:1 0.5", "'0.5' has no colon; write index:value, such as 3:0.5"),
    "beyond n_features": (b"1 qid:1 1:1 4:1", "'4:1' is beyond n_features=3"),
    "not utf-8": (b"\xff\xfe qid:1", r"the label '\\xff\\xfe' is not a finite number"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b" # docid = 5\n"])
def test_a_bad_line_is_named(kind, ending, tmp_path):
    bad, reason = BAD[kind]
    path = tmp_path / "bad.txt"
    path.write_bytes(b"# header\n\n" + GOOD + bad + ending + GOOD + b"worse\n")
    with pytest.raises(LetorFormatError, match=re.escape(reason)) as caught:
        load_letor(path, n_features=3)
    error = caught.value
    assert isinstance(error, ValueError)
    assert (error.path, error.line) == (str(path), 4)
    assert str(error) == f"{path}:4: {error.reason}"

    warning = f"left out 2 of 6 lines as bad; the first is line 4: {error.reason}"
    with pytest.warns(UserWarning, match=re.escape(warning)):
        data = load_letor(path, n_features=3, on_error="skip")
    assert data.n_skipped == 2
    assert data.X.tolist() == [[0.5, 1, 0], [0.5, 1, 0]]


def test_a_skipped_line_leaves_nothing_behind():
    text = b"1 qid:1 1:5 #docid = a\n1 qid:text 1:1 2:2 9:9 8:8 #docid = b\n0 qid:2 2:6\n"
    for sparse in (False, True):
        with pytest.warns(UserWarning, match="left out 1 of 3"):
            data = load(text, on_error="skip", sparse=sparse)
        assert dense(data).tolist() == [[5, 0], [0, 6]]
        assert data.qid.tolist() == [1, 2]
        assert data.doc_ids.tolist() == ["a", ""]


def test_the_first_bad_line_is_reported_whatever_the_threads():
    good = [b"1 qid:%d 1:0.5 2:0.25\n" % row for row in range(400)]
    for first in (0, 1, 57, 211, 399):
        lines = list(good)
        for row in range(first, 400, 3):
            lines[row] = b"1 qid:1 1:bad%d\n" % row
        for threads in (1, 2, 4):
            with pytest.raises(LetorFormatError) as caught:
                read_letor(
                    io.BytesIO(b"".join(lines)),
                    LetorOptions(num_threads=threads),
                    chunk_bytes=1024,
                    piece_bytes=64,
                )
            assert caught.value.line == first + 1
            assert f"'1:bad{first}'" in caught.value.reason


def test_a_long_token_is_shortened_and_a_long_line_read():
    with pytest.raises(LetorFormatError) as caught:
        load(b"1 qid:1 1:" + "ü".encode() * 10_000 + b"\n")
    assert len(str(caught.value)) < 200
    assert "\\x" not in str(caught.value)
    features = b" ".join(b"%d:%d" % (i, i) for i in range(1, 20_001))
    data = read_letor(io.BytesIO(b"1 qid:1 " + features), LetorOptions(), chunk_bytes=64)
    assert data.X.tolist() == [list(range(1, 20_001))]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (b"", 1, "the file is empty"),
        (gzip.compress(b""), 1, "the file is empty"),
        (b"\n# nothing\n", 2, "the file has only blank lines and comments"),
    ],
)
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_file_without_documents(text, line, reason, on_error):
    with pytest.raises(LetorFormatError, match=reason) as caught:
        load(text, on_error=on_error)
    assert caught.value.line == line


def test_a_file_of_bad_lines_only_raises_even_when_skipping():
    with pytest.raises(LetorFormatError, match="no line could be read; the label 'a'") as caught:
        load(b"\na\nb\n", on_error="skip")
    assert caught.value.line == 2


def test_the_error_can_cross_processes():
    error = pickle.loads(pickle.dumps(LetorFormatError("p", 3, "why")))
    assert (error.path, error.line, error.reason, str(error)) == ("p", 3, "why", "p:3: why")


@pytest.mark.parametrize("rows", [0, 50_000])
def test_one_stray_index_does_not_become_a_huge_dense_array(rows):
    text = b"1 qid:1 1:1\n" * rows + b"1 qid:1 2147483646:1\n"
    with pytest.raises(ValueError, match=r"2,147,483,646 features, .* of text; pass sparse=True"):
        load(text)
    assert load(text, sparse=True).X.shape == (rows + 1, 2_147_483_646)


def test_a_dense_array_that_was_asked_for_must_fit_into_memory():
    with pytest.raises(MemoryError, match="pass sparse=True, or n_features"):
        load(b"1 qid:1 1:1\n" * 50_000, n_features=2_000_000_000)


# Gzip


def noise(n: int) -> bytes:
    return np.random.default_rng(0).bytes(n).hex().encode()


def test_gzip_is_recognised_by_content_not_by_name(tmp_path):
    (tmp_path / "packed.txt").write_bytes(gzip.compress(LETOR4))
    (tmp_path / "plain.gz").write_bytes(LETOR4)
    assert_same(load_letor(tmp_path / "packed.txt"), load(LETOR4))
    assert_same(load_letor(str(tmp_path / "plain.gz")), load(LETOR4))


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_truncated_gzip_file_says_how_far_it_went(on_error):
    rng = np.random.default_rng(0)
    text = b"".join(b"1 qid:%d 1:%.9f\n" % (i, rng.random()) for i in range(5000))
    packed = gzip.compress(text)
    for size in (len(packed) // 2, len(packed) - 8, len(packed) - 1):
        with pytest.raises(LetorFormatError, match="the gzip file is truncated after") as caught:
            load(packed[:size], on_error=on_error)
        found = re.search(r"after ([\d,]+) whole lines", caught.value.reason)
        n_lines = int(found[1].replace(",", ""))
        assert caught.value.line == n_lines + 1
        assert n_lines == 5000 if size > len(packed) // 2 else 1000 < n_lines < 5000
    with pytest.raises(LetorFormatError, match="truncated after 0 whole lines"):
        load(packed[:12])


def test_a_truncated_gzip_file_reports_a_bad_line_before_the_end_first():
    packed = gzip.compress(GOOD * 3 + b"bad\n" + noise(2000) + b"\n")
    with pytest.raises(LetorFormatError, match="the label 'bad'") as caught:
        load(packed[:-100])
    assert caught.value.line == 4


def test_a_corrupted_gzip_file():
    packed = bytearray(gzip.compress(b"#" + noise(3000) + b"\n" + LETOR4))
    packed[len(packed) // 2 : len(packed) // 2 + 9] = b"\xff" * 9
    with pytest.raises(LetorFormatError, match=r"the gzip file is corrupted \(.*\) after"):
        load(bytes(packed))
    checksum = bytearray(gzip.compress(LETOR4))
    checksum[-6] ^= 0xFF
    with pytest.raises(LetorFormatError, match=r"the gzip file is corrupted \(.*\) after"):
        load(bytes(checksum))
    with pytest.raises(LetorFormatError, match="something other than gzip after 3 whole lines"):
        load(gzip.compress(LETOR4) + b"\0\0and more")


def test_gzip_of_any_size_and_any_chunk():
    text = b"".join(b"1 qid:%d 1:%d\n" % (i, i) for i in range(3000))
    whole = load(text)
    packed = gzip.compress(text[:9999]) + gzip.compress(text[9999:])
    for chunk_bytes in (1, 64, 1000, 1 << 15, len(text), len(text) + 1):
        file = io.BytesIO(packed)
        assert_same(read_letor(file, LetorOptions(), chunk_bytes=chunk_bytes), whole)


def zipped(text: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", text)
    return file.getvalue()


OTHER_PACKERS = {
    "bzip2": bz2.compress(LETOR4),
    "xz": lzma.compress(LETOR4),
    "zip": zipped(LETOR4),
    "zstd": bytes.fromhex("28b52ffd240001000099e9d851"),  # of an empty file
}


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("packer", OTHER_PACKERS)
def test_other_packers_are_named(packer, on_error, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(OTHER_PACKERS[packer])
    message = f"{path}:1: the file is packed by {packer}; plain text and gzip (.gz) can be read"
    with pytest.raises(LetorFormatError, match=re.escape(message)):
        load_letor(path, on_error=on_error)


def test_an_empty_bzip2_file_is_packed_and_a_word_that_begins_like_one_is_not():
    with pytest.raises(LetorFormatError, match="packed by bzip2"):
        load(bz2.compress(b""))
    with pytest.raises(LetorFormatError, match="the label 'BZh9'"):
        load(b"BZh9 qid:1 1:1\n")


# Where it comes from


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_letor(tmp_path / "nothing.txt")
    with pytest.raises(IsADirectoryError, match=r"is a folder.*load_dataset"):
        load_letor(tmp_path)


def test_file_objects_are_read_from_where_they_stand_and_left_open(tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(b"skip me\n" + LETOR4)
    with path.open("rb") as file:
        file.readline()
        assert_same(load_letor(file), load(LETOR4))
        assert not file.closed
        file.seek(0)
        with pytest.raises(LetorFormatError, match=re.escape(f"{path}:1: the label 'skip'")):
            load_letor(file)


def test_a_file_that_can_only_read():
    class Trickle:
        def __init__(self, data):
            self.file = io.BytesIO(data)

        def read(self, size):
            return self.file.read(min(size, 3))

    assert_same(load_letor(Trickle(LETOR4)), load(LETOR4))
    assert_same(load_letor(Trickle(gzip.compress(LETOR4))), load(LETOR4))


def test_a_pipe():
    read_end, write_end = os.pipe()

    def write():
        with os.fdopen(write_end, "wb") as file:
            file.write(LETOR4)

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(read_end, "rb", buffering=0) as file:
        assert_same(load_letor(file), load(LETOR4))
    writer.join()


def test_what_is_no_binary_file():
    with pytest.raises(TypeError, match="open it in binary mode"):
        load_letor(io.StringIO(LETOR4.decode()))
    with pytest.raises(TypeError, match="path must be a path or a binary file; got list"):
        load_letor([1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": np.int32}, "dtype must be float32 or float64"),
        ({"on_error": "ignore"}, "on_error must be 'raise' or 'skip'; got 'ignore'"),
        ({"n_features": 0}, "n_features must be a positive integer or None; got 0"),
        ({"n_features": 1.5}, "n_features must be a positive integer or None; got 1.5"),
        ({"num_threads": 10**6}, "num_threads must be at most 1024; got 1000000"),
        ({"num_threads": -1}, r"num_threads must be 0 \(all cores\) or more; got -1"),
        ({"normalize": True, "sparse": True}, "normalize=True gives a dense array"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        load(LETOR4, **options)


# Properties


@st.composite
def ranking_data(draw) -> RankingData:
    n_rows = draw(st.integers(1, 12))
    width = draw(st.integers(1, 6))

    def rows(values):
        return draw(st.lists(values, min_size=n_rows, max_size=n_rows))

    single = st.floats(width=32, allow_nan=False, allow_infinity=False)
    letters = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" #")
    word = st.text(letters, min_size=1, max_size=8)
    doc_ids = rows(word | st.just("")) if draw(st.booleans()) else [""]
    return RankingData(
        np.array(rows(st.lists(single | st.just(0.0), min_size=width, max_size=width)), "f4"),
        np.array(rows(single), "f4"),
        np.array(rows(draw(st.sampled_from([st.integers(-(10**17), 10**17), word])))),
        doc_ids=doc_ids if any(doc_ids) else None,
    )


def all_integers(qid: np.ndarray) -> bool:
    return all(re.fullmatch(r"0|-?[1-9][0-9]*", str(q)) for q in qid)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    """A folder whose files need not survive a power failure, which saves the time of fsync."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("robirank.storage.files.os.fsync", lambda _: None)
        yield tmp_path_factory.mktemp("letor")


@settings(max_examples=300, deadline=None)
@given(data=ranking_data(), name=st.sampled_from(["a.txt", "a.txt.gz"]), sparse=st.booleans())
def test_round_trip(folder, data, name, sparse):
    assume(data.qid.dtype.kind == "i" or not all_integers(data.qid))
    path = folder / name
    save_letor(path, data)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    assert {file.name for file in folder.iterdir()} <= {"a.txt", "a.txt.gz"}
    assert_same(load_letor(path), data)
    np.testing.assert_array_equal(load_letor(path, sparse=True).X.toarray(), data.X)

    save_letor(path, RankingData(sp.csr_matrix(data.X), data.y, data.qid, doc_ids=data.doc_ids))
    assert_same(load_letor(path, n_features=data.n_features), data)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 15).flatmap(
        lambda n: st.tuples(
            st.lists(
                st.lists(st.floats(-1e6, 1e6) | st.just(0.0), min_size=5, max_size=5),
                min_size=n,
                max_size=n,
            ),
            st.lists(st.integers(0, 4), min_size=n, max_size=n),
            st.lists(st.integers(0, 99), min_size=n, max_size=n),
        )
    ),
    st.integers(1, 200),
)
def test_reads_what_scikit_learn_reads(parts, chunk_bytes):
    X, y, qid = (np.array(part) for part in parts)
    file = io.BytesIO()
    dump_svmlight_file(X, y, file, query_id=qid, zero_based=False)
    text = file.getvalue()
    theirs, their_y, their_qid = load_svmlight_file(
        io.BytesIO(text), query_id=True, n_features=5, dtype=np.float32, zero_based=False
    )
    for sparse in (False, True):
        options = LetorOptions(sparse=sparse, n_features=5, num_threads=2)
        ours = read_letor(io.BytesIO(text), options, chunk_bytes=chunk_bytes, piece_bytes=30)
        np.testing.assert_array_equal(dense(ours), theirs.toarray())
        np.testing.assert_array_equal(ours.y, their_y)
        np.testing.assert_array_equal(ours.qid, their_qid)


WORDS = b"1|1 qid:7 1:0.5|2:1e9| |qid:|7|:|0.5|\n|#|docid = x|\r\n|-|e|\0|\xff|\x1f\x8b".split(b"|")


@settings(max_examples=1000, deadline=None)
@given(
    st.binary(max_size=200) | st.lists(st.sampled_from(WORDS), max_size=60).map(b"".join),
    st.integers(1, 50),
    st.sampled_from(["raise", "skip"]),
    st.booleans(),
)
@pytest.mark.filterwarnings("ignore:.*left out:UserWarning")
def test_any_bytes_parse_or_raise(text, chunk_bytes, on_error, sparse):
    options = LetorOptions(on_error=on_error, sparse=sparse, n_features=100, num_threads=2)
    n_lines = text.count(b"\n") + 1
    try:
        data = read_letor(io.BytesIO(text), options, chunk_bytes=chunk_bytes, piece_bytes=8)
    except LetorFormatError as error:
        assert 1 <= error.line <= n_lines  # noqa: PT017
        return
    assert data.n_rows + data.n_skipped <= n_lines
    assert np.isfinite(dense(data)).all()


@settings(max_examples=300, deadline=None)
@given(st.data())
@pytest.mark.filterwarnings("ignore:.*left out:UserWarning")
def test_any_damage_to_a_gzip_file_parses_or_raises(draw):
    packed = bytearray(gzip.compress(LETOR4 * 20))
    for _ in range(draw.draw(st.integers(1, 4))):
        packed[draw.draw(st.integers(2, len(packed) - 1))] = draw.draw(st.integers(0, 255))
    try:
        assert load(bytes(packed), on_error="skip", n_features=3).n_rows <= 60
    except LetorFormatError as error:
        assert error.line >= 1  # noqa: PT017


# Writing


def test_written_lines(tmp_path):
    path = tmp_path / "a.txt"
    X = np.array([[0.1, 0, 1e-9], [1e10, 16777216, -0.25]], dtype=np.float32)
    save_letor(path, RankingData(X, [2, 0.5], ["q", "r"], doc_ids=["", "D-1"]))
    assert path.read_text() == (
        "2 qid:q 1:0.1 2:0 3:1e-09\n0.5 qid:r 1:1e+10 2:16777216 3:-0.25 #docid = D-1\n"
    )
    save_letor(path, RankingData(sp.csr_matrix(X), [2, 1], [1, 1]))
    assert path.read_text() == "2 qid:1 1:0.1 3:1e-09\n1 qid:1 1:1e+10 2:16777216 3:-0.25\n"


def test_writing_more_than_a_chunk_of_rows(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 3))
    data = RankingData(X, rng.integers(0, 3, 10_000), np.arange(10_000) // 7)
    save_letor(tmp_path / "a.txt", data)
    back = load_letor(tmp_path / "a.txt", dtype=np.float64)
    np.testing.assert_array_equal(back.X, X)
    np.testing.assert_array_equal(back.y, data.y)
    np.testing.assert_array_equal(back.qid, data.qid)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (RankingData([[1.0], [np.nan]], [0, 0], [1, 1]), "X has nan in row 1, column 0"),
        (RankingData([[1.0], [2.0]], [0, np.inf], [1, 1]), "y has inf in row 1"),
        (RankingData([[1.0], [2.0]], [0, 0], ["a", "a b"]), "qid has 'a b' in row 1"),
        (RankingData([[1.0], [2.0]], [0, 0], ["a", "a#b"]), "qid has 'a#b' in row 1"),
        (RankingData([[1.0], [2.0]], [0, 0], ["a", ""]), "qid has '' in row 1"),
        (
            RankingData([[1.0], [2.0]], [0, 0], [1, 1], doc_ids=["a", "a\n"]),
            r"doc_ids has 'a\\n' in row 1",
        ),
    ],
)
def test_what_cannot_be_written_leaves_the_old_file(data, message, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("before")
    with pytest.raises(ValueError, match=message):
        save_letor(path, data)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("suffix", [".bz2", ".xz", ".zst", ".zip", ".BZ2"])
def test_names_of_other_packers_are_not_written_to(suffix, tmp_path):
    message = f"path must not end with {suffix}, .* got '.*a.txt{suffix}'. .* ends with .gz"
    with pytest.raises(ValueError, match=message):
        save_letor(tmp_path / f"a.txt{suffix}", load(LETOR4))
    assert not [*tmp_path.iterdir()]


def test_the_same_data_gives_the_same_gzip_bytes(tmp_path):
    for name in ("a.gz", "b.gz"):
        save_letor(tmp_path / name, load(LETOR4))
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


# The native object


def test_the_parser_guards_its_door():
    parser = _core.LetorParser(
        sparse=False, n_features=-1, zero_based=False, skip=False, num_threads=2, piece_bytes=8
    )
    with pytest.raises(ValueError, match="a chunk must end with a line end"):
        parser.feed(b"1 qid:1 1:1")
    assert parser.feed(b"")
    assert parser.feed(bytearray(GOOD))
    assert parser.feed(memoryview(GOOD))
    with pytest.raises(ValueError, match="out must have length 2; got 3"):
        parser.fill_dense(np.zeros((3, 2), dtype=np.float32))
    with pytest.raises(TypeError):
        parser.fill_dense(np.zeros((2, 2), dtype=np.float64))
    X = np.zeros((2, 2), dtype=np.float32)
    parser.fill_dense(X)
    assert X.tolist() == [[0.5, 1], [0.5, 1]]
    with pytest.raises(ValueError, match="taken already"):
        parser.fill_dense(X)
    with pytest.raises(ValueError, match="taken already"):
        parser.feed(GOOD)


# Real data


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "n_rows", "n_queries", "n_features"),
    [
        ("OHSUMED/Fold1/train.txt.gz", 9219, 63, 45),
        ("MQ2008/Fold1/train.txt.gz", 9630, 471, 46),
        ("MSLR-sample/train.txt.gz", 5000, 43, 136),
    ],
)
def test_real_files_read_as_scikit_learn_reads_them(real_data, file, n_rows, n_queries, n_features):
    path = real_data / "letor" / file
    data = load_letor(path)
    assert (data.n_rows, data.n_queries, data.n_features) == (n_rows, n_queries, n_features)
    X, y, qid = load_svmlight_file(str(path), query_id=True, dtype=np.float32)
    np.testing.assert_array_equal(data.X, X.toarray())
    np.testing.assert_array_equal(data.y, y)
    np.testing.assert_array_equal(data.qid, qid)
    np.testing.assert_array_equal(load_letor(path, sparse=True).X.toarray(), data.X)


@pytest.mark.data
def test_real_document_ids(real_data):
    letor = real_data / "letor"
    assert load_letor(letor / "MQ2008/Fold1/train.txt.gz").doc_ids[0] == "GX008-86-4444840"
    assert load_letor(letor / "OHSUMED/Fold1/train.txt.gz").doc_ids[0] == "244338"
    assert load_letor(letor / "MSLR-sample/train.txt.gz").doc_ids is None

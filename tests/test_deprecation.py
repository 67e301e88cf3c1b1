"""Deprecations warn at the user's line, go on working, and cannot be forgotten."""

import warnings

import pytest

from robirank import __version__
from robirank._deprecation import _numbers, deprecated, renamed_argument
from robirank.errors import ArgumentError


@deprecated(since="0.1", gone_in="99.0", use="double()")
def twice(x):
    """Two times x."""
    return 2 * x


@renamed_argument("count", "n", since="0.1", gone_in="99.0")
def first(*, n=1):
    return n


def test_a_deprecated_function_works_and_warns_at_the_line_that_calls_it():
    with pytest.warns(FutureWarning, match=r"twice\(\) .* gone in 99\.0; use double\(\)") as caught:
        assert twice(2) == 4
    assert caught[0].filename == __file__
    assert (twice.__name__, twice.__doc__) == ("twice", "Two times x.")


def test_an_old_argument_is_translated():
    with pytest.warns(FutureWarning, match=r"first\(count=\) .* use n="):
        assert first(count=3) == 3


def test_the_new_argument_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (first(n=3), first()) == (3, 1)


def test_both_names_at_once_are_an_error():
    with pytest.raises(ArgumentError, match=r"n .*count="):
        first(n=1, count=2)


@pytest.mark.parametrize("gone_in", ["0.0", __version__])
def test_what_is_overdue_cannot_be_imported(gone_in):
    with pytest.raises(RuntimeError, match="was to be gone"):
        deprecated(since="0.0", gone_in=gone_in, use="nothing")(lambda: None)


def test_versions_are_compared_as_numbers():
    assert _numbers("0.10.1") > _numbers("0.9.0.dev1")

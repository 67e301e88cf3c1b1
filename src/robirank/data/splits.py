"""Interactions cut in parts: to learn from, and to be judged on.

All parts keep the users and items of the whole, so that codes mean the same in each; every
interaction is in exactly one part.
"""

from __future__ import annotations

import datetime
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank import _core
from robirank._callers import warn
from robirank._random import RandomStateLike, native_seed, new_generator
from robirank._threads import thread_count
from robirank.data.interactions import Interactions, times_in_words

Mask = NDArray[np.bool_]
Moment = float | datetime.date | np.datetime64 | str


def split_ratio(
    data: Interactions, test: float = 0.2, *, random_state: RandomStateLike = 0
) -> tuple[Interactions, Interactions]:
    """Take a share of each user's interactions, at random, for the test.

    A share that is not a whole number of interactions is rounded up or down at random, so that it
    is right on average. Each user with interactions keeps at least one to learn from.

    Parameters
    ----------
    data : Interactions
    test : float
        The share, between 0 and 1.
    random_state : int, Generator, RandomState or None
        Decides everything.

    Returns
    -------
    train, test : Interactions

    Examples
    --------
    >>> data = Interactions.from_arrays([1] * 10 + [2], [*range(10), 3])
    >>> train, test = split_ratio(data, 0.3)
    >>> train.lengths.tolist(), test.lengths.tolist()
    ([7, 1], [3, 0])
    """
    share = _fraction("test", test)
    return _cut(data, random_share(data.indptr, share, new_generator(random_state)))


def random_share(indptr: NDArray[np.int64], share: float, rng: np.random.Generator) -> Mask:
    """Choose a share of each user's records, but not a user's last one.

    Examples
    --------
    >>> random_share(np.array([0, 4, 5]), 0.5, np.random.default_rng(0)).sum()
    np.int64(2)
    """
    lengths = np.diff(indptr)
    wanted = np.minimum(_rounded(lengths * share, rng), np.maximum(lengths - 1, 0))
    return _sample(indptr, wanted, rng)


def split_leave_one_out(
    data: Interactions, *, by_time: bool = False, random_state: RandomStateLike = 0
) -> tuple[Interactions, Interactions]:
    """Take one interaction of each user for the test; a user's only one is left to learn from.

    Parameters
    ----------
    data : Interactions
    by_time : bool
        Whether to take the latest (of several, the one whose item has the highest code) in place
        of a random one.
    random_state : int, Generator, RandomState or None
        Decides which one is taken; without meaning if `by_time`.

    Returns
    -------
    train, test : Interactions

    Examples
    --------
    >>> data = Interactions.from_arrays(["a", "a", "b"], [1, 2, 2], times=[20, 10, 5])
    >>> train, test = split_leave_one_out(data, by_time=True)
    >>> test.items[test.indices].tolist()
    [1]
    """
    enough = data.lengths > 1
    if not by_time:
        rng = new_generator(random_state)
        return _cut(data, _sample(data.indptr, enough.astype(np.int64), rng))
    times = _times(data)
    latest = np.zeros(len(data), dtype=times.dtype)
    starts = data.indptr[:-1][data.lengths > 0]
    if len(starts):
        latest = np.repeat(np.maximum.reduceat(times, starts), data.lengths[data.lengths > 0])
    place = np.flatnonzero(times == latest)
    user = np.searchsorted(data.indptr, place, side="right") - 1
    last = np.append(user[1:] != user[:-1], True)[: len(place)]
    chosen = np.zeros(len(data), dtype=bool)
    chosen[place[last & enough[user]]] = True
    return _cut(data, chosen)


def split_time(
    data: Interactions, at: Moment | None = None, *, fraction: float | None = None
) -> tuple[Interactions, Interactions]:
    """Cut at one moment: what was before is to learn from, the rest is the test.

    Parameters
    ----------
    data : Interactions
        With timestamps.
    at : number, date or str, optional
        The moment; an interaction at this very moment is in the test. A date, or its ISO text,
        is for data whose times were dates, and an error for others; one without a time zone is
        UTC. A number, for data whose times were dates, is in microseconds since 1970.
    fraction : float, optional
        In place of a moment: the share of the interactions, the latest, to take for the test.
        Those at the moment of the cut all go to the test, so it may be somewhat more.

    Returns
    -------
    train, test : Interactions

    Examples
    --------
    >>> data = Interactions.from_arrays([1, 1, 2], [5, 6, 5], times=[100, 300, 200])
    >>> [len(part) for part in split_time(data, at=200)]
    [1, 2]
    >>> [len(part) for part in split_time(data, fraction=0.4)]
    [2, 1]
    """
    times = _times(data)
    if (at is None) == (fraction is None):
        raise ValueError(f"give either at or fraction; got at={at!r}, fraction={fraction!r}")
    if at is not None:
        is_test = times >= _moment(at)
        if isinstance(at, str | datetime.date | np.datetime64) and len(data) and not data.has_dates:
            raise ValueError(
                f"at must be a number, for the times of data are {times_in_words(data)}; got {at!r}"
            )
        if len(times) and (is_test.all() or not is_test.any()):
            warn(
                f"at={at!r} leaves one part empty: the times are {times_in_words(data)}",
                UserWarning,
            )
        return _cut(data, is_test)
    n_test = int(_fraction("fraction", fraction) * len(times))
    if n_test == 0:
        return _cut(data, np.zeros(len(times), dtype=bool))
    first = len(times) - n_test
    return _cut(data, times >= np.partition(times, first)[first])


def split_new_users(
    data: Interactions,
    fraction: float = 0.1,
    *,
    hidden: float = 0.5,
    random_state: RandomStateLike = 0,
) -> tuple[Interactions, Interactions, Interactions]:
    """Hold out whole users, and hide a share of what each of them did.

    A model learns from the other users, is shown the visible part of the new ones and judged on
    the hidden part, as in the Million Song Dataset Challenge [1]_.

    Parameters
    ----------
    data : Interactions
    fraction : float
        The share of users to hold out, chosen from those with two interactions or more.
    hidden : float
        The share of a held-out user's interactions to hide, rounded up or down at random; at
        least one is hidden and at least one visible.
    random_state : int, Generator, RandomState or None
        Decides everything.

    Returns
    -------
    train, visible, hidden : Interactions

    References
    ----------
    .. [1] B. McFee, T. Bertin-Mahieux, D. Ellis and G. Lanckriet, "The Million Song Dataset
       Challenge", WWW 2012 Companion.

    Examples
    --------
    >>> data = Interactions.from_arrays([1, 1, 1, 1, 2, 2], [1, 2, 3, 4, 1, 2])
    >>> train, visible, hidden = split_new_users(data, 0.5)
    >>> [part.lengths.tolist() for part in (train, visible, hidden)]
    [[0, 2], [2, 0], [2, 0]]
    """
    share = _fraction("hidden", hidden)
    rng = new_generator(random_state)
    able = np.flatnonzero(data.lengths > 1)
    n_new = min(round(_fraction("fraction", fraction) * data.n_users), len(able))
    new = np.zeros(data.n_users, dtype=bool)
    new[rng.permutation(able)[:n_new]] = True
    wanted = np.clip(_rounded(data.lengths * share, rng), 1, np.maximum(data.lengths - 1, 1))
    unseen = _sample(data.indptr, np.where(new, wanted, 0), rng)
    held_out = np.repeat(new, data.lengths)
    return data.take(~held_out), data.take(held_out & ~unseen), data.take(unseen)


def _cut(data: Interactions, test: Mask) -> tuple[Interactions, Interactions]:
    return data.take(~test), data.take(test)


def _sample(indptr: NDArray[np.int64], wanted: NDArray[np.int64], rng: np.random.Generator) -> Mask:
    chosen = _core.sample_rows(indptr, wanted, seed=native_seed(rng), n_threads=thread_count())
    return chosen.view(np.bool_)


def _rounded(numbers: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    return np.floor(numbers + rng.random(len(numbers))).astype(np.int64)


def _times(data: Interactions) -> NDArray[Any]:
    if data.timestamps is None:
        raise ValueError("data has no timestamps; give the column with the times when reading it")
    return data.timestamps


def _fraction(name: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1; got {value!r}")
    return float(value)


def _moment(at: Any) -> float | int:
    if isinstance(at, str):
        try:
            at = datetime.datetime.fromisoformat(at)
        except ValueError:
            raise ValueError(f"at must be a number or a date in ISO form; got {at!r}") from None
    if isinstance(at, datetime.date) and not isinstance(at, datetime.datetime):
        at = datetime.datetime(at.year, at.month, at.day)
    if isinstance(at, np.datetime64):
        return int(at.astype("datetime64[us]").astype(np.int64))
    if isinstance(at, datetime.datetime):
        at = at if at.tzinfo else at.replace(tzinfo=datetime.UTC)
        since = at - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return since // datetime.timedelta(microseconds=1)
    if not isinstance(at, Real) or isinstance(at, bool) or at != at:
        raise ValueError(f"at must be a number or a date; got {at!r}")
    return int(at) if float(at).is_integer() else float(at)  # type: ignore[call-overload]

"""Splits of interactions into training and test parts.

All parts keep the users and items of the whole table, so that positions mean the same in each;
every interaction is in exactly one part.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._callers import warn
from robirank._checks import check_fraction
from robirank._random import RandomStateLike, new_generator
from robirank.data._columns import as_times
from robirank.data.interactions import Interactions, times_in_words
from robirank.data.user_items import Mask, random_share, rounded_at_random, sample_items
from robirank.errors import ArgumentError

Moment = float | datetime.date | np.datetime64 | str


def split_ratio(
    data: Interactions, test: float = 0.2, *, random_state: RandomStateLike = 0
) -> tuple[Interactions, Interactions]:
    """Take a random share of each user's interactions for the test part.

    A share that is not a whole number of interactions is rounded up or down at random, so that it
    is right on average. Each user with interactions keeps at least one in the training part.

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
    check_fraction("test", test)
    return _cut(data, random_share(data.indptr, test, new_generator(random_state)))


def split_leave_one_out(
    data: Interactions, *, by_time: bool = False, random_state: RandomStateLike = 0
) -> tuple[Interactions, Interactions]:
    """Take one interaction of each user for the test part; a user's only one stays for training.

    Parameters
    ----------
    data : Interactions
    by_time : bool
        Whether to take the latest (of several, the one whose item has the highest position) in
        place of a random one.
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
        return _cut(data, sample_items(data.indptr, enough.astype(np.int64), rng))
    times = _times(data)
    latest = np.zeros(len(data), dtype=times.dtype)
    starts = data.indptr[:-1][data.lengths > 0]
    if len(starts):
        latest = np.repeat(np.maximum.reduceat(times, starts), data.lengths[data.lengths > 0])
    rows = np.flatnonzero(times == latest)
    user = np.searchsorted(data.indptr, rows, side="right") - 1
    is_last = np.append(user[1:] != user[:-1], True)[: len(rows)]
    chosen = np.zeros(len(data), dtype=bool)
    chosen[rows[is_last & enough[user]]] = True
    return _cut(data, chosen)


def split_time(
    data: Interactions, at: Moment | None = None, *, fraction: float | None = None
) -> tuple[Interactions, Interactions]:
    """Split at a moment: interactions before it are for training, all others for the test.

    Parameters
    ----------
    data : Interactions
        With timestamps.
    at : number, date or str, optional
        The moment; an interaction at exactly this moment is in the test part. A date, or its ISO
        text, is for data whose times were dates, and an error for others; one without a time zone
        is UTC. A number, for data whose times were dates, is in microseconds since 1970.
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
        moment, is_date = _moment(at)
        if is_date and len(data) and not data.has_dates:
            raise ArgumentError(
                "at",
                f"must be a number, for the times of data are {times_in_words(data)}; got {at!r}",
            )
        is_test = times >= moment
        if len(times) and (is_test.all() or not is_test.any()):
            warn(f"at={at!r} leaves one part empty: the times are {times_in_words(data)}")
        return _cut(data, is_test)
    check_fraction("fraction", fraction)
    n_test = int(float(fraction or 0) * len(times))
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
    """Hold out whole users, and hide a share of the interactions of each.

    A model is trained on the other users, gets the visible interactions of the new ones, and is
    evaluated on their hidden interactions, as in the Million Song Dataset Challenge [1]_.

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
    check_fraction("hidden", hidden)
    check_fraction("fraction", fraction)
    rng = new_generator(random_state)
    candidates = np.flatnonzero(data.lengths > 1)
    n_new = min(round(fraction * data.n_users), len(candidates))
    new = np.zeros(data.n_users, dtype=bool)
    new[rng.permutation(candidates)[:n_new]] = True
    n_hidden = np.clip(
        rounded_at_random(data.lengths * hidden, rng), 1, np.maximum(data.lengths - 1, 1)
    )
    unseen = sample_items(data.indptr, np.where(new, n_hidden, 0), rng)
    held_out = np.repeat(new, data.lengths)
    return data.take(~held_out), data.take(held_out & ~unseen), data.take(unseen)


def split_new_items(
    data: Interactions,
    fraction: float = 0.1,
    *,
    test: float = 0.0,
    by_time: bool = False,
    random_state: RandomStateLike = 0,
) -> tuple[Interactions, Interactions]:
    """Hold out whole items: all their interactions are for the test.

    A model with features of items is trained on the others, and ranks the new ones by what is known
    of them.

    Parameters
    ----------
    data : Interactions
    fraction : float
        The share of the items with interactions to hold out.
    test : float
        The share of each user's other interactions that goes to the test too, at random, so that
        old items can be evaluated as well.
    by_time : bool
        Whether to take the items that appeared last (whose first interaction is the latest) in
        place of random ones.
    random_state : int, Generator, RandomState or None
        Decides everything that is random.

    Returns
    -------
    train, test : Interactions

    Examples
    --------
    >>> data = Interactions.from_arrays([1, 1, 2, 2], [5, 6, 6, 7], times=[10, 30, 20, 40])
    >>> train, test = split_new_items(data, 0.34, by_time=True)
    >>> test.items[test.indices].tolist()
    [7]
    """
    check_fraction("fraction", fraction)
    if test:
        check_fraction("test", test)
    rng = new_generator(random_state)
    items = np.unique(data.indices)
    n_new = round(fraction * len(items))
    if by_time:
        first = np.full(data.n_items, np.inf)
        np.minimum.at(first, data.indices, _times(data))
        new_items = items[np.argsort(first[items], kind="stable")][len(items) - n_new :]
    else:
        new_items = rng.permutation(items)[:n_new]
    is_new = np.zeros(data.n_items, dtype=bool)
    is_new[new_items] = True
    is_test = is_new[data.indices]
    if test:
        old = data.take(~is_test)
        is_test[np.flatnonzero(~is_test)[random_share(old.indptr, test, rng)]] = True
    return _cut(data, is_test)


def _cut(data: Interactions, test: Mask) -> tuple[Interactions, Interactions]:
    return data.take(~test), data.take(test)


def _times(data: Interactions) -> NDArray[Any]:
    if data.timestamps is None:
        problem = "has no timestamps; give the column with the times when reading it"
        raise ArgumentError("data", problem)
    return data.timestamps


def _moment(at: Any) -> tuple[float, bool]:
    """A moment as a number (microseconds since 1970 for a date), and whether it is a date."""
    try:
        moment = datetime.datetime.fromisoformat(at) if isinstance(at, str) else at
        times, is_date = as_times(np.asarray([moment]))
    except ValueError:
        raise ArgumentError("at", f"must be a number or a date in ISO form; got {at!r}") from None
    if times[0] is None:
        raise ArgumentError("at", f"must be a number or a date; got {at!r}")
    return times[0], is_date

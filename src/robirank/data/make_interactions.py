"""Made-up interactions: power-law popularity and activity, and tastes to be found."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from robirank import _core
from robirank._checks import check_count, check_fraction, check_not_negative
from robirank._random import RandomStateLike, native_seed, new_generator
from robirank._sparse import offsets
from robirank._threads import thread_count
from robirank._types import Floats32, Floats64, Ints64
from robirank.data.ids import Ids
from robirank.data.interactions import Interactions

Factors = Floats32

TASTES_OF_A_USER = 1.0
TASTES_OF_AN_ITEM = 0.5
"""Sums of the parameters of symmetric Dirichlet distributions: so small, few tastes stand out."""

_CHUNK_ROWS = 65_536


@overload
def make_interactions(
    *args: Any, return_factors: Literal[True], **kwargs: Any
) -> tuple[Interactions, Factors, Factors]: ...
@overload
def make_interactions(
    n_users: int = ...,
    n_items: int = ...,
    n_interactions: int = ...,
    *,
    factors: int = ...,
    popularity: float = ...,
    activity: float = ...,
    noise: float = ...,
    random_state: RandomStateLike = ...,
    return_factors: Literal[False] = ...,
) -> Interactions: ...
def make_interactions(  # type: ignore[misc]
    n_users: int = 1000,
    n_items: int = 500,
    n_interactions: int = 20_000,
    *,
    factors: int = 16,
    popularity: float = 1.0,
    activity: float = 0.6,
    noise: float = 0.2,
    random_state: RandomStateLike = None,
    return_factors: bool = False,
) -> Interactions | tuple[Interactions, Factors, Factors]:
    r"""Make interactions of users whose tastes are known.

    There are a few tastes k. User x has them in the shares π_x, item y serves them in the shares
    θ_y (both Dirichlet, mostly one or two tastes) and has a popularity p_y. Each of a user's items
    comes from one of the tastes, or, with probability `noise`, from popularity alone:

    .. math::
        P(y \mid x) = (1 - \text{noise}) \sum_k \pi_{xk} \varphi_{ky} + \text{noise} \cdot p_y,
        \qquad \varphi_{ky} = \frac{p_y \theta_{yk}}{\sum_{y'} p_{y'} \theta_{y'k}}

    drawn one after the other without repetition. The r-th of the items in the order of popularity
    has :math:`p \propto (r + \bar n)^{-\text{popularity}}`, where n̄ is the mean number of items a
    user has: about one user in ten then has the top item. The r-th most active user has a number
    of items near :math:`(r + n_\text{users} / 1000)^{-\text{activity}}` times a constant. Who is
    popular and active is drawn at random.

    Parameters
    ----------
    n_users, n_items : int
        The shape.
    n_interactions : int
        The exact number of distinct pairs. Each user has at least one, if there are enough; an
        item may have none.
    factors : int, default=16
        The number of tastes.
    popularity, activity : float
        Exponents of the power laws; 0 makes all items equally popular, all users equally active.
    noise : float, default=0.2
        The share of interactions that follow popularity and not taste, from 0 to 1.
    random_state : int, Generator, RandomState or None, default=None
        Decides everything; None makes new data at each call.
    return_factors : bool, default=False
        Whether to return π and φ as well.

    Returns
    -------
    data : Interactions
        Ids are 0, 1, 2, …; counts are all 1.
    user_factors : float32 array of shape (n_users, factors)
        π; only with ``return_factors=True``.
    item_factors : float32 array of shape (n_items, factors)
        φ, transposed: ``user_factors @ item_factors.T`` ranks the items by taste.

    Notes
    -----
    An item is drawn in constant time (the alias method), whatever their number. The shape of the
    Million Song data (1,129,318 × 386,133 with 49,824,519 interactions) takes 9 s and 0.5 GB on two
    cores.

    Examples
    --------
    >>> make_interactions(1000, 500, 20_000, random_state=0)
    Interactions(1,000 users × 500 items, 20,000 interactions, density 4%)
    """
    for name, count in (("n_users", n_users), ("n_items", n_items), ("factors", factors)):
        check_count(name, count)
    check_count("n_interactions", n_interactions, at_most=n_users * n_items)
    check_not_negative("popularity", popularity)
    check_not_negative("activity", activity)
    check_fraction("noise", noise)
    rng = new_generator(random_state)
    lengths = list_lengths(n_users, n_items, n_interactions, activity, rng)
    popular = _power_law(n_items, n_interactions / n_users, popularity)[rng.permutation(n_items)]
    share = np.empty((n_users, factors + 1), dtype=np.float32)
    _fill_dirichlet(share[:, :-1], TASTES_OF_A_USER, rng)
    tables = _taste_tables(popular, factors, rng)
    seed = native_seed(rng)
    user_factors = share[:, :-1].copy() if return_factors else None
    share[:, :-1] *= 1 - noise
    share[:, -1] = noise
    indptr = offsets(lengths)
    indices = _core.draw_lists(indptr, share, tables, seed=seed, num_threads=thread_count())
    data = Interactions(Ids.range(n_users), Ids.range(n_items), indptr, indices)
    if user_factors is None:
        return data
    return data, user_factors, np.ascontiguousarray(tables[:-1].T)


def list_lengths(
    n_users: int, n_items: int, n_interactions: int, activity: float, rng: np.random.Generator
) -> Ints64:
    """The number of items of each user: a power law whose sum is `n_interactions`."""
    least = int(n_interactions >= n_users)
    weight = _power_law(n_users, n_users / 1000, activity)[rng.permutation(n_users)]
    extra = _shared_out(weight, n_interactions - least * n_users, n_items - least)
    # Differences of rounded cumulative sums are integers within 1 of the exact numbers.
    ends = np.floor(np.cumsum(extra) + rng.random())
    ends[-1] = n_interactions - least * n_users
    return least + np.diff(np.minimum(ends, ends[-1]), prepend=0).astype(np.int64)


def _shared_out(weight: Floats64, total: int, most: int) -> Floats64:
    """Share out `total` in proportion to the weights, with at most `most` for each."""
    order = np.argsort(-weight)
    heavy = weight[order]
    rest = np.cumsum(heavy[::-1])[::-1]
    # With the j heaviest at the limit, the others share what remains.
    remaining = total - most * np.arange(len(heavy), dtype=np.float64)
    fits = heavy * remaining <= most * rest
    j = int(np.argmax(fits)) if fits.any() else len(heavy)
    numbers = np.full(len(heavy), float(most))
    if j < len(heavy):
        numbers[order[j:]] = heavy[j:] * (remaining[j] / rest[j])
    return numbers


def _power_law(n: int, shift: float, exponent: float) -> Floats64:
    weight = (np.arange(1, n + 1) + shift) ** -exponent
    return np.asarray(weight / weight.sum())


def _taste_tables(popular: Floats64, factors: int, rng: np.random.Generator) -> Factors:
    """φ, one row for each taste, and the popularity of the items in the last row."""
    tables = np.empty((factors + 1, len(popular)), dtype=np.float32)
    _fill_dirichlet(tables[:-1].T, TASTES_OF_AN_ITEM, rng)
    tables[:-1] *= popular.astype(np.float32)
    tables[-1] = popular
    sums = tables.sum(axis=1, dtype=np.float64)
    tables /= np.where(sums > 0, sums, 1).astype(np.float32)[:, None]
    tables[:-1][sums[:-1] == 0] = tables[-1]  # a taste that no item serves
    return tables


def _fill_dirichlet(out: NDArray[Any], total: float, rng: np.random.Generator) -> None:
    alpha = total / out.shape[1]
    for begin in range(0, len(out), _CHUNK_ROWS):
        chunk = out[begin : begin + _CHUNK_ROWS]
        parts = rng.standard_gamma(alpha, chunk.shape)
        chunk[:] = parts / parts.sum(axis=1, keepdims=True)

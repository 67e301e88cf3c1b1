"""How good are the recommendations: precision, recall, NDCG, MAP and hit rate of the top k."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robirank._checks import check_count
from robirank._sparse import sound_csr
from robirank._types import Floats64, Ints32
from robirank.latent.factors.ids import Side, check_same_ids
from robirank.latent.factors.topk import NOTHING, rows_of
from robirank.metrics._conventions import discounts

MEASURES = ("precision", "recall", "ndcg", "map", "hit_rate")

#: Values are added up as integers of this unit, so that the order of the users cannot matter.
UNIT = 2.0**-40


@dataclass(frozen=True)
class Coverage:
    """Whom and what an evaluation measured.

    Attributes
    ----------
    users_with_history, users_without_history : int
        Users with something in ``test`` who have records in ``train``, and who have none.
    users_left_out : int
        Users without anything in ``test``, or not among those asked for.
    records : int
        Test records of the users who were measured.
    records_on_new_items : int
        How many of these are on items without a record in ``train``.
    """

    users_with_history: int
    users_without_history: int
    users_left_out: int
    records: int
    records_on_new_items: int

    def __str__(self) -> str:
        """One sentence.

        Examples
        --------
        >>> str(Coverage(90, 10, 5, 200, 3)).split("; ")[0]
        '90 users with history and 10 without were measured, 5 left out'
        """
        return (
            f"{self.users_with_history:,} users with history and {self.users_without_history:,} "
            f"without were measured, {self.users_left_out:,} left out; "
            f"{self.records_on_new_items:,} of their {self.records:,} test records are on items "
            "without a train record."
        )


@dataclass(frozen=True, repr=False)
class Evaluation(Mapping[str, float]):
    """Means over users, by name: ``result["recall@20"]``.

    Attributes
    ----------
    means : dict from str to float
        What the object itself gives by name.
    errors : dict from str to float
        The standard error of each mean; NaN for one user.
    n_users : int
        How many users were counted, that is those with something in ``test``.
    k : tuple of int
        The cut-offs.
    coverage : Coverage or None
        Whom and what was measured; None in the two parts below.
    with_history, without_history : Evaluation or None
        The same of the users who have records in ``train``, and of those who have none; None where
        there are no such users.
    """

    means: dict[str, float]
    errors: dict[str, float]
    n_users: int
    k: tuple[int, ...]
    coverage: Coverage | None = None
    with_history: Evaluation | None = None
    without_history: Evaluation | None = None

    def __getitem__(self, name: str) -> float:
        if name not in self.means:
            raise KeyError(f"no measure {name!r}; there are {', '.join(self.means)}")
        return self.means[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.means)

    def __len__(self) -> int:
        return len(self.means)

    def table(self) -> str:
        """The means, a line a measure and a column a cut-off, with their standard errors.

        The last line says whom and what was measured.
        """
        lines = [f"{f'{self.n_users:,} users':>14s}" + "".join(f"{f'@{k}':>18s}" for k in self.k)]
        for measure in MEASURES:
            names = [f"{measure}@{k}" for k in self.k]
            cells = [f"{self.means[n]:10.4f} ± {self.errors[n]:.4f}" for n in names]
            lines.append(f"{measure:>14s}" + "".join(f"{cell:>18s}" for cell in cells))
        if self.coverage is not None:
            lines.append(str(self.coverage))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.table()


def evaluate(
    model: Any,
    *,
    train: Any,
    test: Any,
    k: int | Sequence[int] = (1, 10, 20),
    users: ArrayLike | None = None,
    recalculate_user: bool = False,
    batch_size: int = 4096,
) -> Evaluation:
    r"""Measure how well the recommended items match those that were held out.

    For each user with at least one item in ``test``, all items are ranked by the model, those in
    ``train`` left out. With :math:`T_x` the user's test items and :math:`h_r = 1` if the item at
    rank r is one of them,

    .. math::
        \text{precision@}k = \frac1k \sum_{r \le k} h_r, \qquad
        \text{recall@}k = \frac{1}{|T_x|} \sum_{r \le k} h_r

    .. math::
        \text{ndcg@}k = \sum_{r \le k} \frac{h_r}{\log_2(1 + r)} \Big/
            \sum_{r \le \min(k, |T_x|)} \frac{1}{\log_2(1 + r)}

    .. math::
        \text{map@}k = \frac{1}{|T_x|} \sum_{r \le k} h_r \, \text{precision@}r, \qquad
        \text{hit rate@}k = \max_{r \le k} h_r

    and what is reported is the mean over those users. Every entry that a matrix stores counts,
    whatever its value. A test item that the user has in ``train`` too cannot be recommended and
    counts as missed. Of equal scores, the models of this package put the lower item first.

    Of users without a record in what a model was fitted to, it knows nothing: the models of this
    package recommend the most popular items to them. The result has the means of users with and
    without a record in ``train`` apart, and counts both.

    Parameters
    ----------
    model : LatentRoBiRank, WARP, or any object with the ``recommend`` of the implicit package
    train, test : CSR matrix or Interactions, users × items
        Of the same shape; Interactions with the same ids in the same order, as those of the model.
    k : int or sequence of int
        Cut-offs, of any size; a list ends with the last item.
    users : array of int, optional
        Count only these users.
    recalculate_user : bool, default=False
        Score each user with factors folded in from their row of ``train``, as for users that the
        model has not seen.
    batch_size : int, default=4096
        Users that are asked for at a time; the result does not depend on it beyond rounding.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> from robirank.latent.factors.recommend import FactorModel
    >>> model = FactorModel()
    >>> model.user_factors = np.ones((1, 1), dtype=np.float32)
    >>> model.item_factors = np.array([[4], [3], [2], [1]], dtype=np.float32)
    >>> train, test = csr_matrix([[1, 0, 0, 0]]), csr_matrix([[0, 0, 1, 1]])
    >>> result = evaluate(model, train=train, test=test, k=(1, 2))
    >>> result["precision@2"], result["recall@2"], round(result["ndcg@2"], 4)
    (0.5, 0.5, 0.3869)
    >>> result.coverage.users_with_history, result.coverage.records_on_new_items
    (1, 2)
    """
    cutoffs = _check_cutoffs(k)
    check_count("batch_size", batch_size)
    check_same_ids("test", test, "train", train)
    sides: tuple[Side, ...] = ("items",) if recalculate_user else ("users", "items")
    check_same_ids("train", train, "the model", model, sides)
    train, test = _check_matrices(train, test)
    chosen = _check_users(users, test)
    has_history = np.diff(train.indptr)[chosen] > 0
    sums = {True: _Sums(cutoffs), False: _Sums(cutoffs)}
    for begin in range(0, len(chosen), batch_size):
        part = slice(begin, begin + batch_size)
        ids = _lists(model, chosen[part], train, max(cutoffs), recalculate_user)
        held_out = test[chosen[part]]
        values = measure_lists(ids, held_out.indptr, held_out.indices, test.shape[1], cutoffs)
        for group, total in sums.items():
            total.add(values[..., has_history[part] == group])
    return (sums[True] + sums[False]).evaluation(
        coverage=_coverage(train, test, chosen, has_history),
        with_history=sums[True].evaluation() if sums[True].n else None,
        without_history=sums[False].evaluation() if sums[False].n else None,
    )


def _lists(model: Any, users: Ints32, train: Any, depth: int, recalculate: bool) -> NDArray[Any]:
    """The items that a model recommends; −1 where no item is left."""
    # The result counts users without history, so that no warning has to.
    takes = signature(model.recommend).parameters
    quiet = {"unknown_users": "popular"} if "unknown_users" in takes else {}
    n = min(depth, train.shape[1])
    ids, scores = model.recommend(users, train[users], N=n, recalculate_user=recalculate, **quiet)
    # Some programs fill up with items that were to be left out, at the lowest score.
    return np.where(np.asarray(scores) > NOTHING, ids, -1)


def _coverage(train: Any, test: Any, chosen: Ints32, has_history: NDArray[np.bool_]) -> Coverage:
    items = test[chosen].indices
    is_new = np.ones(test.shape[1], dtype=bool)
    is_new[train.indices] = False
    with_history = int(np.count_nonzero(has_history))
    return Coverage(
        users_with_history=with_history,
        users_without_history=len(chosen) - with_history,
        users_left_out=test.shape[0] - len(np.unique(chosen)),
        records=len(items),
        records_on_new_items=int(np.count_nonzero(is_new[items])),
    )


def measure_lists(
    ids: NDArray[Any],
    indptr: NDArray[Any],
    items: NDArray[Any],
    n_items: int,
    cutoffs: tuple[int, ...],
) -> Floats64:
    """Measure recommended lists against held-out items in CSR form.

    Returns values of shape (measures, cut-offs, users), measures in the order of `MEASURES`. Every
    user must have a held-out item; id −1 stands for no item.
    """
    hits = _hits(ids, indptr, items, n_items)
    return _measure(hits, np.diff(indptr), cutoffs)


def in_units(values: Floats64) -> Any:
    """The sum over the last axis, in units: integers, whatever the order of the values."""
    return np.rint(values / UNIT).astype(np.int64).sum(axis=-1).astype(object)


def _hits(
    ids: NDArray[Any], indptr: NDArray[Any], items: NDArray[Any], width: int
) -> NDArray[np.bool_]:
    """Whether each recommended item is among the held-out items of its user."""
    n_rows = len(indptr) - 1
    rows = np.repeat(np.arange(n_rows, dtype=np.int64), np.diff(indptr))
    wanted = np.sort(rows * width + items)
    got = np.arange(n_rows, dtype=np.int64)[:, None] * width + ids
    place = np.minimum(np.searchsorted(wanted, got), len(wanted) - 1)
    return (wanted[place] == got) & (ids >= 0)


def _measure(hits: NDArray[np.bool_], n_test: NDArray[Any], cutoffs: tuple[int, ...]) -> Floats64:
    depth = hits.shape[1]
    rank = np.arange(1, depth + 1)
    discount = discounts(depth, "log2")
    found = np.cumsum(hits, axis=1)
    gain = np.cumsum(hits * discount, axis=1)
    precise = np.cumsum(hits * (found / rank), axis=1)
    total = n_test.astype(np.float64)
    values = np.empty((len(MEASURES), len(cutoffs), len(hits)))
    for j, k in enumerate(cutoffs):
        last = min(k, depth) - 1
        most = min(k, int(n_test.max()))
        ideal = np.cumsum(discounts(most, "log2"))[np.minimum(most, n_test) - 1]
        values[:, j] = (
            found[:, last] / float(k),
            found[:, last] / total,
            gain[:, last] / ideal,
            precise[:, last] / total,
            found[:, last] > 0,
        )
    return values


def mean_of_units(total: Any, n: int) -> Any:
    """The mean of n values whose sum is given in units."""
    return np.asarray(total, dtype=np.float64) * UNIT / n


@dataclass
class _Sums:
    """The sums of the values of some users and of their squares, in units."""

    cutoffs: tuple[int, ...]
    n: int = 0
    values: Any = 0
    squares: Any = 0

    def add(self, values: Floats64) -> None:
        """Count the values of some more users."""
        self.n += values.shape[-1]
        self.values = self.values + in_units(values)
        self.squares = self.squares + in_units(np.square(values))

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(
            self.cutoffs,
            self.n + other.n,
            self.values + other.values,
            self.squares + other.squares,
        )

    def evaluation(self, **more: Any) -> Evaluation:
        """The means and their standard errors."""
        mean, n = mean_of_units(self.values, self.n), self.n
        spread = np.maximum(mean_of_units(self.squares, n) - mean**2, 0)
        error = np.sqrt(spread / (n - 1)) if n > 1 else np.full_like(mean, np.nan)
        names = [
            (f"{m}@{k}", i, j) for j, k in enumerate(self.cutoffs) for i, m in enumerate(MEASURES)
        ]
        return Evaluation(
            {name: float(mean[i, j]) for name, i, j in names},
            {name: float(error[i, j]) for name, i, j in names},
            n,
            self.cutoffs,
            **more,
        )


def _check_cutoffs(k: int | Sequence[int]) -> tuple[int, ...]:
    try:
        cutoffs = tuple(index(c) for c in np.atleast_1d(np.asarray(k, dtype=object)))
    except TypeError:
        cutoffs = ()
    if not cutoffs or min(cutoffs) < 1:
        raise ValueError(f"k must be an integer from 1 or a sequence of them; got {k!r}")
    return tuple(sorted(set(cutoffs)))


def _check_matrices(train: Any, test: Any) -> tuple[Any, Any]:
    train, test = _as_csr("train", train), _as_csr("test", test)
    if train.shape != test.shape:
        raise ValueError(
            "train and test must have the same users and items; their shapes are "
            f"{train.shape} and {test.shape}"
        )
    if not test.has_canonical_format:  # an item that is stored twice is one test item
        test = test.copy()
        test.sum_duplicates()
    return train, test


def _as_csr(name: str, given: Any) -> Any:
    matrix: Any = getattr(given, "matrix", given)
    if not hasattr(matrix, "tocsr"):
        raise ValueError(
            f"{name} must be a sparse matrix or Interactions, users × items; "
            f"got {type(given).__name__}"
        )
    return sound_csr(name, matrix)  # implicit takes no csr_array


def _check_users(users: ArrayLike | None, test: Any) -> Ints32:
    has_test = np.diff(test.indptr) > 0
    if users is None:
        chosen = np.flatnonzero(has_test).astype(np.int32)
    else:
        asked = rows_of("users", users, test.shape[0], "users")
        chosen = asked[has_test[asked]]
    if not len(chosen):
        raise ValueError("test must hold at least one item of a user to count; it has none")
    return chosen


def check_metric(metric: str) -> tuple[str, int]:
    """The measure and the cut-off of a name such as "ndcg@20"."""
    measure, _, k = str(metric).partition("@")
    if measure not in MEASURES or not k.isdigit() or int(k) < 1:
        raise ValueError(
            f"metric must be one of {', '.join(f'{m}@k' for m in MEASURES)}, such as 'ndcg@20'; "
            f"got {metric!r}"
        )
    return measure, int(k)

"""Evaluate a model: how well its recommendations match held-out interactions."""

from __future__ import annotations

import copy
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
from robirank.data.user_items import SideName, UserItems
from robirank.errors import ArgumentError
from robirank.latent.factors.factor_model import FactorModel
from robirank.latent.factors.list_metrics import METRICS, in_units, mean_of_units, metric_values
from robirank.latent.factors.questions import check_same_ids, checked_positions
from robirank.latent.factors.topk import NOTHING


@dataclass(frozen=True)
class Coverage:
    """Whom and what an evaluation measured.

    Attributes
    ----------
    users_with_history, users_without_history : int
        Users with something in ``test`` who have interactions in ``train``, and who have none.
    users_left_out : int
        Users without anything in ``test``, or not among those asked for.
    interactions : int
        The test interactions of the users who were measured.
    interactions_on_new_items : int
        How many of these are on items without an interaction in ``train``.
    """

    users_with_history: int
    users_without_history: int
    users_left_out: int
    interactions: int
    interactions_on_new_items: int

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
            f"{self.interactions_on_new_items:,} of their {self.interactions:,} test interactions "
            "are on items without a train interaction."
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
        The same of the users who have interactions in ``train``, and of those who have none; None
        where there are no such users.
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
            raise KeyError(f"no metric {name!r}; there are {', '.join(self.means)}")
        return self.means[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.means)

    def __len__(self) -> int:
        return len(self.means)

    def table(self) -> str:
        """The means, a line a metric and a column a cut-off, with their standard errors.

        The last line says whom and what was measured.
        """
        lines = [f"{f'{self.n_users:,} users':>14s}" + "".join(f"{f'@{k}':>18s}" for k in self.k)]
        for metric in METRICS:
            names = [f"{metric}@{k}" for k in self.k]
            cells = [f"{self.means[n]:10.4f} ± {self.errors[n]:.4f}" for n in names]
            lines.append(f"{metric:>14s}" + "".join(f"{cell:>18s}" for cell in cells))
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

    Of users without an interaction in what it was fitted to, a model knows nothing: the models of
    this package recommend the most popular items to them. The result has the means of users with
    and without an interaction in ``train`` apart, and counts both.

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
    >>> from robirank import Popularity
    >>> model = Popularity().fit(csr_matrix([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]]))
    >>> train, test = csr_matrix((3, 4)), csr_matrix((3, 4))
    >>> train[0, 0], test[0, 2], test[0, 3] = 1, 1, 1
    >>> result = evaluate(model, train=train, test=test, k=(1, 2))
    >>> result["precision@2"], result["recall@2"], round(result["ndcg@2"], 4)
    (0.5, 0.5, 0.3869)
    >>> result.coverage.users_with_history, result.coverage.interactions_on_new_items
    (1, 2)
    """
    cutoffs = _check_cutoffs(k)
    check_count("batch_size", batch_size)
    check_same_ids("test", test, "train", train)
    sides: tuple[SideName, ...] = ("items",) if recalculate_user else ("users", "items")
    check_same_ids("train", train, "the model", model, sides)
    train, test = _check_matrices(train, test)
    chosen = _check_users(users, test)
    if isinstance(model, FactorModel):
        model = copy.copy(model).prepare()
    has_history = np.diff(train.indptr)[chosen] > 0
    sums = {True: _Sums(cutoffs), False: _Sums(cutoffs)}
    for begin in range(0, len(chosen), batch_size):
        part = slice(begin, begin + batch_size)
        lists = _lists(model, chosen[part], train, max(cutoffs), recalculate_user)
        rows = test[chosen[part]]
        held_out = UserItems(rows.indptr, rows.indices, None, test.shape[1])
        values = metric_values(lists, held_out, cutoffs)
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
        interactions=len(items),
        interactions_on_new_items=int(np.count_nonzero(is_new[items])),
    )


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
            (f"{m}@{k}", i, j) for j, k in enumerate(self.cutoffs) for i, m in enumerate(METRICS)
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
        raise ArgumentError("k", f"must be an integer from 1 or a sequence of them; got {k!r}")
    return tuple(sorted(set(cutoffs)))


def _check_matrices(train: Any, test: Any) -> tuple[Any, Any]:
    train, test = _as_csr("train", train), _as_csr("test", test)
    if train.shape != test.shape:
        raise ArgumentError(
            "train",
            f"and test must have the same users and items; their shapes are {train.shape} and "
            f"{test.shape}",
        )
    if not test.has_canonical_format:  # an item that is stored twice is one test item
        test = test.copy()
        test.sum_duplicates()
    return train, test


def _as_csr(name: str, given: Any) -> Any:
    matrix: Any = getattr(given, "matrix", given)
    if not hasattr(matrix, "tocsr"):
        raise ArgumentError(
            name,
            f"must be a sparse matrix or Interactions, users × items; got {type(given).__name__}",
        )
    return sound_csr(name, matrix)  # implicit takes no csr_array


def _check_users(users: ArrayLike | None, test: Any) -> Ints32:
    has_test = np.diff(test.indptr) > 0
    if users is None:
        chosen = np.flatnonzero(has_test).astype(np.int32)
    else:
        asked = checked_positions("users", users, test.shape[0], "users")
        chosen = asked[has_test[asked]]
    if not len(chosen):
        raise ArgumentError("test", "must hold at least one item of a user to count; it has none")
    return chosen

"""Evaluate a model: how well its recommendations match held-out interactions."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from robirank._checks import check_count
from robirank._sparse import sound_csr
from robirank._types import Floats32, Floats64, Ints32
from robirank.data.interactions import Interactions
from robirank.data.user_items import SideName, UserItems, rows_of
from robirank.errors import ArgumentError
from robirank.latent.factors.factor_model import FactorModel
from robirank.latent.factors.factors import Side
from robirank.latent.factors.list_metrics import METRICS, in_units, mean_of_units, metric_values
from robirank.latent.factors.questions import check_same_ids, checked_positions
from robirank.latent.factors.rules import Rules
from robirank.latent.factors.shown_items import SHOWN, ShownItems
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
    n_items : int
        How many items were ranked.
    coverage : Coverage or None
        Whom and what was measured; None in the parts below.
    with_history, without_history : Evaluation or None
        The same of the users who have interactions in ``train``, and of those who have none; None
        where there are no such users.
    shown : dict from str to float
        What the lists show, by name: item_coverage, gini, novelty, distance and tail at each
        cut-off; see `evaluate`. Empty in the parts with and without history.
    old_items, new_items : Evaluation or None
        The same with the items alone that have interactions in ``train``, and with those alone that
        have none: these are ranked, and test interactions with others do not count. None unless
        the model knows features of items and some test interactions are with items of the kind.
    """

    means: dict[str, float]
    errors: dict[str, float]
    n_users: int
    k: tuple[int, ...]
    n_items: int = 0
    coverage: Coverage | None = None
    with_history: Evaluation | None = None
    without_history: Evaluation | None = None
    old_items: Evaluation | None = None
    new_items: Evaluation | None = None
    shown: dict[str, float] = field(default_factory=dict)

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

        Lines for what the lists show follow, and for old and new items where they were ranked
        apart. The last line says whom and what was measured.
        """
        lines = [f"{f'{self.n_users:,} users':>14s}" + "".join(f"{f'@{k}':>18s}" for k in self.k)]
        lines += self._lines(METRICS)
        for metric, cells in self.shown_rows():
            lines.append(f"{metric:>14s}" + "".join(f"{cell:>10s}{'':9s}" for cell in cells))
        for name, part in (("old", self.old_items), ("new", self.new_items)):
            if part is not None:
                lines.append(f"{part.n_items:,} {name} items alone, {part.n_users:,} users")
                lines += part._lines(METRICS[:3])
        if self.coverage is not None:
            lines.append(str(self.coverage))
        return "\n".join(lines)

    def shown_rows(self) -> list[tuple[str, list[str]]]:
        """The metrics of what lists show, with a text for each cut-off; "-" where there is none.

        One item alone has no distance.
        """
        rows = []
        for metric in SHOWN:
            values = [self.shown.get(f"{metric}@{k}") for k in self.k]
            if any(value is not None for value in values):
                rows.append((metric, ["-" if v is None else f"{v:.4f}" for v in values]))
        return rows

    def _lines(self, metrics: Sequence[str]) -> list[str]:
        lines = []
        for metric in metrics:
            names = [f"{metric}@{k}" for k in self.k]
            cells = [f"{self.means[n]:10.4f} ± {self.errors[n]:.4f}" for n in names]
            lines.append(f"{metric:>14s}" + "".join(f"{cell:>18s}" for cell in cells))
        return lines

    def __repr__(self) -> str:
        return self.table()


def evaluate(
    model: Any,
    *,
    train: Any,
    test: Any,
    k: int | Sequence[int] = (1, 10, 20),
    users: ArrayLike | None = None,
    items: ArrayLike | None = None,
    recalculate_user: bool = False,
    batch_size: int = 4096,
    rules: Rules | None = None,
    variety: float = 0.0,
    popularity: float = 0.0,
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
    and without an interaction in ``train`` apart, and counts both. Where the model knows features
    of items, it also has the means of items with and without an interaction in ``train`` apart.

    Hits are not all there is to a list. ``result.shown`` says what the first k places of all lists
    show, whether it was found in ``test`` or not. With :math:`n_y` interactions of item y in
    ``train`` (of the fit, if ``train`` has none) among n users:

    - item_coverage@k: the share of the ranked items that is in at least one list;
    - gini@k: the Gini index of how often each ranked item is shown, 0 if all are shown as often,
      near 1 if a few are shown to everyone;
    - novelty@k: the mean of :math:`-\log_2 (n_y / n)` over a list, in bits; an item without
      interactions counts as one with one;
    - distance@k: the mean of one less the cosine of the rows of two items, over all pairs of a
      list; only of models with ``item_factors`` in memory, and 1 for a row of zeros;
    - tail@k: the share of a list that is not among the fewest items that make up 80 % of the
      interactions.

    The last three are means over users whose lists have an item (two of them for the distance).

    Parameters
    ----------
    model : LatentRoBiRank, WARP, or any object with the ``recommend`` of the implicit package
    train, test : CSR matrix or Interactions, users × items
        Of the same shape; Interactions with the same ids in the same order, as those of the model.
        Features may have brought more items into the model, which are ranked too.
    k : int or sequence of int
        Cut-offs, of any size; a list ends with the last item.
    users : array of int, optional
        Count only these users.
    items : array of int, optional
        Rank only these items, and count only test interactions with them.
    recalculate_user : bool, default=False
        Score each user with factors folded in from their row of ``train``, as for users that the
        model has not seen.
    batch_size : int, default=4096
        Users that are asked for at a time; the result does not depend on it beyond rounding.
    rules, variety, popularity
        As in `FactorModel.recommend`, for models that take them.

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
    with_times = train if getattr(train, "timestamps", None) is not None else None
    train, test = _check_matrices(train, test)
    has_features = False
    if isinstance(model, FactorModel):
        model = copy.copy(model).prepare()
        has_features = model.factors_.items.centres is not None
        n_items = len(model.factors_.items)
        if train.shape[1] > n_items:
            raise ArgumentError(
                "train",
                f"must have a column for each of the {n_items} items of the model; it has "
                f"{train.shape[1]}",
            )
        if has_features:
            train, test = (_widened(matrix, n_items) for matrix in (train, test))
    knobs = {"rules": rules, "variety": variety, "popularity": popularity}
    wanted = {name: value for name, value in knobs.items() if value is not None and value != 0}
    timed = None
    if recalculate_user and isinstance(model, FactorModel):
        model._check_times("train", with_times)
        timed = with_times
    measure = _Measure(
        model, train, test, cutoffs, recalculate_user, batch_size, _taken(model, wanted), timed
    )
    n_items = train.shape[1]
    among = (
        None if items is None else np.unique(checked_positions("items", items, n_items, "items"))
    )
    chosen = _check_users(users, measure.of_items(among))
    result = measure(chosen, among)
    if not has_features or items is not None:
        return result
    is_old = np.bincount(train.indices, minlength=n_items) > 0
    return replace(
        result,
        old_items=measure.apart(chosen, np.flatnonzero(is_old)),
        new_items=measure.apart(chosen, np.flatnonzero(~is_old)),
    )


def _taken(model: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """What is wanted beyond the arguments of implicit; an error unless the model takes it."""
    takes = signature(model.recommend).parameters
    for name in wanted.keys() - takes.keys():
        raise ArgumentError(name, f"cannot be used: {type(model).__name__} does not take it")
    return wanted


def _widened(matrix: Any, n_items: int) -> Any:
    """A matrix with as many columns as a model has items; those added are empty."""
    if matrix.shape[1] >= n_items:
        return matrix
    entries = (matrix.data, matrix.indices, matrix.indptr)
    return sparse.csr_matrix(entries, shape=(matrix.shape[0], n_items))


@dataclass(frozen=True)
class _Measure:
    """Measures a model for some users, who choose among some items."""

    model: Any
    train: Any
    test: Any
    cutoffs: tuple[int, ...]
    recalculate_user: bool
    batch_size: int
    wanted: dict[str, Any]
    timed: Interactions | None = None  # ``train`` with times, where these change the answers

    def of_items(self, items: Ints32 | None) -> Any:
        """The test interactions with some items."""
        if items is None:
            return self.test
        is_there = np.zeros(self.test.shape[1], bool)
        is_there[items] = True
        test = self.test.copy()
        test.data = is_there[test.indices].astype(np.int8)
        test.eliminate_zeros()
        return test

    def apart(self, users: Ints32, items: NDArray[Any]) -> Evaluation | None:
        """The metrics with some items alone; None without test interactions with them."""
        candidates = items.astype(np.int32)
        users = users[np.diff(self.of_items(candidates).indptr)[users] > 0]
        return replace(self(users, candidates), coverage=None) if len(users) else None

    def __call__(self, users: Ints32, items: Ints32 | None) -> Evaluation:
        train, test = self.train, self.of_items(items)
        has_history = np.diff(train.indptr)[users] > 0
        sums = {True: _Sums(self.cutoffs), False: _Sums(self.cutoffs)}
        shown = ShownItems(self._counts(), train.shape[0], self.cutoffs, self._vectors())
        for begin in range(0, len(users), self.batch_size):
            part = slice(begin, begin + self.batch_size)
            rows = test[users[part]]
            held_out = UserItems(rows.indptr, rows.indices, None, test.shape[1])
            lists = self._lists(users[part], items)
            shown.add(lists)
            values = metric_values(lists, held_out, self.cutoffs)
            for group, total in sums.items():
                total.add(values[..., has_history[part] == group])
        n_items = train.shape[1] if items is None else len(items)
        return (sums[True] + sums[False]).evaluation(
            n_items=n_items,
            shown=shown.means(n_items),
            coverage=_coverage(train, test, users, has_history),
            with_history=sums[True].evaluation() if sums[True].n else None,
            without_history=sums[False].evaluation() if sums[False].n else None,
        )

    def _counts(self) -> NDArray[Any]:
        """The interactions of each item: in ``train``, or in the fit if that is empty."""
        counts = np.bincount(self.train.indices, minlength=self.train.shape[1])
        of_fit = getattr(self.model, "item_counts_", None)
        return of_fit if not counts.any() and of_fit is not None else counts

    def _vectors(self) -> Floats32 | None:
        """The rows of all items in memory; None where there are none."""
        if isinstance(self.model, FactorModel) and not isinstance(self.model.factors_.items, Side):
            return None
        rows: Any = getattr(self.model, "item_factors", None)
        is_matrix = isinstance(rows, np.ndarray) and rows.ndim == 2
        return rows if is_matrix and len(rows) == self.train.shape[1] else None

    def _lists(self, users: Ints32, items: Ints32 | None) -> NDArray[Any]:
        """The items that the model recommends; −1 where no item is left."""
        # The result counts users without history, so that no warning has to.
        takes = signature(self.model.recommend).parameters
        more: dict[str, Any] = {"unknown_users": "popular"} if "unknown_users" in takes else {}
        more |= self.wanted
        n = self.train.shape[1]
        if items is not None:
            more["items"], n = items, len(items)
        ids, scores = self.model.recommend(
            users,
            self.train[users] if self.timed is None else rows_of(self.timed, users),
            N=min(max(self.cutoffs), n),
            recalculate_user=self.recalculate_user,
            **more,
        )
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

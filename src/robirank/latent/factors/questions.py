"""Users and items in questions to a model and in its answers: by position or by outside id.

Text is always an outside id, and an integer is always a position, as in the implicit package. A
question speaks of both sides in one of these ways, and its answer does too. `FactorModel.by_id`
takes outside ids of every kind, integers too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robirank._callers import warn
from robirank._sparse import check_sparse, offsets, rows_are_sorted, sound_csr
from robirank._types import Ints32
from robirank.data._columns import as_times
from robirank.data.ages import NOW, check_past
from robirank.data.ids import Ids
from robirank.data.interactions import Interactions
from robirank.data.nearest import did_you_mean
from robirank.data.user_items import SideName, UserItems, ids_of, rows_of
from robirank.errors import Argument, ArgumentError, UnknownIdError

#: What to do with outside ids that a model does not know.
UnknownIds = Literal["error", "ignore"]


class UnknownIdWarning(UserWarning):
    """Outside ids that the model does not know were ignored."""


class ByPosition:
    """Users or items by their positions, the rows of U or V."""

    def __init__(self, n: int, side: SideName) -> None:
        self._n, self._side = n, side

    @property
    def ids(self) -> Ids:
        """The positions as ids."""
        return Ids.range(self._n)

    def several(self, argument: str, asked: Any) -> tuple[NDArray[Any], bool]:
        """One position or several, as an array, and whether it is one."""
        array: NDArray[Any] = np.asarray(asked)
        if array.ndim > 1:
            raise IndexError(
                f"{argument} must be an integer or a list of them; its shape is {array.shape}"
            )
        return np.atleast_1d(array), array.ndim == 0

    def positions(self, argument: str, asked: Any) -> Ints32:
        """The positions, checked."""
        return checked_positions(argument, asked, self._n, self._side)

    known_positions = positions

    def called(self, positions: Ints32) -> NDArray[Any]:
        """The positions themselves."""
        return positions


class ByOutsideId:
    """Users or items by what they are called in the user's data."""

    def __init__(self, ids: Ids, side: SideName) -> None:
        self.ids, self._kind = ids, side.removesuffix("s")

    def several(self, argument: str, asked: Any) -> tuple[list[Any], bool]:  # noqa: ARG002
        """One id or several, as a list, and whether it is one; a tuple can be an id."""
        if _is_list(asked) and not (isinstance(asked, tuple) and self.ids.kind == "object"):
            return asked.tolist() if hasattr(asked, "tolist") else list(asked), False
        return [asked.item() if hasattr(asked, "item") else asked], True

    def positions(self, argument: str, asked: Any, where: str = "the model") -> Ints32:
        """The positions of ids; one that is not there is an error that names it."""
        ids, _ = self.several(argument, asked)
        positions = self.find(ids)
        missing = np.flatnonzero(positions < 0)
        if len(missing):
            raise self._unknown(argument, ids[int(missing[0])], where)
        return positions

    def known_positions(self, argument: str, asked: Any) -> Ints32:
        """The positions of those ids that are there; the others are counted in a warning."""
        return self.ignore_unknown(argument, self.find(self.several(argument, asked)[0]))

    def ignore_unknown(self, argument: str, positions: Ints32) -> Ints32:
        """Leave out positions −1, with a warning that counts them."""
        n_unknown = int(np.count_nonzero(positions < 0))
        if n_unknown:
            warn(
                f"{argument}: {n_unknown:,} of {len(positions):,} {self._kind}s unknown to the "
                "model, and ignored",
                UnknownIdWarning,
            )
        return positions[positions >= 0]

    def called(self, positions: Ints32) -> NDArray[Any]:
        """The ids, as an object array with None for −1."""
        names = np.full(positions.shape, None, dtype=object)
        names[positions >= 0] = self.ids[positions[positions >= 0]]
        return names

    def find(self, ids: list[Any]) -> Ints32:
        """The positions of ids; −1 for one that is not there."""
        if len(ids) == 1:  # which a dict finds
            return np.array([self.ids.find(ids[0])], dtype=np.int32)
        return self.ids.find(ids)

    def _unknown(self, argument: str, value: Any, where: str) -> UnknownIdError:
        meant = did_you_mean(self.ids.close_to(str(value)))
        examples = ", ".join(repr(self.ids[i]) for i in range(min(3, len(self.ids))))
        return UnknownIdError(
            f"{argument}: there is no {self._kind} {value!r:.80} in {where}"
            + (meant or f", which has {self._kind}s such as {examples}"),
            value,
            self._kind,
        )


Naming = ByPosition | ByOutsideId


@dataclass(frozen=True)
class Names:
    """How a question calls users and items."""

    users: Naming
    items: Naming

    def interactions_of(self, user_items: Any, asked: Any, *, are_new: bool) -> Any:
        """What the users of a question have, a row for each: a CSR matrix or a `UserItems`.

        In `Interactions`, users are looked up by their outside ids; a user who is not there has
        nothing, but new users must be there. A matrix has a row for each user already.
        """
        if not isinstance(user_items, Interactions) or isinstance(self.users, ByPosition):
            return user_items
        if are_new:
            ByOutsideId(user_items.users, "users").positions("userid", asked, "user_items")
        return self._looked_up(user_items, asked)

    def interactions_of_all(
        self, train: Any, asked: Any, positions: Ints32, *, or_fewer: bool = False
    ) -> Any:
        """What some users have according to a table of all; None for no table.

        The table has a row for each user, ``or_fewer``: those of the first ones alone.
        """
        if train is None:
            return None
        if isinstance(train, Interactions) and isinstance(self.users, ByOutsideId):
            return self._looked_up(train, asked)
        n_users = len(self.users.ids)
        if isinstance(train, Interactions) and train.n_users == n_users:
            return rows_of(train, positions)
        matrix = getattr(train, "matrix", train)
        fits = hasattr(matrix, "tocsr") and (
            matrix.shape[0] == n_users or (or_fewer and matrix.shape[0] < n_users)
        )
        if not fits:
            raise ArgumentError(
                "train",
                f"must be a CSR matrix of all {n_users} users, or Interactions; got "
                f"{type(train).__name__} of shape {np.shape(matrix)}",
            )
        matrix = sound_csr("train", matrix)
        if matrix.shape[0] < n_users:
            matrix.resize(n_users, matrix.shape[1])
        return matrix[positions]

    def baskets(
        self, lists: list[Any], unknown: UnknownIds, times: list[Any] | None = None
    ) -> UserItems:
        """Lists of items, each in the order in which they were taken, as a table.

        Of an item that is there twice, the last counts. Without ``times``, all were taken just now,
        one after the other.
        """
        if unknown == "error" or isinstance(self.items, ByPosition):
            rows = [self.items.positions("liked", items) for items in lists]
        else:
            rows = [self.items.find(self.items.several("liked", items)[0]) for items in lists]
            self.items.ignore_unknown("liked", np.concatenate(rows))
        moments = [NOW + np.arange(len(row)) for row in rows] if times is None else times
        pairs = [_latest_of_each(*pair) for pair in zip(rows, moments, strict=True)]
        indptr = offsets(np.array([len(items) for items, _ in pairs]))
        items, taken_at = (np.concatenate(part) for part in zip(*pairs, strict=True))
        return UserItems(indptr, items, None, len(self.items.ids), times=taken_at)

    def _looked_up(self, table: Interactions, users: list[Any]) -> UserItems:
        """The rows of users in a table, looked up by ids, with the items of the model."""
        places = ByOutsideId(table.users, "users").find(users)
        is_there = places >= 0
        part = rows_of(table, places[is_there])
        if table.items != self.items.ids:
            known = self.items.ids.find(table.items[:])
            part = replace(part, items=known[part.items], n_items=len(self.items.ids))
            part = part.take(part.items >= 0).sorted_by_item()
        lengths = np.zeros(len(users), dtype=np.int64)
        lengths[is_there] = part.user_counts()
        return replace(part, indptr=offsets(lengths))


def _latest_of_each(items: Ints32, times: NDArray[Any]) -> tuple[Ints32, NDArray[Any]]:
    """The known items of a list in rising order, each with the last of its times."""
    known = np.flatnonzero(items >= 0)
    order = known[np.lexsort((times[known], items[known]))]
    ends = np.append(items[order][1:] != items[order][:-1], True)[: len(order)]
    return items[order][ends], times[order][ends]


def asks_by_id(default: bool = False, /, **arguments: Any) -> bool:
    """Whether a question is in outside ids, that is whether its users and items are text.

    ``default`` is the answer where the question names no user and no item.

    Examples
    --------
    >>> asks_by_id(userid="ann", items=None), asks_by_id(userid=[3, 1], items=[7])
    (True, False)
    """
    kinds = {name: _is_text(value) for name, value in arguments.items() if value is not None}
    kinds = {name: is_text for name, is_text in kinds.items() if is_text is not None}
    if len(set(kinds.values())) < 2:
        return bool(next(iter(kinds.values()), default))
    text = ", ".join(name for name, is_text in kinds.items() if is_text)
    other = ", ".join(name for name, is_text in kinds.items() if not is_text)
    raise TypeError(
        f"a question must be in outside ids or in positions; {text} is text, which is an outside "
        f"id, and {other} is a position. model.by_id takes outside ids of any kind"
    )


def lists_of_items(liked: Any) -> tuple[list[Any], bool]:
    """One list of items, or lists of several people, as a list of lists; and whether it is one."""
    if not _is_list(liked):
        raise TypeError(f"liked must be a list of items, or a list of such lists; got {liked!r}")
    several = len(liked) > 0 and all(
        _is_list(entry) and not isinstance(entry, tuple) for entry in liked
    )
    return (list(liked) if several else [liked]), not several


def times_of_lists(
    times: Any, lists: list[Any], *, is_one: bool, check: Callable[[str, bool], None]
) -> list[NDArray[Any]] | None:
    """The times at which items of lists were taken, a list for each; dates are microseconds.

    ``check`` is told the name of the argument, and whether its times are dates.
    """
    if times is None:
        return None
    columns = [times] if is_one else list(times) if _is_list(times) else []
    if not all(map(_is_list, columns)):
        raise ArgumentError(
            "times", f"must be a list for each list of items, with its times; got {times!r:.80}"
        )
    lengths = [len(column) for column in columns]
    if lengths != [len(entry) for entry in lists]:
        raise ArgumentError(
            "times",
            f"must have a time for each item of liked, {[len(entry) for entry in lists]!s:.80}; "
            f"it has {lengths!s:.80}",
        )
    moments = []
    for column in columns:
        if not len(column):
            moments.append(np.empty(0, np.int64))
            continue
        series, has_dates = as_times(column, "times")
        check("times", has_dates)
        if series.null_count():
            raise ArgumentError(
                "times", f"must have a time for each item of liked; got {column!r:.80}"
            )
        moments.append(series.to_numpy())
        if has_dates:
            check_past(Argument("times"), moments[-1])
    return moments


def _is_list(value: Any) -> bool:
    """Whether a value holds ids, rather than being one."""
    is_text = isinstance(value, str | bytes)
    return hasattr(value, "__len__") and not is_text and getattr(value, "ndim", 1) > 0


def _is_text(ids: Any) -> bool | None:
    """Whether ids are text; None where there are none to tell by."""
    if not _is_list(ids):
        return isinstance(ids, str) or getattr(ids, "dtype", np.dtype(int)).kind == "U"
    if not len(ids):
        return None
    kind = getattr(getattr(ids, "dtype", None), "kind", "O")
    if kind != "O":
        return bool(kind == "U")
    answers = {issubclass(kind, str) for kind in set(map(type, ids))}
    if len(answers) > 1:
        raise TypeError(
            f"ids must be all text, which are outside ids, or all integers, which are positions; "
            f"got {ids!r:.80}. model.by_id takes outside ids of any kind"
        )
    return answers.pop()


# --------------------------------------------------------------------- checks of positions


def checked_positions(argument: str, positions: ArrayLike, n: int, side: str) -> Ints32:
    """An array of positions among n users or items; an error names one that is out of range."""
    array: NDArray[Any] = np.asarray(positions)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise IndexError(
            f"{argument} must be a list of integers; got {array.dtype} of shape {array.shape}"
        )
    wrong = np.flatnonzero((array < 0) | (array >= n)) if array.size else array
    if wrong.size:
        bad = array[wrong[0]]
        raise UnknownIdError(
            f"{argument} must be {side} of the model, 0 to {n - 1}; got {bad}",
            int(bad),
            side.removesuffix("s"),
        )
    return np.ascontiguousarray(array, dtype=np.int32)


def candidates(naming: Naming, only: tuple[str, Any], without: tuple[str, Any]) -> Ints32 | None:
    """The positions to choose among, in rising order; None for all.

    ``only`` and ``without`` are the names and the values of two arguments.
    """
    (only_name, only_these), (without_name, without_these) = only, without
    nothing_left_out = without_these is None or not np.size(without_these)
    if only_these is not None:
        if not nothing_left_out:
            raise ArgumentError(
                only_name, f"and {without_name} cannot be given together; leave one out"
            )
        return np.unique(naming.known_positions(only_name, only_these))
    if nothing_left_out:
        return None
    is_candidate = np.ones(len(naming.ids), dtype=bool)
    is_candidate[naming.known_positions(without_name, without_these)] = False
    return np.flatnonzero(is_candidate).astype(np.int32)


def items_of_users(
    user_items: Any, n_users: int, n_items: int, *, or_fewer: bool = False
) -> UserItems:
    """The items of the users of a question, out of a CSR matrix; stored zeros count too.

    The matrix has a column for each item, ``or_fewer``: those of the first ones alone.
    """
    if user_items is None:
        raise ArgumentError(
            "user_items",
            "is missing: give what the users have already, a CSR matrix or Interactions, or leave "
            "nothing out with ",
            Argument("filter_already_liked_items", False),
        )
    table: Any = getattr(user_items, "matrix", user_items)
    is_table = isinstance(table, UserItems)
    if not is_table and getattr(table, "format", "") != "csr":
        raise ArgumentError(
            "user_items",
            "must be a CSR matrix or Interactions, one row for each user asked for; got "
            f"{type(user_items).__name__}",
        )
    has_columns = table.shape[1] == n_items or (or_fewer and table.shape[1] < n_items)
    if table.shape[0] != n_users or not has_columns:
        raise ArgumentError(
            "user_items",
            f"must have one row for each of the {n_users} users asked for and one column for each "
            f"of the {n_items} items; its shape is {table.shape}",
        )
    if is_table:
        return UserItems(table.indptr, table.items, None, n_items)
    matrix = check_sparse("user_items", table)
    if not rows_are_sorted(matrix.indptr, matrix.indices):
        matrix = sound_csr("user_items", matrix).sorted_indices()
    return UserItems(
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices[: matrix.indptr[-1]].astype(np.int32, copy=False),
        None,
        n_items,
    )


def check_same_ids(
    name: str,
    data: Any,
    reference_name: str,
    reference: Any,
    sides: tuple[SideName, ...] = ("users", "items"),
    *,
    or_positions: bool = True,
) -> None:
    """Raise an error where a table has other ids than another table or a model.

    Positions, as a matrix has them, go with ids that are no integers where ``or_positions``.
    """
    for side in sides:
        ids = ids_of(data, side)
        if not isinstance(ids, Ids):  # then those of a model in shards need not be read
            continue
        expected = ids_of(reference, side)
        if not isinstance(expected, Ids) or ids == expected:
            continue
        has_features = getattr(reference, f"{side.removesuffix('s')}_centres_", None) is not None
        if has_features and np.array_equal(ids[:], expected[: len(ids)]):
            continue  # features brought more into the model
        other_kind = or_positions and ids.kind != expected.kind
        if other_kind and any(x == Ids.range(len(x)) for x in (ids, expected)):
            continue
        table = "the table it was fitted to" if reference_name == "the model" else reference_name
        raise ArgumentError(
            name,
            f"must have the {side} of {reference_name}, in their order; "
            f"{name}.align({table}) sees to it",
        )

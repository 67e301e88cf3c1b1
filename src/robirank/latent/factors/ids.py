"""Outside ids in questions to a model and in its answers.

Text is always an outside id, and an integer is always a position, as in the implicit package. A
question is in one of the two languages, and the answer is in the language of the question.
`ById` takes outside ids of every kind, integers too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robirank._callers import warn
from robirank._checks import check_choice
from robirank._sparse import offsets, sound_csr
from robirank._types import Floats32, Ints32
from robirank.data.ids import Ids
from robirank.data.interactions import Interactions
from robirank.data.nearest import did_you_mean
from robirank.latent.factors.query import UnknownUsers, basket_table

if TYPE_CHECKING:
    import polars as pl

Side = Literal["users", "items"]
#: What to do with outside ids that a model does not know.
UnknownIds = Literal["error", "ignore"]
#: Items or users by their ids (None where none is left), and their scores.
IdAnswer = tuple[NDArray[Any], Floats32]


class UnknownIdWarning(UserWarning):
    """Outside ids that the model does not know were ignored."""


def ids_of(data: Any, side: Side) -> Any:
    """The outside ids of a table's users or items, or of a model's; None where there are none."""
    one = side.removesuffix("s")
    if hasattr(data, f"{one}_ids_"):
        return getattr(data, f"{one}_ids_")
    read = getattr(data, f"{one}_ids", None)
    return getattr(data, side, None) if read is None else read()


def check_same_ids(
    name: str,
    data: Any,
    known_name: str,
    known: Any,
    sides: tuple[Side, ...] = ("users", "items"),
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
        expected = ids_of(known, side)
        if not isinstance(expected, Ids) or ids == expected:
            continue
        other_kind = or_positions and ids.kind != expected.kind
        if other_kind and any(x == Ids.range(len(x)) for x in (ids, expected)):
            continue
        table = "the table it was fitted to" if known_name == "the model" else known_name
        raise ValueError(
            f"{name} must have the {side} of {known_name}, in their order; {name}.align({table}) "
            "sees to it"
        )


class ById:
    """A model that is asked in outside ids and answers in them.

    `FactorModel.by_id` gives it. Its methods are those of the model, with the same arguments. Ids
    are what they are in the `Interactions` that the model was fitted to: text, integers, anything
    that can be a key of a dict. Where the model was fitted to a matrix, they are positions.

    Answers are object arrays of ids, with None where no item is left, and scores.

    Parameters
    ----------
    model : object with ``recommend``, ``similar_items`` and ``similar_users``
        Of positions.
    users, items : Ids

    Examples
    --------
    >>> from robirank import Interactions, LatentRoBiRank
    >>> data = Interactions.from_arrays([7, 7, 9, 9, 9], [31, 17, 31, 17, 24])
    >>> model = LatentRoBiRank(factors=2, random_state=0).fit(data, show_progress=False)
    >>> ids, scores = model.by_id.recommend(7, data, N=2)
    >>> ids.tolist()
    [24, None]
    """

    def __init__(self, model: Any, users: Ids, items: Ids) -> None:
        self._model, self.users, self.items = model, users, items

    def recommend(
        self,
        userid: Any,
        user_items: Any = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: Any = None,
        recalculate_user: bool = False,
        items: Any = None,
        *,
        unknown_users: UnknownUsers | None = None,
    ) -> IdAnswer:
        """Find the best items for one user or several; see `FactorModel.recommend`.

        Where ``user_items`` is an `Interactions`, the rows of the users are looked up in it by
        their ids, so that it may be the whole table; a user who is not in it has nothing. With
        ``recalculate_user=True`` users need not be in the model, but must be in ``user_items``.
        """
        asked, one = _several(userid, self.users)
        if recalculate_user:
            codes = np.arange(len(asked), dtype=np.int32)
        else:
            codes = _positions("userid", asked, self.users, "user")
        if isinstance(user_items, Interactions):
            if recalculate_user:
                _positions("userid", asked, user_items.users, "user", "user_items")
            user_items = self._rows(user_items, asked)
        found, scores = self._model.recommend(
            codes,
            user_items,
            N,
            filter_already_liked_items,
            self._some_items("filter_items", filter_items),
            recalculate_user,
            self._some_items("items", items),
            unknown_users=unknown_users,
        )
        return _answer(found, scores, self.items, one)

    def recommend_for(
        self,
        liked: Any,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: Any = None,
        items: Any = None,
        *,
        unknown: UnknownIds = "error",
        unknown_users: UnknownUsers | None = None,
    ) -> IdAnswer:
        """Find the best items for someone new; see `FactorModel.recommend_for`."""
        check_choice("unknown", unknown, get_args(UnknownIds))
        lists, one = lists_of(liked)
        found, scores = self._model.recommend(
            np.arange(len(lists)),
            basket_table(self._baskets(lists, unknown), len(self.items)),
            N,
            filter_already_liked_items,
            self._some_items("filter_items", filter_items),
            True,
            self._some_items("items", items),
            unknown_users=unknown_users,
        )
        return _answer(found, scores, self.items, one)

    def recommend_frame(
        self,
        users: Any = None,
        train: Any = None,
        N: int = 10,
        *,
        filter_items: Any = None,
        items: Any = None,
        unknown_users: UnknownUsers | None = None,
    ) -> pl.DataFrame:
        """Recommend to many users, as a table; see `FactorModel.recommend_frame`."""
        from robirank.latent.factors.frame import id_series, lists_frame

        asked = self.users[:].tolist() if users is None else _several(users, self.users)[0]
        codes = _positions("users", asked, self.users, "user")
        found, scores = self._model.recommend(
            codes,
            self._table(train, asked, codes),
            N,
            train is not None,
            self._some_items("filter_items", filter_items),
            False,
            self._some_items("items", items),
            unknown_users=unknown_users,
        )
        return lists_frame(id_series("user", self.users, codes), found, scores, self.items)

    def similar_items(
        self,
        itemid: Any,
        N: int = 10,
        recalculate_item: bool = False,
        item_users: Any = None,
        filter_items: Any = None,
        items: Any = None,
    ) -> IdAnswer:
        """Find the items whose factors point the same way; see `FactorModel.similar_items`."""
        asked, one = _several(itemid, self.items)
        found, scores = self._model.similar_items(
            _positions("itemid", asked, self.items, "item"),
            N,
            recalculate_item,
            item_users,
            self._some_items("filter_items", filter_items),
            self._some_items("items", items),
        )
        return _answer(found, scores, self.items, one)

    def similar_users(
        self, userid: Any, N: int = 10, filter_users: Any = None, users: Any = None
    ) -> IdAnswer:
        """Find the users whose factors point the same way; see `FactorModel.similar_users`."""
        asked, one = _several(userid, self.users)
        found, scores = self._model.similar_users(
            _positions("userid", asked, self.users, "user"),
            N,
            _known("filter_users", filter_users, self.users, "user"),
            _known("users", users, self.users, "user"),
        )
        return _answer(found, scores, self.users, one)

    def _some_items(self, name: str, ids: Any) -> Ints32 | None:
        return _known(name, ids, self.items, "item")

    def _baskets(self, lists: list[Any], unknown: UnknownIds) -> list[Ints32]:
        """The positions of the items of each list."""
        if unknown == "error":
            return [_positions("liked", ids, self.items, "item") for ids in lists]
        codes = [_codes(_several(ids, self.items)[0], self.items) for ids in lists]
        _warn_of_unknown("liked", np.concatenate(codes), "item")
        return [each[each >= 0] for each in codes]

    def _table(self, train: Any, asked: list[Any], codes: Ints32) -> Any:
        """The rows of some users in a table of all: by their ids, or by their positions."""
        if train is None:
            return None
        if isinstance(train, Interactions):
            return self._rows(train, asked)
        if not hasattr(train, "tocsr") or train.shape[0] != len(self.users):
            raise ValueError(
                f"train must be a CSR matrix of all {len(self.users)} users, or Interactions; got "
                f"{type(train).__name__} of shape {np.shape(train)}"
            )
        return sound_csr("train", train)[codes]

    def _rows(self, table: Interactions, users: list[Any]) -> Any:
        """The rows of some users in the items of the model, as a CSR matrix."""
        place = _codes(users, table.users)
        found = table.matrix[place[place >= 0]]
        columns, kept = found.indices, np.ones(found.nnz, dtype=bool)
        if table.items != self.items:
            columns = self.items.find(table.items[:])[columns]
            kept = columns >= 0
        lengths = np.zeros(len(users), dtype=np.int64)
        lengths[place >= 0] = np.diff(np.concatenate([[0], np.cumsum(kept)])[found.indptr])
        entries = (found.data[kept], columns[kept], offsets(lengths))
        return sparse.csr_matrix(entries, shape=(len(users), len(self.items)))


def in_ids(default: bool = False, /, **arguments: Any) -> bool:
    """Whether a question is in outside ids, that is whether its users and items are text.

    ``default`` is the answer where it names no user and no item.

    Examples
    --------
    >>> in_ids(userid="ann", items=None), in_ids(userid=[3, 1], items=[7])
    (True, False)
    """
    spoken = {name: _is_text(given) for name, given in arguments.items() if given is not None}
    said = {name: text for name, text in spoken.items() if text is not None}
    if len(set(said.values())) < 2:
        return any(said.values()) if said else default
    text = ", ".join(name for name, is_text in said.items() if is_text)
    other = ", ".join(name for name, is_text in said.items() if not is_text)
    raise TypeError(
        f"a question must be in outside ids or in positions; {text} is text, which is an outside "
        f"id, and {other} is a position. model.by_id takes outside ids of any kind"
    )


def lists_of(liked: Any) -> tuple[list[Any], bool]:
    """The items of someone, or lists of items of several; and whether it is one."""
    if not _is_list(liked):
        raise TypeError(f"liked must be a list of items, or a list of such lists; got {liked!r}")
    several = len(liked) > 0 and all(
        _is_list(entry) and not isinstance(entry, tuple) for entry in liked
    )
    return (list(liked) if several else [liked]), not several


def _is_list(value: Any) -> bool:
    """Whether it holds ids, rather than being one."""
    text = isinstance(value, str | bytes)
    return hasattr(value, "__len__") and not text and getattr(value, "ndim", 1) > 0


def _is_text(given: Any) -> bool | None:
    """Whether ids are text; None where there are none to tell by."""
    if not _is_list(given):
        return isinstance(given, str) or getattr(given, "dtype", np.dtype(int)).kind == "U"
    if not len(given):
        return None
    kind = getattr(getattr(given, "dtype", None), "kind", "O")
    if kind != "O":
        return bool(kind == "U")
    text = {issubclass(kind, str) for kind in set(map(type, given))}
    if len(text) > 1:
        raise TypeError(
            f"ids must be all text, which are outside ids, or all integers, which are positions; "
            f"got {given!r:.80}. model.by_id takes outside ids of any kind"
        )
    return text.pop()


def _several(ids: Any, known: Ids) -> tuple[list[Any], bool]:
    """One id or several, as a list, and whether it is one; a tuple can be an id."""
    if _is_list(ids) and not (isinstance(ids, tuple) and known.kind == "object"):
        return ids.tolist() if hasattr(ids, "tolist") else list(ids), False
    return [ids.item() if hasattr(ids, "item") else ids], True


def _known(name: str, ids: Any, known: Ids, kind: str) -> Ints32 | None:
    """The positions of those of some ids that are known; the others are counted in a warning."""
    if ids is None:
        return None
    codes = _codes(_several(ids, known)[0], known)
    _warn_of_unknown(name, codes, kind)
    return codes[codes >= 0]


def _warn_of_unknown(name: str, codes: Ints32, kind: str) -> None:
    n = int(np.count_nonzero(codes < 0))
    if n:
        warn(
            f"{name}: {n:,} of {len(codes):,} {kind}s unknown to the model, and ignored",
            UnknownIdWarning,
        )


def _positions(name: str, ids: Any, known: Ids, kind: str, where: str = "the model") -> Ints32:
    """The positions of ids; one that is not known is an error that names it."""
    asked, _ = _several(ids, known)
    codes = _codes(asked, known)
    missing = np.flatnonzero(codes < 0)
    if len(missing):
        raise ValueError(_unknown(name, asked[int(missing[0])], known, kind, where))
    return codes


def _codes(asked: list[Any], known: Ids) -> Ints32:
    """The codes of ids, −1 for one that is not there."""
    if len(asked) == 1:  # which a dict finds
        return np.array([known.find(asked[0])], dtype=np.int32)
    return known.find(asked)


def _unknown(name: str, value: Any, known: Ids, kind: str, where: str) -> str:
    """What to say of an id that is not known."""
    meant = did_you_mean(known.close_to(str(value)))
    some = ", ".join(repr(known[code]) for code in range(min(3, len(known))))
    such = meant or f", which has {kind}s such as {some}"
    return f"{name}: there is no {kind} {value!r:.80} in {where}{such}"


def _answer(found: Ints32, scores: Floats32, ids: Ids, one: bool) -> IdAnswer:
    names = np.full(found.shape, None, dtype=object)
    there = found >= 0
    names[there] = ids[found[there]]
    return (names[0], scores[0]) if one else (names, scores)

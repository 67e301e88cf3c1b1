r"""Why a user gets an item: the score as a sum over the items that the user has.

With V fixed, the row of user x minimises

.. math:: \sum_{y \in Ω_x} w_y\, ρ(t_y) + \tfrac{λ a_x}{2} ‖U_x - c_x‖²,
          \qquad t_y = \sum_{y' \ne y} σ_0(⟨U_x, V_y⟩ - ⟨U_x, V_{y'}⟩),

where :math:`c_x` is what features say of the user, and zero without features. There the gradient
vanishes, which says what the row is a sum of:

.. math:: U_x = c_x + \sum_{y \in Ω_x} \frac{w_y ρ'(t_y)}{λ a_x}
          \Bigl(\sum_{y' \ne y} h_{yy'} V_y - \sum_{y' \ne y} h_{yy'} V_{y'}\Bigr) + r_x,
          \qquad h_{yy'} = -σ_0'(⟨U_x, V_y - V_{y'}⟩).

Each item y of the user pulls the row to itself and away from all other items; :math:`r_x` is zero
at the minimum. The inner product with :math:`V_i` makes a sum of the score of item i
(docs/method/latent.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robirank._blas import one_blas_thread
from robirank._types import Floats32, Floats64, Ints32
from robirank.data.feature_rows import FeatureRows
from robirank.latent.factors.centres import Centres
from robirank.latent.factors.content import UserContent
from robirank.latent.factors.dislikes import MARGIN
from robirank.latent.factors.leads import Upcoming
from robirank.losses import RHOS, RhoName, sigma0, sigma0_prime

if TYPE_CHECKING:
    import polars as pl

    from robirank.latent.factors.factors import AnySide

_CELLS = 1 << 22  # pairs of a user's items with others that are looked at at a time

#: How ids are written in a text.
Called = Callable[[Any], str]


@dataclass(frozen=True, eq=False)
class RowTerms:
    r"""The row of a user as a sum of rows: ``centre + Σ (own − others) + rest``.

    Attributes
    ----------
    row, centre : arrays of shape (factors,)
        U_x, and what features say of it.
    items : int32 array of shape (n,)
        The positions of the items that the user has.
    own, others : arrays of shape (n, factors)
        How far each of them pulls the row to itself, and what this takes from the row, because all
        other items are to be ranked below it.
    """

    row: Floats64
    centre: Floats64
    items: Ints32
    own: Floats64
    others: Floats64

    @property
    def rest(self) -> Floats64:
        """What the row has beside its terms; zero where the row is at its optimum."""
        return self.row - self.centre - (self.own - self.others).sum(axis=0)

    @property
    def distance(self) -> float:
        """The length of ``rest``, as a share of that of the row or of the sum of its terms."""
        longest = max(np.linalg.norm(self.row), np.linalg.norm(self.row - self.rest))
        return float(np.linalg.norm(self.rest) / longest) if longest > 0 else 0.0


def row_terms(
    row: Floats32,
    V: Floats32,
    items: Ints32,
    weight: Floats32 | None = None,
    *,
    rho: RhoName,
    penalty: float,
    centre: Floats32 | None = None,
    among: NDArray[Any] | None = None,
    disliked: Ints32 | None = None,
) -> RowTerms:
    """Write the row of a user as a sum over their items; see the formula of this module.

    Parameters
    ----------
    row : array of shape (factors,)
    V : array of shape (n_items, factors)
    items : int32 array
        The positions of the items that the user has.
    weight : array, optional
        What each of them weighs in the loss; one by default.
    rho : str
    penalty : float
        The penalty weight λ a of the user, positive where the user has items.
    centre : array of shape (factors,), optional
        What the penalty pulls the row to; zeros by default.
    among : array of int, optional
        The items that inner sums run over, those of the user included; all by default.
    disliked : int32 array, optional
        The items that the user took against (`robirank.latent.factors.dislikes`).

    Examples
    --------
    One factor, items at 1 and 0, of which the user has the first. Under the identity loss the row u
    is at its optimum where λ a u = 1 / (1 + 2^u).

    >>> V = np.array([[1.0], [0.0]], np.float32)
    >>> first = np.array([0], np.int32)
    >>> terms = row_terms(np.ones(1, np.float32), V, first, rho="identity", penalty=1 / 3)
    >>> terms.own.round(9).tolist(), terms.others.tolist(), terms.distance < 1e-12
    ([[1.0]], [[0.0]], True)
    """
    u = row.astype(np.float64)
    c = np.zeros_like(u) if centre is None else centre.astype(np.float64)
    mine = V[items].astype(np.float64)
    scores = (mine @ u)[:, None]
    t, shares, beaten = np.zeros(len(items)), np.zeros(len(items)), np.zeros_like(mine)
    with one_blas_thread():
        for rows, raised in _chunks(V, among, disliked, len(items)):
            ahead = scores - (rows @ u + raised)
            t += sigma0(ahead).sum(axis=1)
            h = -sigma0_prime(ahead)
            shares += h.sum(axis=1)
            beaten += h @ rows
    # An item was held against itself as well: σ0(0) = 1 and h = ½.
    rho_weight = RHOS[rho].prime(np.maximum(t - 1.0, 0.0))
    scale = (rho_weight if weight is None else rho_weight * weight)[:, None] / (penalty or 1.0)
    own = scale * (shares - 0.5)[:, None] * mine
    return RowTerms(u, c, items, own, scale * (beaten - 0.5 * mine))


def _chunks(
    V: Floats32, among: NDArray[Any] | None, disliked: Ints32 | None, n_own: int
) -> Iterable[tuple[Floats64, Floats64]]:
    """The rows of the items of the inner sums in double precision, and their margins, in parts."""
    if not n_own:
        return
    margins = np.zeros(len(V))
    if disliked is not None:
        margins[disliked] = MARGIN
    size = max(1, _CELLS // n_own)
    for begin in range(0, len(V) if among is None else len(among), size):
        part: Any = slice(begin, begin + size)
        where = part if among is None else among[part]
        yield V[where].astype(np.float64), margins[where]


class Subject(NamedTuple):
    """A user whose scores are to be explained.

    Attributes
    ----------
    terms : RowTerms
    centres : Centres or None
        What features of users mean, where features say something of this one.
    features : FeatureRows or None
        What is known of the user, one row.
    content : UserContent or None
        The items of the user that content scores compare.
    upcoming : Upcoming or None
        What the last items of the user say of the next, in a model that looks at the order.
    """

    terms: RowTerms
    centres: Centres | None
    features: FeatureRows | None
    content: UserContent | None
    upcoming: Upcoming | None = None


@dataclass(frozen=True, eq=False)
class Reasons:
    """Why a user gets an item: what its score is a sum of.

    The score is told twice. On the user's side, ``effects``, ``user_features`` and ``rest`` add up
    to it; on the side of the item, where the model knows features of items, ``item_features`` and
    ``item_rest`` do.

    Attributes
    ----------
    user, item
        As they were asked for; the user is None where there is only a list of items.
    score : float
    items : tuple
        The items that the user has, that of the largest effect first.
    effects : array of shape (n,)
        What each of them adds to the score.
    others : array of shape (n,)
        The part of each effect that comes from all other items: what they take off, because the
        user's item is to be ranked above them.
    follows : array of shape (n,)
        The part of each effect that comes from what usually follows the item; zeros in a model that
        does not look at the order.
    user_features : dict of str to float
        What each feature of the user adds.
    rest : float
        What is left, because the row is not at its optimum.
    distance : float
        How far the row is from its optimum, as a share of its length.
    item_features : dict of str to float
        What each feature of the item adds.
    item_rest : float or None
        What the item's own interactions add; None without features, and for a new item.

    Examples
    --------
    >>> from robirank import Interactions, LatentRoBiRank
    >>> plays = Interactions.from_arrays(["ann", "ann", "bob"], ["tea", "rum", "tea"])
    >>> model = LatentRoBiRank(factors=2, random_state=0).fit(plays, show_progress=False)
    >>> why = model.explain("ann", plays, "tea", recalculate_user=True)
    >>> sorted(why.items), why.distance < 0.01
    (['rum', 'tea'], True)
    >>> bool(abs(why.effects.sum() + why.rest - why.score) < 1e-9)
    True
    """

    user: Any
    item: Any
    score: float
    items: tuple[Any, ...]
    effects: Floats64
    others: Floats64
    rest: float
    distance: float
    user_features: Mapping[str, float] = field(default_factory=dict)
    item_features: Mapping[str, float] = field(default_factory=dict)
    item_rest: float | None = None
    follows: Floats64 = field(default_factory=lambda: np.zeros(0))

    def frame(self) -> pl.DataFrame:
        """All reasons as a polars DataFrame; the effects of each side add up to the score.

        The columns are side ("user" or "item"), kind ("item", "feature", "rest" or
        "interactions"), name, effect and two parts of the effect: others, which comes from all
        other items, and follows, which comes from what usually follows the item.
        """
        import polars as pl

        return pl.DataFrame(list(self.rows()), schema=SCHEMA, orient="row")

    def rows(self) -> Iterable[tuple[str, str, str | None, float, float | None, float | None]]:
        """The rows of `frame`."""
        follows = self.follows if len(self.follows) else np.zeros(len(self.items))
        parts = (self.effects.tolist(), self.others.tolist(), follows.tolist())
        for y, effect, others, following in zip(self.items, *parts, strict=True):
            yield "user", "item", str(y), effect, others, following
        for feature, effect in self.user_features.items():
            yield "user", "feature", feature, effect, None, None
        yield "user", "rest", None, self.rest, None, None
        for feature, effect in self.item_features.items():
            yield "item", "feature", feature, effect, None, None
        if self.item_rest is not None:
            yield "item", "interactions", None, self.item_rest, None, None

    def text(self, called: Called = str, top: int = 3) -> str:
        """The reasons in words, with so many items and features of each side by name.

        ``called`` says how users and items are written.

        Examples
        --------
        >>> no_others = np.zeros(2)
        >>> effects = np.array([1.3, 0.8])
        >>> print(Reasons("ann", "gin", 2.1, ("rum", "tea"), effects, no_others, 0.0, 0.0))
        gin for ann, score 2.1
        Because you have rum (+1.3), tea (+0.8).
        The row is 0 % from its optimum (+0).
        """
        who = "a new user" if self.user is None else called(self.user)
        lines = [f"{called(self.item)} for {who}, score {self.score:.4g}"]
        if self.items:
            named = _listed(zip(map(called, self.items), self.effects.tolist(), strict=True), top)
            taken = float(self.others.sum())
            after = f"; all other items together {taken:+.3g}, counted in these" if taken else ""
            lines.append(f"Because you have {named}{after}.")
        if self.follows.any():
            following = zip(map(called, self.items), self.follows.tolist(), strict=True)
            named = _listed(sorted((p for p in following if p[1]), key=lambda p: -p[1]), top)
            lines.append(f"What usually follows your last items: {named}, counted in these.")
        if self.user_features:
            lines.append(f"Because of what you are: {_strongest(self.user_features, top)}.")
        if self.item_features:
            its_own = "" if self.item_rest is None else f"; its interactions {self.item_rest:+.3g}"
            lines.append(f"Of the item: {_strongest(self.item_features, top)}{its_own}.")
        lines.append(f"The row is {100 * self.distance:.2g} % from its optimum ({self.rest:+.3g}).")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


SCHEMA = {"side": str, "kind": str, "name": str, "effect": float, "others": float, "follows": float}


def _strongest(features: Mapping[str, float], top: int) -> str:
    return _listed(sorted(features.items(), key=lambda pair: -abs(pair[1])), top)


def _listed(pairs: Iterable[tuple[str, float]], top: int) -> str:
    """The first few of some names with their effects, and the sum of the others."""
    every = [*pairs]
    said = [f"{name} ({effect:+.3g})" for name, effect in every[:top]]
    left = every[top:]
    if left:
        noun = "other" if len(left) == 1 else "others"
        said.append(f"{len(left)} {noun} ({sum(effect for _, effect in left):+.3g})")
    return ", ".join(said)


def reasons(
    subject: Subject, items: AnySide, position: int, called: Callable[[Ints32], NDArray[Any]]
) -> Reasons:
    """Explain the score of the item at a position; ``called`` gives the names of positions."""
    terms, upcoming = subject.terms, subject.upcoming or _nothing_upcoming()
    alike = _Alike.of(subject.content, items, position)
    v = alike.scale * np.asarray(items.rows[position], np.float64)
    of_taste, of_next = v[: len(terms.row)], v[len(terms.row) :]
    positions = np.unique(np.concatenate([terms.items, alike.items, upcoming.items]))
    effects, others, follows = np.zeros((3, len(positions)))
    places = np.searchsorted(positions, terms.items)
    others[places] = -(terms.others @ of_taste)
    effects[places] = terms.own @ of_taste + others[places]
    effects[np.searchsorted(positions, alike.items)] += alike.effects
    follows[np.searchsorted(positions, upcoming.items)] = upcoming.leads @ of_next
    effects += follows
    order = np.argsort(-effects, kind="stable")
    row = np.concatenate([terms.row, upcoming.row])
    score = float(row @ v + alike.effects.sum())
    left = upcoming.row - upcoming.leads.sum(axis=0)
    if subject.features is not None and not len(terms.items):  # then features say what is next too
        of_user, left = _by_feature(subject.features, subject.centres, v, 0.0), np.zeros_like(left)
    else:
        of_user = _by_feature(subject.features, subject.centres, of_taste, 0.0)
    about = None if items.centres is None else items.centres.features.take(np.array([position]))
    of_item = _by_feature(about, items.centres, alike.scale * row, alike.profile)
    is_trained = items.counts is None or items.counts[position] > 0
    return Reasons(
        user=None,
        item=called(np.array([position], np.int32)).tolist()[0],
        score=score,
        items=tuple(called(positions[order].astype(np.int32)).tolist()),
        effects=effects[order],
        others=others[order],
        follows=follows[order],
        rest=float(terms.rest @ of_taste + left @ of_next),
        distance=terms.distance,
        user_features=of_user,
        item_features=of_item,
        item_rest=score - sum(of_item.values()) if of_item and is_trained else None,
    )


def _nothing_upcoming() -> Upcoming:
    return Upcoming(np.zeros(0), np.zeros(0, np.int32), np.zeros((0, 0)))


class _Alike(NamedTuple):
    """What content scores make of the score of an item.

    Attributes
    ----------
    scale : float
        What the inner product of factors is multiplied by.
    items : int32 array
        The positions of the items that the features of this one are compared with.
    effects : array
        What each of them adds.
    profile : array of shape (n_features,), or 0
        The features of all of them, times their weight.
    """

    scale: float
    items: Ints32
    effects: Floats64
    profile: Any

    @classmethod
    def of(cls, content: UserContent | None, items: AnySide, position: int) -> _Alike:
        """The content score of the item at a position for one user; none without features."""
        none = cls(1.0, np.zeros(0, np.int32), np.zeros(0), 0.0)
        if content is None or items.centres is None or items.counts is None:
            return none
        scales, weights = content.weights.of_items(items.counts[position : position + 1])
        taken, F = content.taken.items, items.centres.features.matrix
        if not len(taken):
            return none._replace(scale=float(scales[0]))
        rows = F[taken].astype(np.float64) * (float(weights[0]) / len(taken))
        item = F[[position]].astype(np.float64).toarray()[0]
        item[-1] = 0.0  # the constant, which all items have
        profile = np.asarray(rows.sum(axis=0)).ravel()
        profile[-1] = 0.0
        return cls(float(scales[0]), taken, rows @ item, profile)


def _by_feature(
    features: FeatureRows | None, centres: Centres | None, row: Floats64, profile: Any
) -> dict[str, float]:
    """What each feature of one user or item adds to a score.

    ``row`` is the row on the other side, and ``profile`` what features weigh in content scores.
    """
    if features is None or centres is None:
        return {}
    columns, entries = features.matrix.indices, features.matrix.data.astype(np.float64)
    gains = centres.weights[columns, : len(row)].astype(np.float64) @ row
    if np.ndim(profile):
        gains += profile[columns]
    effects = (entries * gains).tolist()
    return dict(zip(features.encoder.names_of(columns), effects, strict=True))

"""Why one document stands above another: what each feature adds to the difference of scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from robirank._types import Floats64, Ints64

if TYPE_CHECKING:
    import polars as pl

    from robirank.ltr._forest import Forest


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each feature adds to the score of document A less that of document B.

    Attributes
    ----------
    features : tuple of str
        The names of the features.
    value_a, value_b : array of shape (n_features,)
        The features of both documents.
    effect : array of shape (n_features,)
        What each feature adds; the sum is ``score_a - score_b``.
    score_a, score_b : float
        The scores.

    Examples
    --------
    >>> from robirank import RoBiRank
    >>> model = RoBiRank(alpha=0.1).fit([[1.0, 0.0], [0.0, 0.0]], [1, 0])
    >>> why = model.explain([1.0, 2.0], [0.0, 1.0])
    >>> round(float(why.effect.sum()), 6) == round(why.score_a - why.score_b, 6)
    True
    >>> why.table(1)[0][0]
    'f1'
    """

    features: tuple[str, ...]
    value_a: Floats64
    value_b: Floats64
    effect: Floats64
    score_a: float
    score_b: float

    def table(self, top: int | None = None) -> list[tuple[str, float, float, float]]:
        """Rows of feature, value of A, value of B and effect, if it is not 0; the strongest first.

        With ``top``, all features but the ``top`` strongest are one last row, ``(n others)``.
        """
        order = np.argsort(-np.abs(self.effect), kind="stable")
        order = order[self.effect[order] != 0]
        shown = order if top is None else order[:top]
        rows = [
            (self.features[j], float(self.value_a[j]), float(self.value_b[j]), float(e))
            for j, e in zip(shown, self.effect[shown], strict=True)
        ]
        rest = order[len(shown) :]
        if len(rest):
            name = f"({len(rest)} other{'s' if len(rest) > 1 else ''})"
            rows.append((name, np.nan, np.nan, float(self.effect[rest].sum())))
        return rows

    def to_frame(self) -> pl.DataFrame:
        """All features as a polars DataFrame, the strongest first."""
        import polars as pl

        order = np.argsort(-np.abs(self.effect), kind="stable")
        return pl.DataFrame(
            {
                "feature": [self.features[j] for j in order],
                "a": self.value_a[order],
                "b": self.value_b[order],
                "effect": self.effect[order],
            }
        )

    def cells(self, top: int) -> list[tuple[str, str, str, str]]:
        """The rows of `table` and the scores, as text."""
        rows = [*self.table(top), ("score", self.score_a, self.score_b, self._total())]
        return [(name, _number(a), _number(b), f"{effect:+.4f}") for name, a, b, effect in rows]

    def __str__(self) -> str:
        rows = [("feature", "A", "B", "effect"), *self.cells(10)]
        width = max(len(name) for name, *_ in rows)
        return "\n".join(f"{name:{width}s} {a:>10s} {b:>10s} {e:>10s}" for name, a, b, e in rows)

    def _total(self) -> float:
        return self.score_a - self.score_b

    def plot(self, *, top: int = 10, axes: Any = None) -> Any:
        """Draw the effects as bars, the strongest on top (needs ``robirank[plots]``).

        Returns the axes; those of a new figure where none are given.
        """
        rows = self.table(top)[::-1]
        if axes is None:
            try:
                from matplotlib.figure import Figure
            except ImportError as error:
                raise ImportError(
                    "the plots need matplotlib, which is not installed; "
                    "pip install 'robirank[plots]'"
                ) from error
            size = (7.2, 1 + 0.36 * max(len(rows), 2))
            axes = Figure(figsize=size, layout="constrained").subplots()
        effects = [effect for *_, effect in rows]
        colours = ["#2f6f9f" if effect > 0 else "#b5482a" for effect in effects]
        axes.barh(range(len(rows)), effects, color=colours)
        axes.set_yticks(range(len(rows)), [_label(*row[:3]) for row in rows])
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.set_xlabel(f"effect on the score of A less that of B (in all {self._total():+.4g})")
        return axes


@dataclass(frozen=True, eq=False)
class QueryExplanation:
    """Why the documents of a query stand in the order in which a ranker puts them.

    Attributes
    ----------
    rows : array of shape (n_documents,)
        The rows of the documents, the best first.
    scores : array of shape (n_documents,)
        Their scores.
    steps : tuple of Explanation
        Why each document stands above the next: one less than there are documents.
    """

    rows: Ints64
    scores: Floats64
    steps: tuple[Explanation, ...]

    def to_frame(self) -> pl.DataFrame:
        """All steps as a polars DataFrame: rank and row of A, row of B, and `Explanation.to_frame`.

        Examples
        --------
        >>> from robirank import RoBiRank
        >>> model = RoBiRank(alpha=0.1).fit([[1.0, 0.0], [0.0, 0.0]], [1, 0])
        >>> model.explain_query([[0.0, 5.0], [2.0, 5.0]]).to_frame().columns
        ['rank', 'row_a', 'row_b', 'feature', 'a', 'b', 'effect']
        """
        import polars as pl

        schema: dict[str, Any] = dict.fromkeys(("rank", "row_a", "row_b"), pl.Int64)
        schema |= {"feature": pl.String} | dict.fromkeys(("a", "b", "effect"), pl.Float64)
        rows = [
            (i + 1, int(self.rows[i]), int(self.rows[i + 1]), *line)
            for i, step in enumerate(self.steps)
            for line in step.to_frame().iter_rows()
        ]
        return pl.DataFrame(rows, schema=schema, orient="row")


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4g}"


def _label(name: str, a: float, b: float) -> str:
    return name if np.isnan(a) and np.isnan(b) else f"{name}  ({a:.4g} against {b:.4g})"


def forest_effects(forest: Forest, a: Floats64, b: Floats64) -> Floats64:
    r"""Effects of a sum of trees: Shapley values of the features, with B as the background.

    A coalition S of features has the value of the document that has A's features in S and B's
    elsewhere. Features on the way to a leaf either must be A's (p of them), must be B's (q), or do
    not matter, so a leaf of value v adds

    .. math:: v \frac{(p-1)!\, q!}{(p+q)!} \text{ to each of the p}, \qquad
              -v \frac{p!\, (q-1)!}{(p+q)!} \text{ to each of the q.}

    This is exact (interventional TreeSHAP with one background document), and visits each node once.
    For trees of one split a feature's effect is what it adds alone, as in a linear model.

    References
    ----------
    Lundberg et al.: From local explanations to global understanding with explainable AI for trees.
    Nature Machine Intelligence 2, 2020.
    """
    effects = np.zeros(len(a))
    left_a, left_b = forest.goes_left(a).tolist(), forest.goes_left(b).tolist()
    feature, left = forest.split_feature.tolist(), forest.left_child.tolist()
    nothing: frozenset[int] = frozenset()
    todo = [(root, nothing, nothing) for root in forest.tree_offsets[:-1].tolist()]
    while todo:
        node, from_a, from_b = todo.pop()
        f = feature[node]
        if f < 0:
            value, p, q = float(forest.leaf_value[node]), len(from_a), len(from_b)
            if p:
                effects[list(from_a)] += value * _share(p, q)
            if q:
                effects[list(from_b)] -= value * _share(q, p)
            continue
        way_a, way_b = left[node] + (not left_a[node]), left[node] + (not left_b[node])
        if f in from_a or way_a == way_b:
            todo.append((way_a, from_a, from_b))
        elif f in from_b:
            todo.append((way_b, from_a, from_b))
        else:
            todo.append((way_a, from_a | {f}, from_b))
            todo.append((way_b, from_a, from_b | {f}))
    return effects


@cache
def _share(p: int, q: int) -> float:
    """(p − 1)! q! / (p + q)!, from integers of any size; 0 where it is below all floats."""
    return 1 / (p * comb(p + q, p))

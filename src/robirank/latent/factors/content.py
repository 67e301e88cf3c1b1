r"""Content scores: how much an item's features are like those of the items that a user has.

.. math:: s_{xy} = c_y ⟨U_x, V_y⟩ + g_y \Bigl⟨\frac{1}{n_x} \sum_{y' \in Ω_x} F_{y'}, F_y\Bigr⟩

Factors learn from users who share items. Of an item that few users have they know little, and its
features say more; the mean features of a user's items are the user's *profile*. With the share
:math:`q_y = 1 / (1 + 2 n_y)` of an item with n interactions,

.. math:: c_y = 1 - q_y + q_y c, \qquad g_y = (1 - q_y) γ + q_y c γ_0,

so that γ is the weight for items with many interactions, :math:`γ_0` the weight for new ones, and c
scales the scores of new items, so that these and old ones are found among each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robirank._sparse import check_rows
from robirank._types import Floats32
from robirank.data.feature_rows import FeatureRows
from robirank.data.user_items import UserItems
from robirank.errors import ArgumentError

_CELLS = 1 << 25  # numbers of a matrix of users and items, or of users and features, at a time


class Content(NamedTuple):
    """The weights of content scores; without any, scores are inner products alone.

    Attributes
    ----------
    old : float
        γ, for items with many interactions.
    new : float
        γ₀, for items without interactions.
    scale : float
        c, by which the scores of items without interactions are multiplied.

    Examples
    --------
    >>> scales, weights = Content(old=8.0, new=64.0, scale=0.25).of_items(np.array([0, 1, 10**9]))
    >>> scales.tolist(), weights.round().tolist()
    ([0.25, 0.75, 1.0], [16.0, 11.0, 8.0])
    """

    old: float = 0.0
    new: float = 0.0
    scale: float = 1.0

    def __bool__(self) -> bool:
        return self != NO_CONTENT

    def of_items(self, counts: Any) -> tuple[Floats32, Floats32]:
        """c_y and g_y of items with these numbers of interactions."""
        share = 1.0 / (1.0 + 2.0 * np.asarray(counts, np.float64))
        scales = 1.0 - share + share * self.scale
        weights = (1.0 - share) * self.old + share * self.scale * self.new
        return scales.astype(np.float32), weights.astype(np.float32)


#: No content scores.
NO_CONTENT = Content()


def check_content(content: Any) -> Content:
    """The parameter ``content`` of a model as `Content`; an error unless it fits."""
    try:
        old, new, scale = content
        weights = Content(float(old), float(new), float(scale))
    except (TypeError, ValueError):
        weights = Content(-1.0)
    if (
        isinstance(content, str)
        or min(weights) < 0
        or not np.isfinite(weights).all()
        or weights.scale == 0
    ):
        raise ArgumentError(
            "content",
            "must be None or three numbers: weights from 0 on for old and for new items, and a "
            f"positive scale; got {content!r}",
        )
    return weights


@dataclass(frozen=True, eq=False)
class UserContent:
    """The weights of content scores, and the items that each of some users has."""

    weights: Content
    taken: UserItems

    def __len__(self) -> int:
        return self.taken.n_users

    def take(self, positions: NDArray[Any]) -> UserContent:
        """The same for the users at some positions."""
        return UserContent(self.weights, self.taken.rows(positions))

    def likeness(self, features: FeatureRows, num_threads: int = 0) -> Floats32:
        """The inner products of the users' profiles with the features of all items."""
        taken, counts = self.taken, self.taken.user_counts()
        shares = np.repeat(1.0 / np.maximum(counts, 1), counts).astype(np.float32)
        means = sparse.csr_matrix((shares, taken.items, taken.indptr), shape=taken.shape)
        profiles = (means @ features.matrix).toarray()
        profiles[:, -1] = 0.0  # the constant, which all items have
        return np.ascontiguousarray(features.times(np.ascontiguousarray(profiles.T), num_threads).T)

    def batches(self, features: FeatureRows) -> Iterator[NDArray[Any]]:
        """Positions of users in batches whose profiles and scores fit into memory."""
        size = max(1, _CELLS // max(1, *features.matrix.shape))
        for begin in range(0, len(self), size):
            yield np.arange(begin, min(begin + size, len(self)))

    def to_tensors(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays that a file keeps."""
        return {
            f"{prefix}.weights": np.array(self.weights, np.float64),
            f"{prefix}.indptr": self.taken.indptr,
            f"{prefix}.items": self.taken.items,
            f"{prefix}.n_items": np.array([self.taken.n_items], np.int64),
        }

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> UserContent:
        """The inverse of `to_tensors`; a ValueError unless the arrays fit together."""
        names = ("weights", "indptr", "items", "n_items")
        parts = [arrays.get(f"{prefix}.{name}") for name in names]
        types = [None if part is None else part.dtype for part in parts]
        if types != [np.float64, np.int64, np.int32, np.int64]:
            raise ValueError(f"{prefix} must have weights and the items of users")
        weights, indptr, items, n_items = (np.asarray(part) for part in parts)
        is_weight = weights.shape == (3,) and (weights >= 0).all() and np.isfinite(weights).all()
        if not is_weight or n_items.shape != (1,):
            raise ValueError(f"{prefix} must have three weights that are not negative")
        check_rows(prefix, indptr, items, (len(indptr) - 1, int(n_items[0])))
        if indptr[-1] != len(items):
            raise ValueError(f"{prefix}.indptr must end with {len(items)}, the number of items")
        return cls(Content(*weights.tolist()), UserItems(indptr, items, None, int(n_items[0])))

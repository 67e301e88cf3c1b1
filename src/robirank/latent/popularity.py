"""Popularity: the same list for everyone, which any other model has to beat."""

from __future__ import annotations

from typing import Any, Never, Self

import numpy as np
from numpy.typing import NDArray

from robirank._types import Floats32
from robirank.data.ages import length_of_time
from robirank.data.user_items import as_user_items
from robirank.errors import Argument, ArgumentError
from robirank.latent.factors.factor_model import FactorModel
from robirank.latent.factors.factors import Factors, Side
from robirank.registry import register


@register
class Popularity(FactorModel):
    r"""Recommends what most users have.

    The score of an item is the number of its interactions, for every user alike,

    .. math:: s_{xy} = |\{x' : (x', y) \text{ is an interaction}\}|

    or the number of those in the last days before the latest interaction. Users are told apart by
    what they have already, which is left out.

    Parameters
    ----------
    window : float or str, optional
        Count the interactions of so long a time before the latest one. Where the times of the table
        are dates: text, a number of minutes, hours, days or weeks such as "90m", "12h", "30d" or
        "4w". Where they are numbers: a number in their unit. Default: count all of them.
    num_threads : int, default=0
        0: every core.

    Attributes
    ----------
    item_counts_ : int32 array of shape (n_items,)
        The interactions that were counted.
    user_factors, item_factors : float32 arrays
        Ones, and the counts.
    user_ids_, item_ids_ : Ids
        Outside ids, where the model was fitted to `Interactions`.

    Examples
    --------
    >>> from robirank import Interactions, Popularity
    >>> users, items = ["ann", "bob", "eve", "dan"], ["tea", "tea", "rum", "rum"]
    >>> plays = Interactions.from_arrays(users, items, times=[1, 2, 8, 9])
    >>> Popularity().fit(plays).recommend("ann", plays, N=1)[0].tolist()
    ['rum']
    >>> Popularity(window=5).fit(plays).item_counts_.tolist()
    [0, 2]
    """

    def __init__(self, window: float | str | None = None, *, num_threads: int = 0) -> None:
        self.window = window
        self.num_threads = num_threads

    def fit(self, user_items: Any, show_progress: bool = True) -> Self:  # noqa: ARG002
        """Count the interactions of each item.

        Parameters
        ----------
        user_items : sparse matrix of shape (n_users, n_items), or Interactions
            What is stored and not zero counts as one interaction.
        show_progress : bool
            Without meaning, as there is nothing to wait for.

        Returns
        -------
        self
        """
        interactions = as_user_items(user_items)
        items = interactions.items
        if self.window is not None:
            items = items[self._is_recent(user_items)]
        counts = np.bincount(items, minlength=interactions.n_items)
        self.factors_ = Factors(
            Side(np.ones((interactions.n_users, 1), np.float32), interactions.user_ids),
            Side(
                counts.astype(np.float32)[:, None],
                interactions.item_ids,
                counts.astype(np.int32),
            ),
        )
        return self

    def fold_in(self, user_items: Any) -> Floats32:
        """The factors of new users, which are those of everyone."""
        return np.ones((user_items.shape[0], 1), np.float32)

    def similar_items(self, *_: Any, **__: Any) -> Never:
        """Not offered: all items point the same way."""
        raise NotImplementedError("Popularity knows no similar items; fit a LatentRoBiRank")

    def similar_users(self, *_: Any, **__: Any) -> Never:
        """Not offered: all users are alike."""
        raise NotImplementedError("Popularity knows no similar users; fit a LatentRoBiRank")

    def _is_recent(self, user_items: Any) -> NDArray[np.bool_]:
        """Which interactions lie in the window before the latest one."""
        times = getattr(user_items, "timestamps", None)
        if times is None:
            raise ArgumentError(
                Argument("window", self.window),
                "needs a table with times: Interactions, read with ",
                Argument("time"),
            )
        length = length_of_time("window", self.window, user_items.has_dates)
        recent: NDArray[np.bool_] = times > times.max() - length
        return recent

"""What a question to a model wants, and who asks it; its arguments are checked here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from robirank._checks import check_count, check_fraction
from robirank._types import Ints32
from robirank.data.user_items import Mask, UserItems
from robirank.latent.factors.bound_rules import BoundRules
from robirank.latent.factors.factors import Queries
from robirank.latent.factors.questions import Naming, candidates
from robirank.latent.factors.unknown_users import UnknownUsers, check_policy


class Asked(NamedTuple):
    """Who asks a question.

    Attributes
    ----------
    queries : Queries
    users : int32 array or None
        Their positions; None for new users.
    liked : UserItems or None
        The items that each is not to get.
    """

    queries: Queries
    users: Ints32 | None
    liked: UserItems | None


@dataclass(frozen=True, eq=False)
class Wanted:
    """Which items a question wants; see `FactorModel.recommend`.

    ``chosen_by`` is the argument that says the candidates.
    """

    n_best: int
    candidates: Ints32 | None
    without_liked: bool
    unknown_users: UnknownUsers | None
    rules: BoundRules | None
    chosen_by: str
    variety: float = 0.0
    popularity: float = 0.0

    @classmethod
    def of(
        cls,
        naming: Naming,
        N: int,
        without_liked: bool,
        filter_items: Any,
        items: Any,
        unknown_users: UnknownUsers | None,
        rules: BoundRules | None,
        variety: float,
        popularity: float,
    ) -> Wanted:
        """Check the arguments and look up items."""
        check_count("N", N)
        check_fraction("variety", variety)
        check_fraction("popularity", popularity)
        check_policy(unknown_users)
        if rules is not None:
            rules.check_length(int(N))
        among = candidates(naming, ("items", items), ("filter_items", filter_items))
        most = len(naming.ids) if items is None or among is None else len(among)
        chosen_by = "filter_items" if items is None else "items"
        return cls(
            min(int(N), most),
            among,
            without_liked,
            unknown_users,
            rules,
            chosen_by,
            float(variety),
            float(popularity),
        )

    def masks(self, n_items: int) -> dict[str, Mask]:
        """The candidates as a mask, by the name of the argument."""
        if self.candidates is None:
            return {}
        mask = np.zeros(n_items, bool)
        mask[self.candidates] = True
        return {self.chosen_by: mask}

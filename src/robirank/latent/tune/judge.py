"""How good factors are on held-out interactions: those of old items, of new items, of new users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robirank._types import Floats32, Floats64, Ints32, Ints64
from robirank.data.user_items import UserItems
from robirank.latent.factors.content import Content, UserContent
from robirank.latent.factors.factors import Factors
from robirank.latent.factors.list_metrics import (
    METRICS,
    check_metric,
    metric_values,
    sample,
)
from robirank.latent.factors.topk import top_rows
from robirank.latent.solvers.problem import Problem
from robirank.latent.tune.split import Split

_MOST_USERS = 4000  # of a group, for whom items are ranked
_MOST_CELLS = 1 << 26  # scores of users and items that are held

#: The metric by group of held-out interactions.
Parts = dict[str, float]


@dataclass(frozen=True)
class Group:
    """Some held-out interactions, ranked among some items, for a sample of their users.

    ``taken`` has what these users have to train on, which is left out of their lists.
    """

    users: Ints32
    held_out: UserItems
    candidates: Ints32
    taken: UserItems

    @classmethod
    def of(
        cls, train: UserItems, held_out: UserItems, candidates: Ints64, most: int, seed: int
    ) -> Group:
        """A group of held-out interactions, for so many users at most."""
        users = sample(np.flatnonzero(held_out.user_counts()), most, seed)
        positions = users.astype(np.int32)
        return cls(positions, held_out.rows(users), candidates.astype(np.int32), train.rows(users))

    def values(
        self,
        factors: Factors,
        metric: str,
        problem: Problem,
        *,
        scale: Floats32 | None = None,
        added: Floats32 | None = None,
    ) -> Floats64:
        """The metric of each user; items are scaled, and ``added`` is added to the scores."""
        kind, k = check_metric(metric)
        lists, _ = top_rows(
            factors.users.rows,
            self.users,
            factors.items.rows,
            min(k, len(self.candidates)),
            candidates=self.candidates,
            excluded=self.taken,
            scale=scale,
            added=added,
            num_threads=problem.num_threads,
            device=problem.device,
        )
        values: Floats64 = metric_values(lists, self.held_out, (k,))[METRICS.index(kind), 0]
        return values


class Judge:
    """Judges factors by the held-out interactions of a split with features, group by group.

    "old" has those of users and items with interactions to train on, "new_items" ranks the other
    items for these users, and "new_users" ranks the items for the other users.
    """

    def __init__(self, split: Split, problem: Problem) -> None:
        self._split, self._problem = split, problem
        self._groups = groups(split, problem.seed)

    def parts(self, factors: Factors, content: Content | None = None) -> Parts:
        """The metric of each group, with content scores where weights of them are given."""
        metric, problem, train = self._split.metric, self._problem, self._split.train
        if not content or train.item_features is None:
            return {
                name: float(group.values(factors, metric, problem).mean())
                for name, group in self._groups.items()
            }
        scales, weights = content.of_items(train.item_counts())
        values = {}
        for name, group in self._groups.items():
            likeness = UserContent(content, group.taken).likeness(train.item_features)
            of_users = group.values(
                factors, metric, problem, scale=scales, added=weights * likeness
            )
            values[name] = float(of_users.mean())
        return values


def groups(split: Split, seed: int, most: int = _MOST_USERS) -> dict[str, Group]:
    """The groups of a split with features that have interactions, each of so many users or less."""
    train, held_out = split.train, split.held_out
    most = max(1, min(most, _MOST_CELLS // train.n_items))
    is_old_item, is_old_user = np.ones(train.n_items, bool), np.ones(train.n_users, bool)
    if train.item_features is not None:
        is_old_item = train.item_counts() > 0
    if train.user_features is not None:
        is_old_user = train.user_counts() > 0
    by_old_user = np.repeat(is_old_user, held_out.user_counts())
    on_old_item = is_old_item[held_out.items]
    chosen = {
        "old": (by_old_user & on_old_item, is_old_item),
        "new_items": (by_old_user & ~on_old_item, ~is_old_item),
        "new_users": (~by_old_user & on_old_item, is_old_item),
    }
    return {
        name: Group.of(train, held_out.take(taken), np.flatnonzero(candidates), most, seed)
        for name, (taken, candidates) in chosen.items()
        if taken.any()
    }

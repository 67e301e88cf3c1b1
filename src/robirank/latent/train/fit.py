"""One way to fit: open the training, settle what was left open, run the loop.

A fit on a cluster differs from a local one in the engine that the request names and in nothing
else: `robirank.latent.train.local` and `robirank.latent.train.cluster` each have a `Training`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from robirank._types import Floats32, Ints32
from robirank.data.records import Records
from robirank.latent.factors.ids import check_same_ids
from robirank.latent.solvers.problem import Problem, TableShape
from robirank.latent.train.options import FitOptions
from robirank.latent.train.progress import Progress
from robirank.latent.train.request import Request


@dataclass(frozen=True)
class FitResult:
    """What came of a fit.

    Attributes
    ----------
    factors : (U, V) or ShardedModel
    progress : Progress
    problem : Problem
    user_ids, item_ids : Ids or None
    item_counts : int32 array
        The number of records of each item.
    """

    factors: Any
    progress: Progress
    problem: Problem
    user_ids: Any
    item_ids: Any
    item_counts: Ints32


class Training(Protocol):
    """The tables of a fit, read and checked, and the means to train on them."""

    @property
    def shape(self) -> TableShape:
        """The numbers of interactions of users and items."""

    @property
    def records(self) -> Records | None:
        """The table, where it is in the memory of this process."""

    @property
    def validation(self) -> Records | None:
        """The validation set, where there is one in the memory of this process."""

    def saved_regularization(self) -> float | None:
        """The λ of the checkpoint that the fit goes on from; None where there is none."""

    def run(self, problem: Problem) -> FitResult:
        """Train to the end."""


@contextlib.contextmanager
def open_training(
    request: Request,
    data: Any,
    options: FitOptions,
    start: tuple[Floats32, Floats32] | None = None,
) -> Iterator[Training]:
    """Read the tables of a fit; ``start`` is where the factors begin, random rows by default."""
    if request.engine == "local":
        from robirank.latent.train.local import LocalTraining

        yield LocalTraining(request, data, options, start)
    else:
        from robirank.latent.train.cluster import open_cluster

        with open_cluster(request, data, options) as training:
            yield training


def title(request: Request, problem: Problem, more: str = "") -> str:
    """The title of the progress line."""
    return f"{request.model} ({problem.solver}{more}, λ = {problem.penalty.regularization:.3g})"


def check_validation(validation: Any, n_records: int, user_items: Any) -> None:
    """Raise an error unless held-out interactions are of the training set's users and items."""
    if validation.shape != user_items.shape:
        raise ValueError(
            f"validation must have the shape of user_items, {user_items.shape}; "
            f"it has {validation.shape}"
        )
    check_same_ids("validation", validation, "user_items", user_items, or_positions=False)
    if not n_records:
        raise ValueError("validation must hold at least one interaction; it has none")

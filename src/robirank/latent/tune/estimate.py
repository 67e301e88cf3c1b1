"""What a fit will cost, before it begins: epochs, seconds, memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from robirank.data.user_items import UserItems
from robirank.latent.solvers import SOLVERS, epoch_seconds
from robirank.latent.solvers.exact import BATCH_BYTES, batch_users
from robirank.latent.solvers.problem import Problem
from robirank.latent.train.request import Request
from robirank.latent.tune.path import HELD_OUT
from robirank.latent.tune.settle import plan_search, settle_by_table
from robirank.latent.tune.split import LEAST_HELD_OUT
from robirank.latent.tune.width import MOST, narrowed, widened

_FLOAT = 4  # bytes
_OF_RECORD = (
    250  # bytes of parts, draws and ξ of "sgd" and "warp", as measured (benchmarks/cost.py)
)
_ROWS_OF_ITEMS = 3  # V, and two averages of Adam; of the start, bases of singular vectors
_CHUNK = 1 << 14  # rows in double precision, twice, when the start multiplies columns


@dataclass(frozen=True)
class Estimate:
    """What a fit will cost on this machine.

    Attributes
    ----------
    solver : str
    factors : int
        With "auto" about: those that the λ of the rule would give.
    epochs : int
        Of the fit, at the end of which the model is there.
    search_epochs : int
        What the search for λ before it costs, in epochs of the fit, about; 0 where λ is given or
        taken from the rule.
    epoch_seconds : float or None
        Of one epoch; None where nobody knows.
    bytes : int
        Of the tables and the factors, at most at any time, in the memory of this process.
    """

    solver: str
    factors: int
    epochs: int
    search_epochs: int
    epoch_seconds: float | None
    bytes: int

    @property
    def seconds(self) -> float | None:
        """Of the search and the fit; None where nobody knows."""
        if self.epoch_seconds is None:
            return None
        return (self.epochs + self.search_epochs) * self.epoch_seconds

    def __str__(self) -> str:
        about = f"{self.epochs} epochs"
        if self.epoch_seconds is not None:
            about += f" of about {self.epoch_seconds:.2g} s"
        if self.search_epochs:
            about += f", after a search of about {self.search_epochs}"
        if self.seconds is not None:
            about += f": {in_words(self.seconds)}"
        return f"{about}; {self.bytes / 1e6:,.0f} MB"


def estimate(request: Request, table: UserItems) -> Estimate:
    """What a fit of a request to a table will cost, but for features and the order.

    Seconds are those of the exact solver's own step, timed on this machine, or of the figures that
    were measured for the others.
    """
    problem = widened(request, settle_by_table(request, table), table)
    searches = SOLVERS[problem.solver].searches and request.regularization is None
    counting = _bytes_of_count(table) if request.counts_factors else 0.0
    searches = searches and table.n_interactions * HELD_OUT >= LEAST_HELD_OUT
    return Estimate(
        problem.solver,
        problem.factors,
        problem.epochs,
        _search_epochs(request, problem, table) if searches else 0,
        epoch_seconds(problem),
        int(max(_bytes(problem, table, searches=searches), counting)),
    )


def _search_epochs(request: Request, problem: Problem, table: UserItems) -> int:
    sizes = problem.sizes
    epochs = plan_search(sizes.active_users, sizes.n_items).epochs
    narrow = settle_by_table(narrowed(request, problem.solver), table)
    share = 1.0
    if narrow.factors < problem.factors:
        share = (epoch_seconds(narrow) or 1.0) / (epoch_seconds(problem) or 1.0)
    return ceil(share * epochs)


def in_words(seconds: float) -> str:
    """A length of time to read.

    Examples
    --------
    >>> in_words(12.4), in_words(200), in_words(9000)
    ('12 s', '3.3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 6000 else f"{seconds / 3600:.2g} h"


def _bytes(problem: Problem, table: UserItems, *, searches: bool) -> float:
    """Of the table (two parts of it beside, in a search), the factors and what moves them."""
    sizes, d = problem.sizes, problem.factors
    of_table = 8 * (sizes.n_users + 1) + sizes.n_interactions * (4 if table.weight is None else 8)
    tables = of_table * (2 if searches else 1)
    rows = sizes.n_users + sizes.n_items
    if problem.solver != "exact":
        return tables + 3 * _FLOAT * rows * d + _OF_RECORD * sizes.n_interactions
    moved = _FLOAT * d * (sizes.n_users + _ROWS_OF_ITEMS * sizes.n_items)
    start = moved + 16 * d * min(_CHUNK, max(sizes.n_users, sizes.n_items))
    batch = batch_users(sizes.active_users, sizes.n_items, d)
    scores = min(BATCH_BYTES, _FLOAT * batch * sizes.n_items)
    return tables + max(start, moved + 2 * scores)


def _bytes_of_count(table: UserItems) -> float:
    """Of the singular vectors by which factors are counted, beside the table."""
    return _FLOAT * MOST * (table.n_users + _ROWS_OF_ITEMS * table.n_items)

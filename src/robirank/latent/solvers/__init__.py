"""The solvers, one class each, and the table that finds them by name.

To add one, write a class that follows a protocol of `robirank.latent.solvers.interface` and give it
to `register_solver`; models, the loop and the engines stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from robirank.latent.solvers.exact import ExactSolver
from robirank.latent.solvers.sgd import SgdSolver
from robirank.latent.solvers.warp import WarpSolver

#: Floating-point operations of an epoch up to which "auto" takes the exact solver: about a minute
#: on two cores.
EXACT_LIMIT = 1e13
_KERNEL_FLOPS = 200  # what the listwise kernel costs an item, counted as if it were a product


@dataclass(frozen=True)
class SolverEntry:
    """A solver in the table.

    Attributes
    ----------
    make : class
        See `robirank.latent.solvers.interface`.
    in_strata : bool
        Whether it runs on an engine; only such a solver can train on a cluster.
    model : str
        The class of models that it fits.
    """

    make: Any
    in_strata: bool = False
    model: str = "LatentRoBiRank"


SOLVERS: dict[str, SolverEntry] = {
    "exact": SolverEntry(ExactSolver),
    "sgd": SolverEntry(SgdSolver, in_strata=True),
    "warp": SolverEntry(WarpSolver, in_strata=True, model="WARP"),
}


def register_solver(
    name: str, make: Any, *, in_strata: bool = False, model: str = "LatentRoBiRank"
) -> None:
    """Add a solver; ``LatentRoBiRank(solver=name)`` then uses it."""
    SOLVERS[name] = SolverEntry(make, in_strata, model)


def solver_names(model: str) -> list[str]:
    """The solvers of a class of models."""
    return [name for name, entry in SOLVERS.items() if entry.model == model]


def choose_solver(n_users: int, n_items: int, factors: int) -> str:
    """The solver that "auto" stands for: "exact" where an epoch of it takes up to about a minute.

    Examples
    --------
    >>> choose_solver(30_000, 41_000, factors=64), choose_solver(10**6, 10**5, factors=64)
    ('exact', 'sgd')
    """
    return "exact" if n_users * n_items * (6.0 * factors + _KERNEL_FLOPS) <= EXACT_LIMIT else "sgd"

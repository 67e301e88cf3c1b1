"""What ``latent train`` is about to do, and what that would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from robirank.data.interactions import Interactions
    from robirank.data.partitions import Partitions


def number_of_factors(text: str, method: str) -> int | str:
    """The option ``--factors``."""
    if text == "auto":
        if method == "warp":
            raise typer.BadParameter("--factors auto is for --method robirank")
        return text
    if not text.isdecimal() or not int(text):
        raise typer.BadParameter(f"--factors must be a number from 1 on, or auto; got {text!r}")
    return int(text)


def _factors_in_words(factors: int | str, solver: str) -> str:
    if factors != "auto":
        return f"{factors} factors"
    return "64 to 256 factors" if solver == "exact" else "64 factors"


def plan_in_words(model: Any, data: Interactions | Partitions) -> str:
    """Describe the fit that is about to begin: solver, device, and why this solver."""
    from robirank.latent.gpu.resolve import resolve_device

    name = model.solver_for(data.n_users, data.n_items) if hasattr(model, "solver") else "warp"
    shape = f"{data.n_users:,} × {data.n_items:,}, {_factors_in_words(model.factors, name)}"
    where = "" if model.engine == "local" else f" on a cluster, {model.engine.workers} workers"
    solver = getattr(model, "solver", None)
    if solver is None:
        return f"{type(model).__name__}{where}, {shape}"
    if resolve_device(getattr(model, "device", "cpu")) == "cuda":
        where = " on a card"
    if where or solver != "auto":
        return f"solver {name}{where}: {shape}"
    why = "can be afforded" if name == "exact" else "would take more than about a minute"
    return f"solver {name}, chosen by size: {shape}; a pass over all pairs {why}"


def cost_facts(model: Any, data: Interactions | Partitions) -> dict[str, Any]:
    """What a fit would cost on this machine."""
    if model.engine != "local":
        raise typer.BadParameter("give --dry-run or --ray, not both")
    cost = model.estimate(data)
    return {
        "solver": cost.solver,
        "factors": cost.factors,
        "epochs": cost.epochs,
        "search_epochs": cost.search_epochs,
        "epoch_seconds": None if cost.epoch_seconds is None else float(f"{cost.epoch_seconds:.2g}"),
        "seconds": None if cost.seconds is None else float(f"{cost.seconds:.2g}"),
        "megabytes": round(cost.bytes / 1e6),
    }

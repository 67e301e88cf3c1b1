"""Sweeps over a knob of recommended lists, for ``robirank latent evaluate --sweep``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import typer

from robirank.cli.console import print_json, print_table, step

_FORMATS = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Over:
    """What is swept over, with what else was typed."""

    knob: Literal["variety", "popularity"]
    values: list[float] | None
    plot: Path | None
    others: dict[str, float]

    @classmethod
    def typed(
        cls,
        knob: Literal["variety", "popularity"] | None,
        values: str | None,
        plot: Path | None,
        knobs: dict[str, float],
    ) -> Self | None:
        """Check the options, before any work; None without a sweep."""
        for flag, given in (("--values", values), ("--plot", plot)):
            if knob is None and given is not None:
                raise typer.BadParameter(f"{flag} needs --sweep")
        if knob is None:
            return None
        if knobs[knob]:
            raise typer.BadParameter(f"give --sweep {knob} or --{knob}, not both")
        if plot is not None and plot.suffix not in _FORMATS:
            raise typer.BadParameter(f"--plot must end in one of {', '.join(_FORMATS)}; got {plot}")
        others = {name: value for name, value in knobs.items() if name != knob}
        return cls(knob, None if values is None else _numbers(values), plot, others)


def show_sweep(
    over: Over, model: Any, train: Any, test: Any, k: int, fold_in: bool, as_json: bool
) -> None:
    """Evaluate for each value, print a line for each, and write the plot if one is wanted."""
    from robirank.latent.factors.sweep import sweep
    from robirank.storage.files import write_whole

    with step(f"sweep over {over.knob}") as details:
        result = sweep(
            model,
            train=train,
            test=test,
            knob=over.knob,
            values=over.values,
            k=k,
            recalculate_user=fold_in,
            **over.others,
        )
        details.append(f"{len(result.values)} values")
    if as_json:
        print_json({"knob": over.knob, "k": k, "values": result.frame.to_dicts()})
    else:
        n_users = result.evaluations[0].n_users
        title = f"The first {k} places of {n_users:,} lists"
        print_table(title, [over.knob, *result.header()], result.rows())
    if over.plot is not None:
        with step(f"wrote {over.plot}"), write_whole(over.plot) as file:
            result.plot().savefig(file, format=over.plot.suffix[1:], dpi=150)


def _numbers(text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        wrong = f"--values must be numbers such as 0,0.1,0.3; got {text!r}"
        raise typer.BadParameter(wrong) from None

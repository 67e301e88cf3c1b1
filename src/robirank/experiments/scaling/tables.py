"""What a scaling run says: its numbers in one place, and the table and figures made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robirank.experiments.latent.tables import learning_curves
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.scaling.simulation import Floats
from robirank.storage.files import write_text

__all__ = ["ScalingRun", "Work", "read_scaling", "write_scaling_tables"]

PARTS_OF_TIME = ("compute", "waiting", "communication", "latency")


@dataclass(frozen=True)
class Work:
    """One run of the race: what it reached, and where the time of its workers went.

    Attributes
    ----------
    name : str
    engine : {"local", "ray"}
    workers, parts : int
    precision : dict from measure to array
        After each epoch.
    elapsed, path : arrays
        Seconds until each epoch was done: on this machine, and with a core for each worker.
    busy : array
        Processor seconds of each part.
    """

    name: str
    engine: str
    workers: int
    parts: int
    precision: dict[str, Floats]
    elapsed: Floats
    path: Floats
    busy: Floats

    @property
    def shares(self) -> dict[str, float]:
        """Seconds of a worker, on the mean; they add up to what elapsed."""
        compute = float(self.busy.sum()) / self.workers
        path = float(self.path[-1]) if self.workers == self.parts else compute
        return {
            "compute": compute,
            "waiting": path - compute,
            "core": float(self.elapsed[-1]) - path,
        }


@dataclass(frozen=True)
class ScalingRun:
    """All that was measured and simulated."""

    works: list[Work]
    simulation: dict[str, Any]

    @property
    def ladder(self) -> list[Work]:
        """RoBiRank with as many parts as threads."""
        return [w for w in self.by_parts if w.workers == w.parts]

    @property
    def by_parts(self) -> list[Work]:
        """RoBiRank on threads by its number of parts."""
        local = [w for w in self.works if w.engine == "local"]
        return sorted((w for w in local if w.name.startswith("RoBiRank")), key=lambda w: w.parts)

    def converges_like(self, machines: int) -> Work:
        """The run with as many parts as there are machines, or with the most that was measured."""
        return [w for w in self.by_parts if w.parts <= machines][-1]


def read_scaling(run: RunDirectory) -> ScalingRun | None:
    """Read a finished run; None if there is none yet."""
    file = run.path / "simulation.json"
    curves = learning_curves(run.results(), run.methods)
    if not file.is_file() or set(curves) != set(run.methods):
        return None
    works = []
    for fit in run.fits():
        work, params = fit["work"], fit["params"]
        works.append(
            Work(
                fit["method"],
                params["engine"],
                params["workers"],
                params["parts"],
                curves[fit["method"]].values,
                np.cumsum(work["elapsed"]),
                np.cumsum(work["path"]),
                np.array(work["busy"]),
            )
        )
    return ScalingRun(works, json.loads(file.read_text("utf-8")))


def write_scaling_tables(run: RunDirectory) -> None:
    """Write ``table.md`` and, where matplotlib is there, ``figures/``."""
    found = read_scaling(run)
    assert found is not None
    write_text(run.path / "table.md", scaling_table(run.settings, found))
    try:
        from robirank.experiments.scaling.figures import write_scaling_figures
    except ImportError:
        return
    write_scaling_figures(run, found)


def scaling_table(settings: Mapping[str, Any], found: ScalingRun) -> str:
    """The whole table in Markdown."""
    simulation = found.simulation
    lines = [
        f"# {settings['title']}",
        "",
        _facts(settings),
        "",
        f"## Measured, on {simulation['cores']} cores",
        "",
        _CLOCKS,
        "",
        *_markdown(
            ("run", "workers", "parts", "precision@1", "elapsed", "compute", "others", "core"),
            [
                (
                    w.name,
                    w.workers,
                    w.parts,
                    f"{w.precision['precision@1'][-1]:.4f}",
                    *(_short(s) for s in (w.elapsed[-1], *w.shares.values())),
                )
                for w in found.works
            ],
        ),
        "",
        "## Convergence by the number of parts (precision@1)",
        "",
        *_by_parts(found.by_parts),
        "",
        "## The simulation beside what was measured (seconds an epoch)",
        "",
        *_markdown(
            ("workers", "compute", "simulated", "error", "own cores", "simulated", "error"),
            [_checked(check) for check in simulation["checks"]],
        ),
    ]
    for shape in simulation["shapes"]:
        lines += ["", *_simulated(shape)]
    return "\n".join(lines) + "\n"


_CLOCKS = (
    "Seconds of a worker for the whole run. *Compute* is processor time. *Others* is waiting for "
    "slower parts, with a core for each worker. *Core* is the rest of what elapsed: waiting for a "
    "core, and for whatever else the machine does."
)


def _facts(settings: Mapping[str, Any]) -> str:
    data, options = settings["data"], settings["options"]
    return (
        f"{data['users']:,} users, {data['items']:,} items, {data['train']:,} interactions to "
        f"train and {data['test']:,} to test; {options['factors']} factors, "
        f"{options['iterations']} epochs. Command: `{settings['command']}`"
    )


def _by_parts(works: Sequence[Work]) -> list[str]:
    epochs = len(works[0].elapsed)
    shown = sorted({round(e) for e in np.geomspace(1, epochs, 6)})
    rows = [(w.parts, *(f"{w.precision['precision@1'][e - 1]:.4f}" for e in shown)) for w in works]
    return _markdown(("parts", *(f"epoch {e}" for e in shown)), rows)


def _checked(check: Mapping[str, float]) -> tuple[Any, ...]:
    cells: list[Any] = [check["workers"]]
    for name in ("busy", "path"):
        measured, predicted = check[name], check[f"predicted_{name}"]
        error = f"{100 * (predicted / measured - 1):+.0f} %"
        cells += [_short(measured), _short(predicted), error]
    return tuple(cells)


def _simulated(shape: Mapping[str, Any]) -> list[str]:
    first = shape["epochs"][0]["total"]
    rows = [
        (
            f"{epoch['machines']:,}",
            *(_short(epoch[name]) for name in ("total", *PARTS_OF_TIME)),
            f"{first / epoch['total']:.0f} ×",
            _short(driver),
        )
        for epoch, driver in zip(shape["epochs"], shape["driver"], strict=True)
    ]
    heads = ("machines", "an epoch", *PARTS_OF_TIME, "faster by", "with a driver")
    facts = (
        f"{shape['users']:,} users, {shape['items']:,} items, {shape['records']:,} records, "
        f"{shape['factors']} factors; seconds an epoch. Twice as many machines stop paying at "
        f"{shape['stops']:,}; where one driver hands out every task, at {shape['stops_driver']:,}."
    )
    return [f"## Simulated: {shape['name']}", "", facts, "", *_markdown(heads, rows)]


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    lines = [" | ".join(heads), "|".join(["---"] * len(heads))]
    return [f"| {line} |" for line in [*lines, *(" | ".join(map(str, row)) for row in rows)]]


def _short(seconds: float) -> str:
    """Three digits.

    Examples
    --------
    >>> _short(123.456), _short(1.23456), _short(0.000123456)
    ('123', '1.23', '0.000123')
    """
    return f"{seconds:.0f}" if seconds >= 100 else f"{seconds:.3g}"

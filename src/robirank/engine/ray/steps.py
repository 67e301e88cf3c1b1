"""The steps that a run on a cluster consists of: between two of them its state is consistent.

A step is a pure function of the state before it. So a run that lost workers goes back to an older
state and repeats the steps since then, with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from robirank.engine.interface import Task


@dataclass(frozen=True)
class Step:
    """A sub-step of a sweep, or one entry of a scan.

    Attributes
    ----------
    number : int
        The sub-step of the sweep; the place in the settings of the scan.
    task : Task
    settings : Any
    epoch : int or None
        The epoch of a sweep; None for a scan.
    """

    number: int
    task: Task
    settings: Any
    epoch: int | None = None

    @property
    def kind(self) -> str:
        """Whether every part meets one block ("sweep"), or sees all of them ("scan")."""
        return "scan" if self.epoch is None else "sweep"

    @property
    def label(self) -> str:
        """What tells this step from others of its epoch."""
        return f"{self.task.__name__} {self.number}"

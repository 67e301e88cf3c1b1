"""The steps that a run on a cluster consists of: between two of them its state is consistent.

A step is a pure function of the state before it. So a run that lost workers goes back to an older
state and repeats the steps since then, with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from robirank.engine.interface import ScanTask, SweepTask


@dataclass(frozen=True)
class SweepStep:
    """A sub-step of a sweep: every part meets one block."""

    epoch: int
    number: int
    task: SweepTask
    settings: Any

    @property
    def label(self) -> str:
        """What tells this step from others of its epoch."""
        return f"{self.task.__name__} {self.number}"


@dataclass(frozen=True)
class ScanStep:
    """One entry of a scan: every part sees all blocks."""

    number: int
    task: ScanTask
    settings: Any

    @property
    def label(self) -> str:
        """What tells this step from others of its epoch."""
        return f"{self.task.__name__} {self.number}"


Step = SweepStep | ScanStep

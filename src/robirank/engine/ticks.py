"""The steps that a run on a cluster is made of: after each of them its state is consistent.

A tick is a pure function of the state before it, so a run that lost workers goes back to an older
state and does the ticks since then once more, with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from robirank.engine.tasks import Report, Task, XiReport
from robirank.losses import RhoName

__all__ = ["DriftTick", "ScaleTick", "SquaresTick", "Tick", "UvTick", "XiTick"]


@dataclass(frozen=True)
class UvTick:
    """A sub-step of the (U,V)-step: every part meets one block."""

    epoch: int
    step: int
    task: Task
    settings: Any
    kept: float


@dataclass(frozen=True)
class XiTick:
    """One wave of the ξ-step: some users of every part."""

    turn: int
    of: int
    wave: int
    rho: RhoName


@dataclass(frozen=True)
class DriftTick:
    """The slopes of the users whose turn it was not move along."""

    turn: int
    of: int
    factor: float


@dataclass(frozen=True)
class ScaleTick:
    """All slopes are multiplied."""

    factor: float


@dataclass(frozen=True)
class SquaresTick:
    """The sums of squares of U and V."""


Tick = UvTick | XiTick | DriftTick | ScaleTick | SquaresTick
Result = Report | XiReport | tuple[float, float] | None


def to_json(result: Result) -> list[Any] | None:
    """A result as JSON can hold it, to the last bit."""
    if isinstance(result, Report):
        return ["Report", result.draws, result.loss, result.not_finite]
    if isinstance(result, XiReport):
        return ["XiReport", result.records, result.loss, result.drift]
    return None if result is None else ["squares", *result]


def from_json(value: list[Any] | None) -> Result:
    """The inverse of `to_json`."""
    if value is None:
        return None
    kind, *fields = value
    if kind == "Report":
        return Report(*fields)
    return XiReport(*fields) if kind == "XiReport" else (fields[0], fields[1])

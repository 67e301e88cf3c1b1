"""A progress line for fits that take long."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any


class FitProgress:
    """A progress line on a terminal, if it is to show; the last figures also go to a logger."""

    def __init__(
        self,
        show: bool,
        *,
        total: int,
        title: str,
        remaining: bool = False,
        log: logging.Logger | None = None,
    ) -> None:
        self._total, self._title, self._log = total, title, log
        self._iteration, self._figures = 0, dict[str, float | str]()
        self._bar: Any = _two_lines(remaining) if show else None

    def __enter__(self) -> FitProgress:
        self._begun = time.perf_counter()
        if self._bar is not None:
            self._task = self._bar.add_task(self._title, total=self._total, status="")
            self._bar.start()
        return self

    def resize(self, total: int) -> None:
        """Change the number of iterations that are planned."""
        if self._bar is not None:
            self._bar.update(self._task, total=total)

    def update(self, iteration: int, **figures: float | str) -> None:
        """Report where the fit stands, with a few figures by name."""
        self._iteration, self._figures = iteration, figures
        if self._bar is not None:
            self._bar.update(self._task, completed=iteration, status=_text(figures))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._log is not None:
            self._log.info(
                "%s: %s after %d of %d iterations, %.3g s  %s",
                self._title,
                "ended" if kind is None else f"stopped by {kind.__name__}",
                self._iteration,
                self._total,
                time.perf_counter() - self._begun,
                _text(self._figures),
            )


def _text(figures: dict[str, float | str]) -> str:
    return "  ".join(
        f"{name} {value if isinstance(value, str) else f'{value:.6g}'}"
        for name, value in figures.items()
    )


def _two_lines(remaining: bool) -> Any:
    """A bar of rich with the figures on a line of their own, so that both fit into 80 columns."""
    from rich import progress
    from rich.console import Console, RenderableType

    class TwoLines(progress.Progress):
        def get_renderables(self) -> Iterable[RenderableType]:
            yield self.make_tasks_table(self.tasks)
            for task in self.tasks:
                yield f"  {task.fields['status']}"

    left = [progress.TextColumn("left"), progress.TimeRemainingColumn()] if remaining else []
    return TwoLines(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=16),
        progress.TextColumn("iteration {task.completed}/{task.total}"),
        progress.TimeElapsedColumn(),
        *left,
        console=Console(stderr=True, highlight=False),
    )

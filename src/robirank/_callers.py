"""Warnings that name the line of the user's program, however deep in the package they begin."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

#: Modules of which no line is the user's: this package, scikit-learn, and what runs things for it.
_INSIDE = ("robirank.", "sklearn.", "joblib.", "contextlib")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of this package and of scikit-learn that led here."""
    _, level = calling_line()
    warnings.warn(message, category, stacklevel=level)


def calling_line() -> tuple[FrameType, int]:
    """The frame of that line, and the ``stacklevel`` that names it from the function that asks."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_inside(frame):
        frame, level = frame.f_back, level + 1
    return frame, level


def _is_inside(frame: FrameType) -> bool:
    return f"{frame.f_globals.get('__name__', '')}.".startswith(_INSIDE)

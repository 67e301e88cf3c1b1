"""Warnings that name the line of the user's program, however deep in the package they begin."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

#: Modules that are not the user's program: this package, scikit-learn, and what scikit-learn runs.
_INSIDE = ("robirank.", "sklearn.", "joblib.", "contextlib")


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's program, outside of this package and scikit-learn."""
    _, level = calling_line()
    warnings.warn(message, category, stacklevel=level)


def calling_line() -> tuple[FrameType, int]:
    """The frame of the user's line that led to the caller, and its level for `warnings.warn`."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and f"{frame.f_globals.get('__name__', '')}.".startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    return frame, level

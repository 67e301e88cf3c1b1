"""Ctrl-C as a wish to stop, so that what was done so far is kept."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any, Self


class Interrupt:
    """Turns the first Ctrl-C into a wish to stop after this step or epoch; the second raises."""

    def __init__(self, after: str) -> None:
        self._after = after
        self._asked = False
        self._before: Any = None

    def is_set(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._asked

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if self._before is signal.default_int_handler:
                signal.signal(signal.SIGINT, self._ask)
            else:
                self._before = None
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            signal.default_int_handler(number, frame)
        self._asked = True
        os.write(
            2, f"\nstopping after this {self._after}; press Ctrl-C again to give up\n".encode()
        )

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

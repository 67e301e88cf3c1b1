"""A newer file takes the place of the model without a gap: loaded beside, checked, swapped."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from robirank.errors import RobirankError
from robirank.serve.loaded import Served
from robirank.serve.logs import tell
from robirank.serve.self_test import check_answers
from robirank.serve.sources import Sources


def load_checked(sources: Sources) -> Served:
    """What is to be served, read and checked; an error where it is bad."""
    served = sources.load()
    check_answers(served)
    return served


class Reloader:
    """Watches the files of a server in a thread of its own.

    Where one of them changes, or on demand, everything is read anew beside what is served. Only
    what has passed its checks is given to ``swap``; what has not is logged, and what is served
    stays. A file that was refused is tried again when it changes.

    Parameters
    ----------
    sources : Sources
    swap : callable
        Takes what is to be served from now on.
    refused : callable
        Called when a file is refused.
    seconds : float
        Between two looks at the files; 0 for on demand only.
    """

    def __init__(
        self,
        sources: Sources,
        swap: Callable[[Served], None],
        refused: Callable[[], None] = lambda: None,
        seconds: float = 2.0,
    ) -> None:
        self._sources, self._swap, self._refused = sources, swap, refused
        self._seconds = seconds
        self._stamps = sources.stamps()
        self._wanted, self._stopped = threading.Event(), False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch."""
        if self._thread is None and not self._stopped:
            self._thread = threading.Thread(target=self._run, name="robirank-reload", daemon=True)
            self._thread.start()

    def wake(self) -> None:
        """Reload soon, whether a file has changed or not; may be called by a signal."""
        self._wanted.set()

    def stop(self) -> None:
        """Watch no longer."""
        self._stopped = True
        self._wanted.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=60)

    def reload(self, *, whatever: bool = True) -> bool:
        """Load, check and swap; whether there is something new. ``whatever`` files say."""
        with self._lock:
            stamps = self._sources.stamps()
            if not whatever and stamps == self._stamps:
                return False
            begin = time.perf_counter()
            self._stamps = stamps
            if None in stamps.values():  # one is being replaced
                missing = [name for name, stamp in stamps.items() if stamp is None]
                self._refuse(f"there is no file for {', '.join(missing)}")
                return False
            try:
                served = load_checked(self._sources)
                self._swap(served)
            except (RobirankError, ValueError, TypeError, OSError, MemoryError) as error:
                self._refuse(str(error))
                return False
            except BaseException as error:  # a panic of polars is no Exception
                self._refuse(f"{type(error).__name__}: {error}")
                return False
            seconds = round(time.perf_counter() - begin, 3)
            tell(logging.INFO, "reloaded", model=served.checksum, seconds=seconds)
            return True

    def _refuse(self, reason: str) -> None:
        self._refused()
        tell(logging.ERROR, "reload refused, the model that is served stays", reason=reason)

    def _run(self) -> None:
        while not self._stopped:
            whatever = self._wanted.wait(self._seconds or None)
            self._wanted.clear()
            if not self._stopped:
                self.reload(whatever=whatever)

"""Matrix products of NumPy and SciPy on one thread each, whichever thread of the process asks."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class BlasLimit:
    """Holds BLAS to one thread while at least one caller is inside.

    A product that BLAS splits over threads adds up in another order, so its last bits would depend
    on the number of cores. OpenBLAS has one limit for the whole process: it is set by the first
    caller and put back by the last one, in whichever thread they run. Other libraries, and OpenBLAS
    on OpenMP, have a limit for each thread, which every caller sets and puts back for itself.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin without callers."""
        self._lock = threading.Lock()
        self._callers = 0
        self._before: dict[str, tuple[Any, int]] = {}  # limits of the process, by path of library
        self._libraries: list[Any] = []
        self._modules = -1

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """A context in which BLAS runs on one thread."""
        with self._lock:
            libraries = self._loaded()
            of_thread = [(lib, lib.num_threads) for lib in libraries if _has_limit_of_thread(lib)]
            for lib in libraries:
                if not _has_limit_of_thread(lib):
                    self._before.setdefault(lib.filepath, (lib, lib.num_threads))
                _set_threads(lib, 1)
            self._callers += 1
        try:
            yield
        finally:
            for lib, threads in of_thread:
                _set_threads(lib, threads)
            with self._lock:
                self._callers -= 1
                if not self._callers:
                    for lib, threads in self._before.values():
                        _set_threads(lib, threads)
                        _give_up_control(lib)
                    self._before = {}

    def limit_this_thread(self) -> None:
        """Hold the products of a thread of a pool to one thread until the thread ends."""
        for lib in self._libraries:
            if _has_limit_of_thread(lib):
                _set_threads(lib, 1)

    def _loaded(self) -> list[Any]:
        """The BLAS libraries of the process; they are looked for again after imports only."""
        if self._modules != len(sys.modules):  # reading the memory map takes milliseconds
            from threadpoolctl import ThreadpoolController

            self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
            self._modules = len(sys.modules)
        return self._libraries


def describe_blas() -> str:
    """The BLAS libraries of NumPy and SciPy: kind, version, and the processor they are tuned for.

    Examples
    --------
    >>> describe_blas() != ""
    True
    """
    import scipy.linalg  # noqa: F401  # loads that of SciPy
    from threadpoolctl import ThreadpoolController

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    found = [
        " ".join(filter(None, [lib.internal_api, lib.version, getattr(lib, "architecture", None)]))
        for lib in libraries
    ]
    return ", ".join(dict.fromkeys(found)) or "unknown"


def _has_limit_of_thread(lib: Any) -> bool:
    on_openmp = lib.internal_api == "openblas" and lib.threading_layer == "openmp"
    return on_openmp or lib.internal_api == "mkl"


def _set_threads(lib: Any, threads: int) -> None:
    """Set a limit even where threadpoolctl reserved the library for another thread."""
    _give_up_control(lib)
    lib.set_num_threads(threads)


def _give_up_control(lib: Any) -> None:
    clear = getattr(lib, "clear_controlling_thread", None)  # since threadpoolctl 3.7
    if clear is not None:
        clear(force=True)


_limit = BlasLimit()
#: A context in which BLAS runs on one thread, for products whose bits must not vary.
one_blas_thread = _limit.one_thread
#: Holds the products of a thread of a pool to one thread; it is called when the thread starts.
limit_this_thread = _limit.limit_this_thread

if hasattr(os, "register_at_fork"):
    # Callers in other threads do not come along into the child.
    os.register_at_fork(after_in_child=_limit.reset)

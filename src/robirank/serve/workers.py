"""Several processes that answer on one socket, and share one copy of the model in memory.

The parent never answers. It copies the model file into a folder of its own, in memory where the
system has such a folder, and the workers map it. Where files change, it makes another copy and asks
every worker to load and check it; when all have, all are told to serve it, and otherwise none.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from robirank._threads import thread_count
from robirank.errors import RobirankError
from robirank.serve.application import app
from robirank.serve.feedback_log import remove_old_files
from robirank.serve.loaded import Served
from robirank.serve.logs import logs_on_stderr, tell
from robirank.serve.process import address_of, bind, serve
from robirank.serve.reload import load_checked
from robirank.serve.server import Server
from robirank.serve.sources import Sources, Stamp, pack_items
from robirank.storage.tensor_file import ModelFileError

_FILES = ("train", "items", "names", "map", "compare")  # beside the model
_MEMORY = Path("/dev/shm")  # a folder in memory, on Linux
_LOOK_SECONDS = 0.2  # between two looks at signals and workers
_LOAD_SECONDS = 600.0
_MOST_DEATHS, _SHORT_LIFE = 5, 10.0  # so many workers that died young are too many
_RETRY_SECONDS = 10.0  # after which a worker that could not begin is tried again


class WorkersError(RuntimeError):
    """Workers end again and again."""


@dataclass(eq=False)
class _Child:
    """A worker as the parent knows it."""

    process: Any
    pipe: Connection
    begun: float
    is_ready: bool = False

    def wait_until_ready(self) -> str | None:
        """Wait until the worker takes requests; why it does not, or None."""
        said: Any = ("refused", "a worker ended before it was ready")
        with suppress(EOFError, OSError):
            if self.pipe.poll(_LOAD_SECONDS):
                said = self.pipe.recv()
        self.is_ready = said[0] == "ready"
        if self.is_ready:
            return None
        self.process.join(_SHORT_LIFE)
        return str(said[1])

    def ask(self, *message: Any) -> tuple[Any, ...]:
        """Send a message, and wait for the answer."""
        try:
            self.pipe.send(message)
            if self.pipe.poll(_LOAD_SECONDS):
                return tuple(self.pipe.recv())
        except (EOFError, OSError):
            pass
        return "refused", "a worker ended"


class Workers:
    """The parent of the workers.

    Parameters
    ----------
    options : dict
        Arguments of `robirank.serve.app`, all of which can be sent to another process.
    number : int
    """

    def __init__(self, model: Path, options: dict[str, Any], number: int, folder: Path) -> None:
        self._model, self._options, self._number, self._folder = model, options, number, folder
        self._own_log = folder / "feedback" if "feedback" not in options else None
        self._options.setdefault("feedback", self._own_log)
        if self._options.get("num_threads") is None:
            self._options["num_threads"] = max(1, thread_count() // number)
        self._seconds = float(options.get("reload_seconds", 2.0))
        self._context = _context()
        self._children: list[_Child] = []
        self._copies, self._deaths = 0, 0
        self._stopping = self._wanted = False

    def run(self, listening: socket.socket) -> None:
        """Answer until a signal says otherwise."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._want)
        stamps, looked = self._stamps(), time.monotonic()
        try:
            copy = self._copied()
        except ModelFileError as error:
            raise ModelFileError(self._without_folder(str(error))) from None
        self._children = [self._started(listening, copy, row) for row in range(self._number)]
        self._wait_until_ready()
        tell(logging.INFO, "ready", address=address_of(listening), workers=self._number)
        try:
            while not self._stopping:
                wait([child.process.sentinel for child in self._living()], _LOOK_SECONDS)
                self._replace_dead(listening, copy)
                if self._own_log is not None:
                    remove_old_files(self._own_log)
                is_due = 0 < self._seconds <= time.monotonic() - looked
                if not (is_due or self._wanted):
                    continue
                looked, before = time.monotonic(), stamps
                stamps = self._stamps()
                if self._wanted or stamps != before:
                    self._wanted = False
                    copy = self._reloaded(copy)
        finally:
            self._end()

    def _stop(self, number: int, _: Any) -> None:
        tell(logging.INFO, "stopping", signal=signal.Signals(number).name)
        self._stopping = True

    def _want(self, *_: Any) -> None:
        self._wanted = True

    def _stamps(self) -> dict[str, Stamp]:
        files: Any = {name: self._options.get(name) for name in _FILES}
        return Sources(self._model, **files).stamps()

    def _without_folder(self, reason: str) -> str:
        """What is wrong with a copy, told of the file that it was made of."""
        copy = self._folder / str(self._copies) / self._model.name
        return reason.replace(str(copy), str(self._model))

    def _copied(self) -> Path:
        """A copy of the model file that nobody writes to, under the same name, and packed items."""
        self._copies += 1
        folder = self._folder / str(self._copies)
        folder.mkdir()
        copy = Path(shutil.copy2(self._model, folder / self._model.name))
        pack_items(copy)
        return copy

    def _started(self, listening: socket.socket, copy: Path, row: int) -> _Child:
        ours, theirs = self._context.Pipe()
        figures = self._folder / "figures", row, self._number
        process = self._context.Process(
            target=_work,
            args=(copy, self._options, listening, theirs, figures),
            name="robirank-worker",
        )
        process.start()
        theirs.close()
        return _Child(process, ours, time.monotonic())

    def _wait_until_ready(self) -> None:
        for child in self._children:
            reason = child.wait_until_ready()
            if reason is not None:
                self._end()
                raise ModelFileError(self._without_folder(reason))

    def _living(self) -> list[_Child]:
        return [child for child in self._children if child.process.is_alive()]

    def _replace_dead(self, listening: socket.socket, copy: Path) -> None:
        """Start a worker for each that has ended.

        One that cannot begin, because a file has become bad since, is tried again after a while;
        the others go on with what they have.
        """
        for place, child in enumerate(self._children):
            if child.process.is_alive() or self._stopping:
                continue
            age = time.monotonic() - child.begun
            if child.is_ready:
                tell(
                    logging.ERROR,
                    "a worker ended, and another begins",
                    code=child.process.exitcode,
                )
                self._deaths = self._deaths + 1 if age < _SHORT_LIFE else 0
                if self._deaths >= _MOST_DEATHS:
                    raise WorkersError(f"{_MOST_DEATHS} workers ended within seconds")
            elif age < _RETRY_SECONDS:
                continue
            child.pipe.close()
            other = self._children[place] = self._started(listening, copy, place)
            reason = other.wait_until_ready()
            if reason is not None:
                tell(logging.ERROR, "a worker cannot begin", reason=self._without_folder(reason))
                if not self._living():
                    raise WorkersError(f"no worker is left, and none can begin: {reason}")

    def _reloaded(self, before: Path) -> Path:
        """Let all workers load the files anew, or none; the copy that is served then."""
        try:
            copy = self._copied()
        except (OSError, RobirankError) as error:
            reason = self._without_folder(str(error))
            self._refuse(reason)
            return before
        living = self._living()
        told = [child.ask("prepare", copy) for child in living]
        reasons = [str(one[1]) for one in told if one[0] != "prepared"]
        if reasons:
            self._refuse(self._without_folder(reasons[0]))
            return before
        for child in living:
            child.ask("swap")
        tell(logging.INFO, "reloaded", model=told[0][1])
        shutil.rmtree(before.parent, ignore_errors=True)  # it stays mapped while it is used
        return copy

    def _refuse(self, reason: str) -> None:
        for child in self._living():
            child.ask("forget")
        tell(logging.ERROR, "reload refused, the model that is served stays", reason=reason)
        shutil.rmtree(self._folder / str(self._copies), ignore_errors=True)

    def _end(self) -> None:
        seconds = self._options["limits"].seconds + 10.0 if "limits" in self._options else 20.0
        for child in self._children:
            child.process.terminate()
        for child in self._children:
            child.process.join(seconds)
            if child.process.is_alive():
                child.process.kill()
                child.process.join()


def serve_with_workers(
    model: Path, options: dict[str, Any], host: str, port: int, number: int
) -> None:
    """Bind, and answer in so many processes."""
    with (
        bind(host, port) as listening,
        shared_folder(model.stat().st_size) as folder,
        logs_on_stderr(),
    ):
        Workers(model, options, number, Path(folder)).run(listening)


def _context() -> Any:
    """How workers are started: forked from a process that has imported everything, on Linux.

    Then they share what imports took in memory. That process imports and does nothing else, so that
    no thread of it holds a lock when a worker is forked.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "robirank.latent.model"])
    return context


def shared_folder(size: int) -> tempfile.TemporaryDirectory[str]:
    """A folder for copies of a file, in memory where there is room for them.

    A copy is at most twice as large with its packed items, and there are two at a reload.
    """
    has_room = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 5 * size
    where = _MEMORY if has_room and os.access(_MEMORY, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="robirank-", dir=where)


# ---------------------------------------------------------------------------- in a worker


def _work(
    copy: Path,
    options: dict[str, Any],
    listening: socket.socket,
    pipe: Connection,
    figures: tuple[Path, int, int],
) -> None:
    """Answer in this process, until the parent ends it; ``figures`` are for `Figures.share`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all, and the parent decides
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    level = logging.INFO if options.get("log_requests", True) else logging.WARNING
    with logs_on_stderr(level):
        try:
            server = app(copy, mapped=True, **(options | {"reload_seconds": 0}))
            server.figures.share(*figures)
        except Exception as error:
            pipe.send(("refused", str(error)))
            return

        def ready() -> None:
            pipe.send(("ready",))
            threading.Thread(target=_obey, args=(server, pipe), daemon=True).start()

        serve(server, listening, ready, signals=(signal.SIGTERM,))


def _obey(server: Server, pipe: Connection) -> None:
    """Do what the parent says, until it is gone."""
    prepared: Served | None = None
    sources = server.sources
    while True:
        try:
            what, *more = pipe.recv()
        except (EOFError, OSError):
            os.kill(os.getpid(), signal.SIGTERM)
            return
        if what == "prepare":
            try:
                sources = replace(server.sources, model=more[0])
                prepared = load_checked(sources)
                server.check_same_kind(prepared)
                pipe.send(("prepared", prepared.checksum))
            except BaseException as error:  # a panic of polars is no Exception
                pipe.send(("refused", str(error) or type(error).__name__))
        else:
            if what == "swap" and prepared is not None:
                server.sources = sources
                server.swap(prepared)
            if what == "forget":
                server.figures.count("refused_reloads")
            prepared = None
            pipe.send(("done",))

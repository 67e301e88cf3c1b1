"""The process that serves: a socket, signals, and the way from the first to the last request."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import uvicorn

from robirank.serve.logs import logs_on_stderr, tell
from robirank.serve.server import Server

_GRACE = 5.0  # seconds beside those that a request may take
_BACKLOG = 2048
_MOST_HEAD = 1 << 16  # bytes of the first line and the headers of a request
_STOP = (signal.SIGTERM, signal.SIGINT)
_RELOAD = (signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()  # Windows has none
_SWITCH_SECONDS = 0.001  # how long a thread may keep others from running Python


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; an `OSError` says what was wrong with the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise OSError(f"cannot listen on {host} port {port}: {reason}") from None
    listening.listen(_BACKLOG)
    listening.setblocking(False)
    return listening


def serve(
    server: Server,
    listening: socket.socket,
    ready: Callable[[], Any] = bool,
    signals: Sequence[signal.Signals] = (*_STOP, *_RELOAD),
) -> None:
    """Answer until SIGTERM or SIGINT, after which what was asked for is still answered.

    SIGHUP loads the files anew. ``ready`` is called when requests are taken; ``signals`` are those
    that are listened to.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    config = uvicorn.Config(
        server,
        http=_protocol(),
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        backlog=_BACKLOG,
        timeout_graceful_shutdown=int(server.limits.seconds + _GRACE),
    )
    _Uvicorn(config, server, ready, signals).run(sockets=[listening])


def _protocol() -> Any:
    """How uvicorn reads HTTP: by httptools where it is installed, with a limit for heads.

    httptools keeps a head of any length in memory, and h11 has a limit of its own.
    """
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "h11"

    class Bounded(HttpToolsProtocol):
        _head: int | None = 0  # bytes of a head that has not ended

        def on_message_begin(self) -> None:
            self._head = 0
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._head = None
            super().on_headers_complete()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._head is not None:
                self._head += len(data)
                if self._head > _MOST_HEAD:
                    self.transport.close()

    return Bounded


class _Uvicorn(uvicorn.Server):
    """uvicorn with signals of our own, after which the process ends with code 0."""

    def __init__(
        self,
        config: uvicorn.Config,
        server: Server,
        ready: Callable[[], Any],
        signals: Sequence[signal.Signals],
    ) -> None:
        super().__init__(config)
        self._server, self._ready, self._signals = server, ready, signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take requests."""
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let signals stop or reload the server while it runs."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handles: Any = {one: self._stop if one in _STOP else self._reload for one in self._signals}
        before = {number: signal.signal(number, handle) for number, handle in handles.items()}
        try:
            yield
        finally:
            for number, handle in before.items():
                signal.signal(number, handle)

    def _reload(self, *_: Any) -> None:
        self._server.reload_soon()

    def _stop(self, number: int, _: Any) -> None:
        tell(logging.INFO, "stopping", signal=signal.Signals(number).name)
        self._server.drain()
        self.force_exit = self.should_exit and number == signal.SIGINT
        self.should_exit = True


def address_of(listening: socket.socket) -> str:
    """The URL of a socket."""
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve_here(make: Callable[[], Server], host: str, port: int) -> None:
    """Bind, load the model, and answer in this process."""
    listening = bind(host, port)
    with listening, logs_on_stderr():
        server = make()
        address = address_of(listening)
        serve(server, listening, lambda: tell(logging.INFO, "ready", address=address))

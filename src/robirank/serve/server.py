"""The ASGI application: one model, its threads, and what stands between a request and them."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route as StarletteRoute
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from robirank.serve.batcher import Batcher
from robirank.serve.endpoints import Endpoint, FileEndpoint, no_such_route
from robirank.serve.feedback import Feedback
from robirank.serve.feedback_log import Line
from robirank.serve.figures import Figures, memory_bytes
from robirank.serve.keys import Keys
from robirank.serve.loaded import Served, ServedRecommender
from robirank.serve.logs import tell
from robirank.serve.messages import Question
from robirank.serve.openapi import documentation_page, openapi_document
from robirank.serve.origins import Origins
from robirank.serve.problems import Problem, bad_value
from robirank.serve.reload import Reloader, load_checked
from robirank.serve.route import HTML, JSON, Route
from robirank.serve.routes import ROUTES
from robirank.serve.settings import Limits
from robirank.serve.sources import Sources
from robirank.serve.static import page_files
from robirank.serve.tasks import Worker

_MOST_TOGETHER, _MOST_SLOW, _MOST_LINES = 256, 16, 256
_MOST_ITEMS, _MOST_EXPLAINED = 100_000, 10_000  # of all questions of a request
_LANES = ("quick", "slow", "disk")


class Server:
    """An ASGI application that answers from a model; see `robirank.serve.app`."""

    def __init__(
        self,
        sources: Sources,
        *,
        feedback: Feedback | None = None,
        keys: Keys | None = None,
        limits: Limits | None = None,
        origins: Sequence[str] = (),
        reload_seconds: float = 2.0,
        log_requests: bool = True,
        log_personal: bool = False,
    ) -> None:
        self.limits = limits or Limits()
        self.figures = Figures([*dict.fromkeys(route.path for route in ROUTES)], _LANES)
        self.keys = Keys() if keys is None else keys
        self.origins = Origins(origins)
        self.feedback = Feedback(most=self.limits.feedback) if feedback is None else feedback
        self.sources = sources
        # It looks at the files before they are read: what changes meanwhile is newer.
        self._reloader = Reloader(
            sources, self.swap, lambda: self.figures.count("refused_reloads"), reload_seconds
        )
        self._served = load_checked(sources)
        self._stopping = False
        self._log_requests, self._log_personal = log_requests, log_personal
        self._watches = reload_seconds > 0 and bool(sources.stamps())
        worker = Worker(self.feedback, self.figures)
        quick, slow, disk = _LANES
        self.quick = self._batcher(quick, worker.work, _MOST_TOGETHER)
        self.slow = self._batcher(slow, worker.work, _MOST_SLOW)
        self.disk = self._batcher(disk, self._write, _MOST_LINES)
        self._router = Router(self._endpoints(), lifespan=self._lifespan)
        self._router.redirect_slashes = False
        self._router.default = no_such_route
        self._app: Any = self._router
        if origins:
            self._app = CORSMiddleware(
                self._router,
                allow_origins=list(origins),
                allow_methods=["GET", "POST"],
                allow_headers=["authorization", "content-type", "x-api-key"],
            )
        self._forget_what_is_known()

    # ------------------------------------------------------------------- for handlers

    def served(self) -> Served:
        """The model that answers now; a request asks once, and keeps it."""
        return self._served

    def check_ready(self) -> None:
        """Raise a `Problem` where no new requests should come."""
        if self._stopping:
            raise Problem("not_ready", "the server is stopping", retry_after=5)

    def check_questions(self, questions: Sequence[Question], *, is_one: bool) -> None:
        """Raise a `Problem` for questions beyond the limits."""
        if len(questions) > self.limits.questions:
            raise Problem("too_large", f"at most {self.limits.questions} questions a request", "$")
        for number, question in enumerate(questions):
            rules = question.rules
            lists = () if rules is None else (rules.only, rules.exclude)
            place = "$" if is_one else f"$[{number}]"
            self.check_lists(place, question.n, question.items, question.disliked, *lists)
        asked = sum(question.n for question in questions)
        explained = sum(question.n for question in questions if question.explain)
        for wanted, most, what in (
            (asked, _MOST_ITEMS, "items"),
            (explained, _MOST_EXPLAINED, "items with reasons"),
        ):
            if wanted > most:
                raise Problem(
                    "too_large",
                    f"the questions of a request may ask for {most} {what} in all; these ask for "
                    f"{wanted}",
                    "$",
                )

    def check_lists(self, place: str, n: int, *lists: Sequence[Any] | None) -> None:
        """Raise a `Problem` for an answer or for lists that are longer than the limits."""
        if n > self.limits.n:
            raise bad_value(f"{place}.n", f"must be at most {self.limits.n}; got {n}")
        for entries in lists:
            if entries is not None and len(entries) > self.limits.items:
                detail = f"a list may have at most {self.limits.items} entries; got {len(entries)}"
                raise Problem("too_large", detail, place)

    def metrics_text(self) -> str:
        """All figures for Prometheus; what is counted is that of all workers."""
        about = self._served.about
        age = (datetime.now(UTC) - (about.trained or about.loaded)).total_seconds()
        waiting = len(self.quick) + len(self.slow) + len(self.disk)
        return self.figures.text(
            {
                "model_age_seconds": ("Seconds since the model was written.", age),
                "memory_bytes": ("Memory of the process that answers.", float(memory_bytes())),
                "waiting_requests": ("Waiting in the process that answers.", float(waiting)),
                "feedback_pairs": ("Pairs of users and items since.", float(len(self.feedback))),
            }
        )

    # ------------------------------------------------------------------- life

    def reload(self) -> bool:
        """Load the files anew, check them, and serve them; whether that was done."""
        return self._reloader.reload()

    def reload_soon(self) -> None:
        """Let the thread that watches the files reload them; may be called by a signal."""
        self._reloader.start()
        self._reloader.wake()

    def start(self) -> None:
        """Begin to watch the files."""
        if self._watches:
            self._reloader.start()

    def drain(self) -> None:
        """Be not ready any more; what is asked for is still answered."""
        self._stopping = True

    def close(self) -> None:
        """End the threads, after what waits is done."""
        self._reloader.stop()
        for batcher in (self.quick, self.slow, self.disk):
            batcher.close()
        self.feedback.close()

    def swap(self, served: Served) -> None:
        """Serve this from now on; what has begun ends with what was served."""
        self.check_same_kind(served)
        self._served = served
        self.figures.count("reloads")
        self._forget_what_is_known()

    def check_same_kind(self, served: Served) -> None:
        """Raise an error unless routes that have answers would still have them."""
        if type(served) is not type(self._served):
            raise ValueError(
                f"the file holds a {type(served.model).__name__}, and a "
                f"{type(self._served.model).__name__} is served; start another server for it"
            )

    def _forget_what_is_known(self) -> None:
        """Feedback that the table of interactions has by now is no news."""
        served = self._served
        if not isinstance(served, ServedRecommender) or served.history is None:
            return
        history, ids = served.history, served.items.ids

        def known(user: str) -> set[str]:
            return {str(id) for id in ids[history.items(user)].tolist()}

        self.feedback.forget(known)

    @asynccontextmanager
    async def _lifespan(self, _: Any) -> AsyncIterator[None]:
        self.start()
        try:
            yield
        finally:
            await asyncio.to_thread(self.close)

    # ------------------------------------------------------------------- requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; the interface of ASGI."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] == "http" and self._watches:
            self.start()  # an application that this one is mounted in may tell it nothing
        await self._app(scope, receive, send)

    def _batcher(self, name: str, work: Any, most: int) -> Batcher[Any]:
        return Batcher(
            name,
            work,
            most=most,
            waiting=self.limits.waiting,
            seconds=self.limits.seconds,
            seen=lambda size: self.figures.batch(name, size),
        )

    def _write(self, lines: list[Line]) -> list[None]:
        self.feedback.add(lines)
        return [None] * len(lines)

    def _endpoints(self) -> list[StarletteRoute]:
        by_path: dict[str, dict[str, Route]] = {}
        for route in ROUTES:
            by_path.setdefault(route.path, {})[route.method] = route
        endpoints = [
            StarletteRoute(path.replace("{id}", "{id:path}"), Endpoint(self, path, methods))
            for path, methods in by_path.items()
        ]
        files = page_files()
        files["/openapi.json"] = (JSON, msgspec.json.encode(openapi_document()))
        files["/docs"] = (HTML, documentation_page().encode())
        return endpoints + [
            StarletteRoute(path, FileEndpoint(content, kind))
            for path, (kind, content) in files.items()
        ]

    def tell(self, route: str, method: str, status: int, seconds: float, request: str) -> None:
        """Count a request, and log it."""
        self.figures.request(route, status, seconds)
        if self._log_requests:
            fields = {"route": route, "method": method, "status": status, "request": request}
            tell(logging.INFO, "request", **fields, milliseconds=round(1e3 * seconds, 3))

    def tell_defect(self, error: Exception, request: str) -> None:
        """Log an error that is a defect of the program."""
        lines = traceback.format_exception(error)
        where = [line for line in lines if line.startswith("  File ")]
        text = "".join(lines) if self._log_personal else "".join(where)
        tell(logging.ERROR, "unexpected", request=request, kind=type(error).__name__, where=text)

"""Ask an application in this process, without a network: for tests of one's own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote, unquote, urlencode

import msgspec

from robirank.serve.server import Server


class Response(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    content: bytes

    def json(self) -> Any:
        """The body, read."""
        return msgspec.json.decode(self.content)


class Client:
    """Asks an application as a client over HTTP would; may be used from several threads.

    Parameters
    ----------
    app : Server
        As `robirank.serve.app` makes it.
    headers : dict, optional
        Of every request, such as an API key.

    Examples
    --------
    >>> from robirank import LatentRoBiRank, make_interactions
    >>> from robirank.serve import app
    >>> data = make_interactions(50, 20, 300, random_state=0)
    >>> model = LatentRoBiRank(factors=2, random_state=0).fit(data, show_progress=False)
    >>> with Client(app(model, train=data)) as client:
    ...     answer = client.post("/v1/recommend", {"user": 3, "n": 2})
    ...     client.get("/v1/items/99").json()["code"], answer.status, len(answer.json()["items"])
    ('unknown_item', 200, 2)
    """

    def __init__(self, app: Server, headers: Mapping[str, str] | None = None) -> None:
        self._app, self._headers = app, dict(headers or {})
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        self._app.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the application and its threads."""
        self._app.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Response:
        """Send GET."""
        return self.send("GET", path, urlencode(query or {}).encode())

    def post(self, path: str, body: Any) -> Response:
        """Send POST, with a body as JSON."""
        return self.send("POST", path, body=msgspec.json.encode(body))

    def send(
        self,
        method: str,
        path: str,
        query: bytes = b"",
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send anything."""
        request = self._ask(method, path, query, body, {**self._headers, **(headers or {})})
        return asyncio.run_coroutine_threadsafe(request, self._loop).result()

    async def _ask(
        self, method: str, path: str, query: bytes, body: bytes, headers: Mapping[str, str]
    ) -> Response:
        told: dict[str, Any] = {"content": b""}
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": quote(path, safe="/%").encode(),
            "query_string": query,
            "root_path": "",
            "headers": [*raw, (b"content-length", str(len(body)).encode())],
            "client": ("127.0.0.1", 0),
            "server": ("127.0.0.1", 0),
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                told.update(status=message["status"], headers=message["headers"])
            else:
                told["content"] += message.get("body", b"")

        await self._app(scope, receive, send)
        named = {name.decode(): value.decode() for name, value in told["headers"]}
        return Response(told["status"], named, told["content"])

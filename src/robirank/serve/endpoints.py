"""Requests and answers as ASGI has them: bodies, parameters, headers, problems."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Receive, Scope, Send

from robirank.serve.problems import Problem, bad_value, of_decoding, of_error
from robirank.serve.route import JSON, Parameter, Route
from robirank.serve.settings import Limits

if TYPE_CHECKING:
    from robirank.serve.server import Server

PROBLEM_JSON = "application/problem+json"

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
#: What the page may load: its own files alone.
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


class Endpoint:
    """The routes of one path."""

    def __init__(self, server: Server, path: str, methods: Mapping[str, Route]) -> None:
        self._server, self._path, self._methods = server, path, methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        begin, request = time.perf_counter(), _request_id(scope)
        method = scope["method"]
        route = self._methods.get("GET" if method == "HEAD" else method)
        content, headers, status = JSON, [], 200
        try:
            if route is None:
                allowed = ", ".join(self._methods)
                headers = [(b"allow", allowed.encode())]
                raise Problem("wrong_method", f"{self._path} has {allowed}; got {method!r:.20}")
            content = route.content
            body = await _answer(self._server, route, scope, receive)
        except Exception as error:
            problem = of_error(error)
            if problem is None:
                self._server.tell_defect(error, request)
                problem = Problem("unexpected", "this is a defect of the server; see its log")
            body, status, content = (
                problem.body(request),
                problem.status,
                PROBLEM_JSON,
            )
            if problem.retry_after is not None:
                headers = [*headers, (b"retry-after", str(problem.retry_after).encode())]
            if status == 401:
                headers = [*headers, (b"www-authenticate", b"Bearer")]
        await _send(send, status, content, body, request, headers, head=method == "HEAD")
        seconds = time.perf_counter() - begin
        self._server.tell(self._path, method[:10], status, seconds, request)


class FileEndpoint:
    """A file of the page, which was read when the server started."""

    def __init__(self, content: bytes, kind: str) -> None:
        self._content, self._kind = content, kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the file."""
        request = _request_id(scope)
        if scope["method"] not in ("GET", "HEAD"):
            problem = Problem("wrong_method", "the page has GET")
            headers = [(b"allow", b"GET")]
            await _send(send, 405, PROBLEM_JSON, problem.body(request), request, headers)
            return
        headers = [
            (b"cache-control", b"no-cache"),
            (b"content-security-policy", _POLICY),
            (b"referrer-policy", b"no-referrer"),
        ]
        head = scope["method"] == "HEAD"
        await _send(send, 200, self._kind, self._content, request, headers, head=head)


async def no_such_route(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
    """Answer a request to a path that there is not."""
    request = _request_id(scope)
    problem = Problem("no_such_route", "see /docs for the routes")
    await _send(send, 404, PROBLEM_JSON, problem.body(request), request)


async def _send(
    send: Send,
    status: int,
    content: str,
    body: bytes,
    request: str,
    headers: Sequence[tuple[bytes, bytes]] = (),
    *,
    head: bool = False,
) -> None:
    every = [
        (b"content-type", content.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"x-request-id", request.encode()),
        (b"x-content-type-options", b"nosniff"),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": every})
    await send({"type": "http.response.body", "body": b"" if head else body})


def _request_id(scope: Scope) -> str:
    """The id that the client gave the request, or a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode()
    return secrets.token_hex(8)


async def _answer(server: Server, route: Route, scope: Scope, receive: Receive) -> bytes:
    """The body of the answer to a request."""
    headers = dict(scope["headers"])
    if route.needs_key:
        server.keys.check(headers)
    if route.body is not None:
        server.origins.check(headers)
    arguments = _parameters(route.parameters, scope)
    if route.body is not None:
        arguments["body"] = route.read(await _body(server.limits, headers, receive))
    return await route.handle(server, **arguments)


async def _body(limits: Limits, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
    """The body of a request, within the limits of size and time."""
    length = headers.get(b"content-length", b"")
    too_large = Problem("too_large", f"a body may have at most {limits.body} bytes", "$")
    if length.isdigit() and (len(length) > 18 or int(length) > limits.body):
        raise too_large
    chunks, size = [], 0
    try:
        async with asyncio.timeout(limits.seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem("bad_json", "the client is gone")
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > limits.body:
                    raise too_large
                if not message.get("more_body", False):
                    return b"".join(chunks)
    except TimeoutError:
        raise Problem("slow_body", f"a body must come within {limits.seconds:g} s") from None


def _parameters(parameters: Sequence[Parameter], scope: Scope) -> dict[str, Any]:
    """The parameters of the path and the query, checked."""
    given = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    values: dict[str, Any] = {}
    for one in parameters:
        text = scope["path_params"][one.name] if one.in_path else given.pop(one.name, None)
        if text is None:
            values[one.name] = one.default
            continue
        try:
            values[one.name] = msgspec.convert(text, one.kind, strict=False)
        except msgspec.ValidationError as error:
            problem = of_decoding(error)
            raise Problem(problem.code, problem.detail, f"$.{one.name}") from None
    if given:
        known = ", ".join(one.name for one in parameters if not one.in_path)
        raise bad_value("$", f"the query has {min(given)!r:.80}; it may have {known or 'nothing'}")
    return values

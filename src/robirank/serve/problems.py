"""Errors of the server: problem+json with a stable code, the field and what would be right."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import UNSET

from robirank.errors import ArgumentError, RobirankError, UnknownIdError
from robirank.serve.messages import ProblemBody

#: Every code, with its status and its title.
CODES: dict[str, tuple[int, str]] = {
    "bad_json": (400, "The body is not JSON"),
    "no_key": (401, "An API key is needed"),
    "wrong_key": (403, "The API key is not known"),
    "wrong_origin": (403, "A page of this origin may not ask"),
    "no_such_route": (404, "There is no such route"),
    "not_for_this_model": (404, "The model that is served has no such route"),
    "unknown_item": (404, "The model does not know the item"),
    "unknown_user": (404, "The model does not know the user"),
    "wrong_method": (405, "The route has other methods"),
    "slow_body": (408, "The body came too slowly"),
    "too_large": (413, "The request is too large"),
    "bad_value": (422, "A value cannot be used"),
    "overloaded": (429, "Too many requests are waiting"),
    "unexpected": (500, "Something unexpected went wrong"),
    "not_ready": (503, "The server is not ready"),
    "too_slow": (503, "The answer took too long"),
}

_AT = re.compile(r" - at `(?P<path>.*)`$", re.DOTALL)


@dataclass
class Problem(Exception):  # noqa: N818
    """An error that a client is told of; the code says the status."""

    code: str
    detail: str
    field: str | None = None
    retry_after: int | None = None

    def __post_init__(self) -> None:
        super().__init__(self.detail)

    @property
    def status(self) -> int:
        """The status of the response."""
        return CODES[self.code][0]

    def body(self, request: str | None = None) -> bytes:
        """The problem as JSON."""
        status, title = CODES[self.code]
        return msgspec.json.encode(
            ProblemBody(
                self.code,
                title,
                status,
                self.detail,
                f"about:blank#{self.code}",
                UNSET if self.field is None else self.field,
                UNSET if request is None else request,
            )
        )

    def at(self, place: str) -> Problem:
        """The same with the place of the question in the request before the field."""
        field = place if self.field is None else place + self.field.removeprefix("$")
        return Problem(self.code, self.detail, field, self.retry_after)


def bad_value(field: str, detail: str) -> Problem:
    """A value that cannot be used."""
    return Problem("bad_value", detail, field)


def of_decoding(error: Exception) -> Problem:
    """The problem of a body or a parameter that msgspec does not read."""
    text = str(error)
    if not isinstance(error, msgspec.ValidationError):
        return Problem("bad_json", text)
    where = _AT.search(text)
    code = "too_large" if "of length <=" in text else "bad_value"
    return Problem(code, _AT.sub("", text), where["path"] if where else "$")


_IN_RULES = ("where", "allow", "deny", "at_most", "at_least", "pin", "ties")
#: What fields of requests are called whose arguments have another name in Python.
_FIELDS = {"N": "n", **{name: f"rules.{name}" for name in _IN_RULES}}


def of_error(error: Exception) -> Problem | None:
    """The problem of an error of this package; None where it is a defect of the program."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, UnknownIdError):
        return Problem(f"unknown_{error.kind}", str(error))
    if isinstance(error, ArgumentError):
        name = error.subject.name.partition("[")[0]
        return Problem("bad_value", str(error), f"$.{_FIELDS.get(name, name)}")
    if isinstance(error, NotImplementedError):  # of a model that has no such method
        return Problem("not_for_this_model", str(error))
    if isinstance(error, RobirankError):
        return Problem("bad_value", str(error))
    return None


def phrase(status: int) -> str:
    """The words of a status."""
    return HTTPStatus(status).phrase


def as_field(*parts: Any) -> str:
    """The place of a value in a request: ``$.items[3]``."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)

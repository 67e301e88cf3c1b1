"""What a route is, and what the functions behind routes share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from robirank.serve.loaded import Served, ServedRanker, ServedRecommender
from robirank.serve.problems import Problem, of_decoding
from robirank.serve.tasks import Call

if TYPE_CHECKING:
    from robirank.serve.server import Server

JSON, TEXT, HTML = "application/json", "text/plain; version=0.0.4", "text/html; charset=utf-8"


@dataclass(frozen=True)
class Parameter:
    """A parameter in the path or the query of a route."""

    name: str
    kind: Any
    says: str
    default: Any = None
    in_path: bool = False


@dataclass(frozen=True)
class Route:
    """One route.

    Attributes
    ----------
    method, path : str
    says : str
        What it does, in a sentence.
    handle : callable
        Gets the server, the body as ``body`` and the parameters.
    body, answer : types
        None for none.
    parameters : tuple of Parameter
    problems : tuple of str
        Codes beside those of every route.
    needs_key : bool
    """

    method: str
    path: str
    says: str
    handle: Callable[..., Awaitable[bytes]]
    body: Any = None
    answer: Any = None
    parameters: tuple[Parameter, ...] = ()
    problems: tuple[str, ...] = ()
    needs_key: bool = True
    content: str = JSON
    decoder: msgspec.json.Decoder[Any] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.body is not None:
            object.__setattr__(self, "decoder", msgspec.json.Decoder(self.body))

    def read(self, body: bytes) -> Any:
        """The body, checked."""
        assert self.decoder is not None
        try:
            return self.decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise of_decoding(error) from None


def recommender_of(server: Server) -> ServedRecommender:
    """The model, of which users can be asked; a `Problem` for another."""
    served = server.served()
    if not isinstance(served, ServedRecommender):
        raise _not_for(served)
    return served


def ranker_of(server: Server) -> ServedRanker:
    """The model, of which documents can be asked; a `Problem` for another."""
    served = server.served()
    if not isinstance(served, ServedRanker):
        raise _not_for(served)
    return served


def _not_for(served: Served) -> Problem:
    able = "POST /v1/rank" if isinstance(served, ServedRanker) else "POST /v1/recommend"
    return Problem(
        "not_for_this_model", f"the model is a {type(served.model).__name__}, which has {able}"
    )


async def called(server: Server, function: Callable[[], Any]) -> bytes:
    """What a function gives, as JSON; it runs in the thread for what takes longer."""
    return await server.slow.ask(Call(lambda: msgspec.json.encode(function())))

"""Settings of the server that are no inputs: limits, and what is told."""

from __future__ import annotations

from dataclasses import dataclass, fields

from robirank._checks import check_count, check_positive
from robirank.serve.messages import MOST


@dataclass(frozen=True)
class Limits:
    """How much one request, and all that wait, may ask for.

    Attributes
    ----------
    body : int
        Bytes of a body; more is 413.
    questions : int
        Questions of one request.
    items : int
        Items of a list in a request.
    n : int
        The length of an answer; at least 10, which is what a request gets that does not say.
    waiting : int
        Requests that may wait for an answer; one more is 429.
    seconds : float
        How long a request may take, waiting included; then it is 503.
    feedback : int
        Pairs of users and items that are kept in memory between two updates; the oldest go first.
    """

    body: int = 1 << 20
    questions: int = MOST
    items: int = MOST
    n: int = MOST
    waiting: int = 512
    seconds: float = 10.0
    feedback: int = 1_000_000

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "seconds":
                check_count(field.name, getattr(self, field.name))
        for name in ("questions", "items", "n"):
            check_count(name, getattr(self, name), at_most=MOST)
        check_count("n", self.n, at_least=10)
        check_positive("seconds", self.seconds)

"""What the threads of the server do: questions together, everything else one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from robirank.serve.answering import answer
from robirank.serve.feedback import Feedback
from robirank.serve.figures import Figures
from robirank.serve.loaded import ServedRecommender
from robirank.serve.messages import Question, Recommended
from robirank.serve.problems import Problem, as_field, of_error
from robirank.serve.wishes import Wish, look_up

#: People who are folded in by one call; a call takes the longer the more there are.
_FOLDED = 32
#: Questions of one call.
_TOGETHER = 512

_encoder = msgspec.json.Encoder()


class Task(Protocol):
    """Something that a thread does for a request."""

    def run(self) -> Any:
        """Do it."""


@dataclass(frozen=True, eq=False)
class Call:
    """A task that is a function."""

    function: Callable[[], Any]

    def run(self) -> Any:
        """Call it."""
        return self.function()


class Slow(Exception):  # noqa: N818
    """A question has to be folded in, for which there is another thread."""


@dataclass(frozen=True, eq=False)
class Asked:
    """The questions of a request, to be answered by one model.

    Attributes
    ----------
    served : ServedRecommender
    questions : list of Question
    is_one : bool
        Whether the answer is one object, and not a list.
    may_fold : bool
        Whether people may be folded in here.
    until : float
        When nobody waits for the answer any more, by `time.monotonic`.
    """

    served: ServedRecommender
    questions: Sequence[Question]
    is_one: bool
    may_fold: bool
    until: float


@dataclass(eq=False)
class _Open:
    """An `Asked` that is being answered."""

    asked: Asked
    wishes: list[Wish] = field(default_factory=list)
    answers: list[Recommended] = field(default_factory=list)
    error: Exception | None = None

    def place(self, number: int) -> str:
        return "$" if self.asked.is_one else as_field(number)


class Worker:
    """Does what a batch holds."""

    def __init__(self, feedback: Feedback, figures: Figures) -> None:
        self._feedback, self._figures = feedback, figures

    def work(self, batch: list[Asked | Task]) -> list[Any]:
        """The results of a batch: bytes of JSON, or errors."""
        results: list[Any] = [None] * len(batch)
        open_ones: dict[int, _Open] = {}
        self._feedback.refresh()
        for place, job in enumerate(batch):
            if isinstance(job, Asked):
                open_ones[place] = self._looked_up(job)
            else:
                results[place] = _tried(job.run)
        self._answer([*open_ones.values()])
        for place, one in open_ones.items():
            results[place] = one.error or self._encoded(one)
        return results

    def _looked_up(self, asked: Asked) -> _Open:
        one = _Open(asked)
        for number, question in enumerate(asked.questions):
            try:
                wish = look_up(asked.served, question, self._feedback)
            except Exception as error:
                one.error = _problem(error, one.place(number))
                self._figures.count("unknown_ids", _is_unknown(one.error))
                break
            if wish.is_folded and not asked.may_fold:
                one.error = Slow()
                break
            one.wishes.append(wish)
        return one

    def _answer(self, every: Sequence[_Open]) -> None:
        """Answer all questions, those of one model together, and some at a time."""
        waiting = [
            (one, number) for one in every if one.error is None for number in range(len(one.wishes))
        ]
        waiting.sort(key=lambda pair: id(pair[0].asked.served))
        while waiting:
            part = _first_together(waiting)
            waiting = waiting[len(part) :]
            part = [pair for pair in part if self._is_wanted(pair[0])]
            if not part:
                continue
            served = part[0][0].asked.served
            try:
                told: Sequence[Any] = answer(served, [one.wishes[k] for one, k in part])
            except Exception as error:
                told = [error] * len(part)
            for (one, number), result in zip(part, told, strict=True):
                if isinstance(result, Exception):
                    one.error = one.error or _problem(result, one.place(number))
                else:
                    one.answers.append(result)

    def _is_wanted(self, one: _Open) -> bool:
        if one.error is None and time.monotonic() > one.asked.until:
            one.error = Problem("too_slow", "there was no answer in time", retry_after=1)
        return one.error is None

    def _encoded(self, one: _Open) -> bytes:
        answers = one.answers
        self._figures.count("unknown_ids", sum(len(told.ignored) for told in answers))
        short = sum(
            len(told.items) < question.n
            for told, question in zip(answers, one.asked.questions, strict=True)
        )
        self._figures.count("short_answers", short)
        return _encoder.encode(answers[0] if one.asked.is_one else answers)


def _first_together(waiting: list[tuple[_Open, int]]) -> list[tuple[_Open, int]]:
    """The first of those that wait, as many as one call should answer, of one model."""
    served, part, n_folded = waiting[0][0].asked.served, [], 0
    for one, number in waiting[:_TOGETHER]:
        if one.asked.served is not served:
            break
        n_folded += one.wishes[number].is_folded
        if n_folded > _FOLDED:
            break
        part.append((one, number))
    return part


def _tried(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return of_error(error) or error


def _problem(error: Exception, place: str) -> Exception:
    """The problem of one question, with its place in the request."""
    problem = of_error(error)
    return error if problem is None else problem.at(place)


def _is_unknown(error: Exception | None) -> int:
    return int(isinstance(error, Problem) and error.code.startswith("unknown_"))

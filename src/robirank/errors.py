"""The errors of this package, under one base, so that callers need not read messages.

Errors of a file format, of a cluster or of a device stand where they are raised, and are derived
from `RobirankError` too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_NO_VALUE: Any = object()


@dataclass(frozen=True)
class Argument:
    """An argument in the message of an error: its name, perhaps with a value.

    Examples
    --------
    >>> str(Argument("header", False)), str(Argument("checkpoint"))
    ('header=False', 'checkpoint=')
    """

    name: str
    value: Any = _NO_VALUE

    @property
    def has_value(self) -> bool:
        """Whether the message gives a value."""
        return self.value is not _NO_VALUE

    def __str__(self) -> str:
        return f"{self.name}={self.value!r}" if self.has_value else f"{self.name}="


class RobirankError(Exception):
    """Base class of errors that are caused by input or environment.

    The message says what can be done about it. The command line prints it without a traceback, and
    calls the arguments that it names by its own options.

    Parameters
    ----------
    *parts : str or Argument
        The message, in one piece or in several.

    Examples
    --------
    >>> str(RobirankError("plays.csv has no header; say ", Argument("header", False)))
    'plays.csv has no header; say header=False'
    """

    def __str__(self) -> str:
        return self.message(str)

    def message(self, name: Callable[[Argument], str]) -> str:
        """The message, in which ``name`` says what arguments are called."""
        return "".join(name(p) if isinstance(p, Argument) else str(p) for p in self.args)


class ArgumentError(RobirankError, ValueError):
    """An argument has a value that cannot be used.

    Parameters
    ----------
    argument : str or Argument
        The argument, with which the message begins.
    *problem : str or Argument
        What is wrong with it, and what would be right.

    Attributes
    ----------
    subject : Argument
        The argument; ``subject.name`` is its name.

    Examples
    --------
    >>> error = ArgumentError("resume", "needs a file; give ", Argument("checkpoint"))
    >>> str(error), error.subject.name
    ('resume needs a file; give checkpoint=', 'resume')
    """

    def __init__(self, argument: str | Argument, *problem: str | Argument) -> None:
        super().__init__(argument, *problem)
        self.subject = argument if isinstance(argument, Argument) else Argument(argument)

    def message(self, name: Callable[[Argument], str]) -> str:
        """The message, in which ``name`` says what arguments are called."""
        problem = RobirankError(*self.args[1:]).message(name)
        return f"{name(self.subject).removesuffix('=')} {problem}"


class TableError(RobirankError, ValueError):
    """A table, in memory or in a file, cannot be read as it is."""


class UnknownIdError(RobirankError, IndexError, ValueError):
    """A user or an item that a model or a table does not have.

    Parameters
    ----------
    message : str
    id : object
        The first id or position that is not there.
    kind : {"user", "item"}
    """

    def __init__(self, message: str, id: Any = None, kind: str = "item") -> None:
        super().__init__(message, id, kind)
        self.id, self.kind = id, kind

    def message(self, name: Callable[[Argument], str]) -> str:  # noqa: ARG002
        """The message."""
        return str(self.args[0])

"""Names and arguments that will be taken away, and the warnings that say so in time.

docs/releasing.md has the policy: what is deprecated works for two minor versions more, with a
`FutureWarning` that names what to use. Once ``robirank.__version__`` has reached the version that a
deprecation names, the module with the deprecation cannot be imported, so that it is not forgotten.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar

from robirank import __version__
from robirank._callers import warn
from robirank.errors import ArgumentError

F = TypeVar("F", bound=Callable[..., Any])


def deprecated(*, since: str, gone_in: str, use: str) -> Callable[[F], F]:
    """Decorate a public function that will be taken away.

    Parameters
    ----------
    since : str
        The version that began to warn.
    gone_in : str
        The version that will be without it.
    use : str
        What to use in its place.

    Examples
    --------
    >>> @deprecated(since="0.2", gone_in="99.0", use="new_name()")
    ... def old_name():
    ...     return 1
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = old_name()
    >>> print(caught[0].message)
    old_name() is deprecated since 0.2 and will be gone in 99.0; use new_name()
    """

    def decorate(function: F) -> F:
        _check_not_overdue(function.__name__, gone_in)

        @functools.wraps(function)
        def warns(*arguments: Any, **named: Any) -> Any:
            _warn(f"{function.__name__}()", since, gone_in, use)
            return function(*arguments, **named)

        return warns  # type: ignore[return-value]

    return decorate


def renamed_argument(old: str, new: str, *, since: str, gone_in: str) -> Callable[[F], F]:
    """Decorate a function of which an argument has a new name; the old one goes on working.

    Parameters
    ----------
    old, new : str
        The names of the argument.
    since, gone_in : str
        The version that began to warn, and the one that will refuse the old name.

    Examples
    --------
    >>> @renamed_argument("n", "N", since="0.2", gone_in="99.0")
    ... def best(*, N):
    ...     return N
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     best(n=3)
    3
    >>> print(caught[0].message)
    best(n=) is deprecated since 0.2 and will be gone in 99.0; use N=
    """

    def decorate(function: F) -> F:
        _check_not_overdue(f"{function.__name__}({old}=)", gone_in)

        @functools.wraps(function)
        def translates(*arguments: Any, **named: Any) -> Any:
            if old in named:
                if new in named:
                    raise ArgumentError(new, f"and its old name {old}= are both given")
                _warn(f"{function.__name__}({old}=)", since, gone_in, f"{new}=")
                named[new] = named.pop(old)
            return function(*arguments, **named)

        return translates  # type: ignore[return-value]

    return decorate


def _warn(what: str, since: str, gone_in: str, use: str) -> None:
    warn(
        f"{what} is deprecated since {since} and will be gone in {gone_in}; use {use}",
        FutureWarning,
    )


def _check_not_overdue(what: str, gone_in: str) -> None:
    if _numbers(__version__) >= _numbers(gone_in):
        raise RuntimeError(f"{what} was to be gone in {gone_in}, and this is {__version__}")


def _numbers(version: str) -> tuple[int, int]:
    """Major and minor, also of a version under development."""
    major, minor = re.match(r"(\d+)\.(\d+)", version).groups()  # type: ignore[union-attr]
    return int(major), int(minor)

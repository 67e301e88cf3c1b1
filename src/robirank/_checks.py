"""Checks of parameters; each error names the parameter, its value and what would be right.

A field ``n_estimators: Count = 1000`` of an estimator needs no other check: `check_params`, which
``fit`` calls, finds the rule in the type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from numbers import Integral, Real
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robirank._types import Floats64
from robirank.errors import ArgumentError


def check_positive(name: str, value: Any, *, at_most: float = np.inf) -> None:
    """Raise an error unless the parameter is a finite number above 0, and at most ``at_most``."""
    if not _is_number(value) or not 0 < float(value) <= at_most or np.isinf(value):
        also = "" if np.isinf(at_most) else f", at most {at_most:g}"
        raise ArgumentError(name, f"must be a positive number{also}; got {value!r}")


def check_not_negative(name: str, value: Any) -> None:
    """Raise an error unless the parameter is a finite number of at least 0."""
    if not _is_number(value) or not 0 <= float(value) < np.inf:
        raise ArgumentError(name, f"must be a finite number >= 0; got {value!r}")


def check_fraction(name: str, value: Any, *, at_most: float = 1.0) -> None:
    """Raise an error unless the parameter is a number from 0 to ``at_most``."""
    if not _is_number(value) or not 0 <= float(value) <= at_most:
        raise ArgumentError(name, f"must be a fraction from 0 to {at_most:g}; got {value!r}")


def check_count(
    name: str, value: Any, *, or_none: bool = False, at_least: int = 1, at_most: int | None = None
) -> None:
    """Raise an error unless the parameter is a positive integer between limits, or perhaps None."""
    if or_none and value is None:
        return
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        also = " or None" if or_none else ""
        raise ArgumentError(name, f"must be a positive integer{also}; got {value!r}")
    if value < at_least:
        raise ArgumentError(name, f"must be at least {at_least}; got {value!r}")
    if at_most is not None and int(value) > at_most:
        raise ArgumentError(name, f"must be at most {at_most}; got {value!r}")


def check_choice(name: str, value: Any, allowed: Iterable[Any], also: str = "") -> None:
    """Raise an error unless the parameter is one of the allowed values; ``also`` names others."""
    if value not in list(allowed):
        raise ArgumentError(name, f"must be one of {list(allowed)}{also}; got {value!r}")


def check_length(name: str, values: NDArray[Any], n: int, what: str) -> None:
    """Raise an error unless an array has one value for each of ``n`` of something."""
    if values.shape != (n,):
        problem = f"must have one value for each of the {n} {what}; got shape {values.shape}"
        raise ArgumentError(name, problem)


def check_vector(name: str, values: ArrayLike) -> Floats64:
    """Make a finite vector of floats."""
    vector = np.asarray(values)
    if vector.ndim != 1:
        raise ArgumentError(
            name, f"must be one-dimensional, one value a row; got shape {vector.shape}"
        )
    try:
        if vector.dtype.kind not in "buifO":
            raise TypeError
        floats = vector.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise ArgumentError(name, f"must be numbers; got {vector[:3].tolist()}, …") from None
    finite = np.isfinite(floats)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise ArgumentError(name, f"must be finite; {name}[{bad}] is {floats[bad]}")
    return floats


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def all_finite(array: NDArray[Any]) -> bool:
    """Whether no value is NaN or infinite; needs no temporary array."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


Count = Annotated[int, check_count]
CountOrNone = Annotated[int | None, partial(check_count, or_none=True)]
AtLeastTwo = Annotated[int, partial(check_count, at_least=2)]
Positive = Annotated[float, check_positive]
NotNegative = Annotated[float, check_not_negative]
#: Above 0, and at most 1.
Share = Annotated[float, partial(check_positive, at_most=1)]


def check_params(estimator: Any) -> None:
    """Raise an error for the first value that a ``Literal`` or a type of this module forbids."""
    kind: Any = type(estimator)
    for name, check in _checks(kind):
        check(name, getattr(estimator, name))


@cache
def _checks(cls: Any) -> list[tuple[str, Callable[[str, Any], None]]]:
    """The parameters of a class that are to be checked, each with its check."""
    types = get_type_hints(cls, include_extras=True)
    checks: list[tuple[str, Callable[[str, Any], None]]] = []
    for name in cls._get_param_names():
        kind = types.get(name)
        if get_origin(kind) is Literal:
            checks.append((name, partial(check_choice, allowed=get_args(kind))))
        checks += [(name, check) for check in getattr(kind, "__metadata__", ())]
    return checks

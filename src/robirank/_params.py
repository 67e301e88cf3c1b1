"""Parameters of estimators whose types say which values are allowed.

A field ``n_estimators: Count = 1000`` needs no other check: `check_params`, which ``fit`` calls,
finds the rule in the type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from robirank._checks import check_choice, check_count, check_not_negative, check_positive

Check: TypeAlias = Callable[[str, Any], None]


Count = Annotated[int, check_count]
CountOrNone = Annotated[int | None, partial(check_count, or_none=True)]
AtLeastTwo = Annotated[int, partial(check_count, at_least=2)]
Positive = Annotated[float, check_positive]
NotNegative = Annotated[float, check_not_negative]
#: Above 0, and at most 1.
Share = Annotated[float, partial(check_positive, at_most=1)]


def check_params(estimator: Any) -> None:
    """Raise an error that names the first parameter with a value that its type does not allow.

    A ``Literal`` allows the values that it lists, and the types of this module what they say; other
    types are not checked here.
    """
    kind: Any = type(estimator)
    for name, check in _checks(kind):
        check(name, getattr(estimator, name))


@cache
def _checks(cls: Any) -> list[tuple[str, Check]]:
    """The parameters of a class that are to be checked, each with its check."""
    types = get_type_hints(cls, include_extras=True)
    checks: list[tuple[str, Check]] = []
    for name in cls._get_param_names():
        kind = types.get(name)
        if get_origin(kind) is Literal:
            checks.append((name, partial(check_choice, allowed=get_args(kind))))
        checks += [(name, check) for check in getattr(kind, "__metadata__", ())]
    return checks

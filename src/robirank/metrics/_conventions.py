"""What programs disagree on when they say "NDCG", written down as four choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from robirank._checks import check_choice
from robirank._types import Floats64
from robirank.errors import ArgumentError

GainName: TypeAlias = Literal["exp", "linear"]
Gain: TypeAlias = GainName | Callable[[Floats64], ArrayLike]
Discount: TypeAlias = Literal["log2", "letor"]
Ties: TypeAlias = Literal["first", "last", "best", "worst", "average"]
Empty: TypeAlias = Literal["zero", "one", "skip"]

EMPTY_VALUE: Mapping[str, float] = {"zero": 0.0, "one": 1.0, "skip": float("nan")}


@dataclass(frozen=True)
class Convention:
    r"""The choices that decide what a ranking metric counts.

    Attributes
    ----------
    gain : {"exp", "linear"} or callable
        What a label ``r`` is worth: ``2**r - 1``, ``r`` itself, or what the callable makes of an
        array of labels.
    discount : {"log2", "letor"}
        What a rank takes off: ``1/log2(rank + 1)``, or LETOR's 1, 1, 1/log2(3), 1/log2(4), …,
        which leaves the first two ranks at full weight.
    ties : {"first", "last", "best", "worst", "average"}
        The order of rows with equal scores: as in the input, reverse to it, largest label first,
        smallest label first, or the expectation over all orders, each equally likely.
    empty : {"zero", "one", "skip"}
        What a query without anything relevant scores; "skip" makes it NaN and leaves it out of
        the mean.

    Examples
    --------
    >>> Convention(gain="linear", empty="skip")
    Convention(gain='linear', discount='log2', ties='average', empty='skip')
    >>> Convention(empty="nan")
    Traceback (most recent call last):
    ...
    robirank.errors.ArgumentError: empty must be one of ['zero', 'one', 'skip']; got 'nan'
    """

    gain: Gain = "exp"
    discount: Discount = "log2"
    ties: Ties = "average"
    empty: Empty = "zero"

    def __post_init__(self) -> None:
        if not callable(self.gain):
            check_choice("gain", self.gain, get_args(GainName), " or a callable")
        check_choice("discount", self.discount, get_args(Discount))
        check_choice("ties", self.ties, get_args(Ties))
        check_choice("empty", self.empty, get_args(Empty))


#: The named conventions; read-only.
CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {
        "standard": Convention("exp", "log2", "average", "zero"),
        "letor": Convention("exp", "letor", "first", "zero"),
        "trec": Convention("linear", "log2", "last", "zero"),
        "lightgbm": Convention("exp", "log2", "first", "one"),
    }
)


def resolve_convention(convention: str | Convention, **changes: Any) -> Convention:
    """Look up a convention and put the changes that are not None in place of its fields."""
    if not isinstance(convention, Convention):
        check_choice("convention", convention, tuple(CONVENTIONS), " or a Convention")
        convention = CONVENTIONS[convention]
    return replace(convention, **{k: v for k, v in changes.items() if v is not None})


def gains(y: Floats64, gain: Gain) -> Floats64:
    """The gains of the labels."""
    if callable(gain):
        values = np.asarray(gain(y), dtype=np.float64)
        if values.shape != y.shape:
            raise ArgumentError(
                "gain",
                f"must return one value for each of the {len(y)} labels it is given;"
                f" got shape {values.shape}",
            )
    else:
        check_choice("gain", gain, get_args(GainName), " or a callable")
        with np.errstate(over="ignore"):  # an infinite gain is an error below
            values = np.exp2(y) - 1 if gain == "exp" else y
        if gain == "exp" and y.min() < 0:
            bad = int(np.argmax(y < 0))
            raise ArgumentError(
                "y",
                f"must not be negative with gain='exp'; y[{bad}] is {y[bad]:g}"
                " (clip the labels at 0, or pass a gain of your own)",
            )
    if not np.isfinite(values).all():
        bad = int(np.argmin(np.isfinite(values)))
        raise ArgumentError(
            "gain",
            f"must be finite; it is {values[bad]} for the label y[{bad}] = {y[bad]:g} "
            "(take Convention(gain='linear'), or smaller labels)",
        )
    return values


def discounts(n: int, discount: Discount) -> Floats64:
    """The weights of the ranks 1 to n."""
    ranks = np.arange(1, n + 1, dtype=np.float64)
    return 1 / np.log2(ranks + 1 if discount == "log2" else np.maximum(ranks, 2))

"""How much records weigh by their age: half as much for every half-life."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._checks import check_positive
from robirank._types import Floats32
from robirank.data.user_items import UserItems
from robirank.errors import Argument, ArgumentError

#: A time later than those of any table, in whatever unit: just now.
NOW = 1 << 62

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_MICROSECONDS = 1e6
_DAY = 86_400 * _MICROSECONDS
#: Half-lives; records that are older weigh as much as these. A user with such records alone still
#: has a row: with far smaller weights, float32 knows no step that makes the loss smaller.
_OLDEST = 20.0


def length_of_time(name: str, value: Any, has_dates: bool) -> float:
    """A length of time in the unit of a table's times; dates are microseconds.

    Examples
    --------
    >>> length_of_time("window", "2h", has_dates=True), length_of_time("window", 30, False)
    (7200000000.0, 30.0)
    """
    if not has_dates:
        if not isinstance(value, Real):
            raise ArgumentError(name, f"must be a number, as the times are; got {value!r}")
        check_positive(name, value)
        return float(value)
    match = re.fullmatch(r"([1-9]\d*)([mhdw])", value) if isinstance(value, str) else None
    if match is None:
        raise ArgumentError(
            name,
            "must be text such as '90m', '12h', '30d' or '4w', as the times are dates; got "
            f"{value!r}",
        )
    return int(match[1]) * _SECONDS[match[2]] * _MICROSECONDS


def check_times(table: Any, needed_by: Argument) -> None:
    """Raise an error unless a table has times, of which no date lies in the future."""
    times = getattr(table, "timestamps", None)
    if times is None:
        raise ArgumentError(
            needed_by, "needs a table with times: Interactions, read with ", Argument("time")
        )
    if table.has_dates:
        check_past(needed_by, times)


def check_past(argument: Argument, dates: NDArray[Any]) -> None:
    """Raise an error where a date, in microseconds since 1970, is later than tomorrow."""
    is_ahead = dates > time.time() * _MICROSECONDS + _DAY
    if is_ahead.any():
        latest = np.datetime64(int(dates.max()), "us").astype("datetime64[s]")
        raise ArgumentError(
            argument,
            f"must have no time in the future; it has {int(is_ahead.sum())}, up to {latest} (UTC)",
        )


@dataclass(frozen=True)
class Ages:
    r"""How records weigh by their age: :math:`2^{-(t_\text{latest} - t) / h}`, at most one.

    Attributes
    ----------
    half_life : float or None
        h, in the unit of the times; None: all weigh one.
    latest : float
        The time from which ages count back.

    Examples
    --------
    >>> Ages(half_life=10, latest=20).weights(np.array([0, 10, 20, 30])).tolist()
    [0.25, 0.5, 1.0, 1.0]
    """

    half_life: float | None = None
    latest: float = 0.0

    def weights(self, times: NDArray[Any]) -> Floats32:
        """The weights of records with these times."""
        assert self.half_life is not None
        ages = np.clip((self.latest - times.astype(np.float64)) / self.half_life, 0.0, _OLDEST)
        return np.exp2(-ages).astype(np.float32)

    def weigh(self, table: UserItems) -> UserItems:
        """The same records, with their weights times those of their ages; without times, as is."""
        if self.half_life is None or table.times is None:
            return table
        by_age = self.weights(table.times)
        return replace(table, weight=by_age if table.weight is None else table.weight * by_age)

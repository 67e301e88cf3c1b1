"""The types of parameters are their checks."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from robirank import ArgumentError
from robirank._checks import (
    AtLeastTwo,
    Count,
    CountOrNone,
    NotNegative,
    Positive,
    Share,
    check_params,
)


@dataclass
class Estimator(BaseEstimator):
    rounds: Count = 1
    k: CountOrNone = None
    leaves: AtLeastTwo = 2
    rate: Positive = 0.5
    alpha: NotNegative = 0.0
    part: Share = 1.0
    metric: Literal["ndcg", "map"] = "ndcg"
    name: str = "any"


class Child(Estimator):
    """Inherits fields and checks."""


@pytest.mark.parametrize("kind", [Estimator, Child])
@pytest.mark.parametrize(
    ("param", "value", "message"),
    [
        ("rounds", 0, "rounds must be a positive integer; got 0"),
        ("rounds", 1.0, "rounds must be a positive integer; got 1.0"),
        ("k", -1, "k must be a positive integer or None; got -1"),
        ("leaves", 1, "leaves must be at least 2; got 1"),
        ("rate", 0, "rate must be a positive number; got 0"),
        ("alpha", -0.1, "alpha must be a finite number >= 0; got -0.1"),
        ("part", 1.5, "part must be a positive number, at most 1; got 1.5"),
        ("metric", "err", r"metric must be one of \['ndcg', 'map'\]; got 'err'"),
    ],
)
def test_a_value_that_the_type_does_not_allow(kind, param, value, message):
    with pytest.raises(ArgumentError, match=message) as caught:
        check_params(kind(**{param: value}))
    assert caught.value.subject.name == param


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"rounds": np.int64(3), "k": 10, "leaves": 7, "rate": 1e-9, "alpha": 3, "part": 0.1},
        {"metric": "map", "name": None},
    ],
)
def test_values_that_are_allowed(params):
    check_params(Estimator(**params))

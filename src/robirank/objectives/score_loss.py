"""The protocol that every loss follows: scores in, loss and gradient out."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from robirank._types import Floats64


class ScoreLoss(Protocol):
    """A loss as a function of scores.

    An instance holds the problem (labels, queries, weights). A model of any kind is trained by it:
    the model makes the scores, and sends the gradient back into its own parameters.
    """

    def __call__(self, scores: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        """Return the loss of the scores, one a row, and its derivative by each of them."""


@runtime_checkable
class LinearScoreLoss(ScoreLoss, Protocol):
    """A loss that computes the scores of a linear model and its gradient in one pass."""

    def of_linear(self, X: NDArray[Any], w: Floats64) -> tuple[float, Floats64]:
        """Return the loss of the scores X w and its gradient by w, in one pass over a dense X."""

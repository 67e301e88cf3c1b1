"""The protocol that every loss follows: scores in, loss and gradient out."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray


class ScoreLoss(Protocol):
    """A loss as a function of scores.

    An instance holds the problem (labels, queries, weights). A model of any kind is trained by it:
    the model makes the scores, and sends the gradient back into its own parameters. A loss with a
    method ``of_linear(X, w)``, which returns the loss of the scores X w and its gradient by w in
    one pass over a dense X, is asked by that where a model is linear.
    """

    def __call__(self, scores: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        """Return the loss of the scores, one a row, and its derivative by each of them."""

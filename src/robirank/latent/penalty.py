"""Frobenius regularisation, with a weight for every row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robirank.engine.decay import Decay

#: How a row's weight grows with its records. With one for both, every record pays for its two rows
#: alike; less protects the rows that few records speak for. Chosen on Gowalla's validation part.
USER_EXPONENT = 0.5
ITEM_EXPONENT = 0.85


def row_weights(counts: NDArray[np.int64], exponent: float) -> NDArray[np.float32]:
    """Weights a ∝ n^exponent of the rows, scaled so that they add up to the records: Σ a = Σ n.

    The penalty of the factors is λ/2 (Σ_x a_x ‖U_x‖² + Σ_y a_y ‖V_y‖²).

    Examples
    --------
    >>> row_weights(np.array([1, 4, 0]), 0.5).round(2)
    array([1.67, 3.33, 0.  ], dtype=float32)
    """
    return Decay.of_counts(1.0, exponent, counts).weights(counts).astype(np.float32)


def penalty(
    U: NDArray[np.float32],
    V: NDArray[np.float32],
    user_weights: NDArray[np.float32],
    item_weights: NDArray[np.float32],
    reg: float,
) -> float:
    """λ/2 (Σ_x a_x ‖U_x‖² + Σ_y a_y ‖V_y‖²)."""
    return 0.5 * reg * (_weighted_norm(U, user_weights) + _weighted_norm(V, item_weights))


def _weighted_norm(rows: NDArray[np.float32], weights: NDArray[np.float32]) -> float:
    squares = np.einsum("ij,ij->i", rows, rows).astype(np.float64)
    return float(squares @ weights.astype(np.float64))

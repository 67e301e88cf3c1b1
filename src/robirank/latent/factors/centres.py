"""What features say of the rows of a model: the centre of a row is its features times weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._types import Floats32
from robirank.data.feature_rows import FeatureRows


@dataclass(frozen=True, eq=False)
class Centres:
    """The features of one side of a model, and what each adds to the factors of a row.

    Attributes
    ----------
    features : FeatureRows
        A row for each user or item.
    weights : float32 array of shape (n_features, factors)
        W: the centre of a row is its features times W.
    """

    features: FeatureRows
    weights: Floats32

    def __len__(self) -> int:
        return len(self.features)

    def of(self, features: FeatureRows) -> Floats32:
        """The centres of rows with these features."""
        return features.times(self.weights)

    def to_tensors(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays that a file keeps."""
        return self.features.to_tensors(prefix) | {f"{prefix}.weights": self.weights}

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> Centres:
        """The inverse of `to_tensors`; a ValueError unless the arrays fit together."""
        features = FeatureRows.from_tensors(arrays, prefix)
        weights = arrays.get(f"{prefix}.weights")
        if weights is None or weights.dtype != np.float32 or weights.ndim != 2:
            raise ValueError(f"{prefix}.weights must be a float32 matrix")
        if len(weights) != features.encoder.width or not np.isfinite(weights).all():
            raise ValueError(
                f"{prefix}.weights must have a finite row for each of the "
                f"{features.encoder.width} features"
            )
        return cls(features, weights)

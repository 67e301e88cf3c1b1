"""LatentRoBiRank: the paper's latent collaborative retrieval."""

from __future__ import annotations

from typing import Literal

from robirank.latent.factors import FactorModel

__all__ = ["LatentRoBiRank"]

SolverName = Literal["auto", "exact", "sgd"]

#: Work of an epoch, in floating-point operations, up to which "auto" takes the exact solver:
#: about a minute on two cores.
EXACT_LIMIT = 1e13


class LatentRoBiRank(FactorModel):
    pass

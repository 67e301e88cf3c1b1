"""A model with given factors, to test what one does with factors."""

import numpy as np

from robirank.latent.factors.factor_model import FactorModel
from robirank.latent.factors.factors import Factors, Side
from robirank.registry import register


@register
class Tiny(FactorModel):
    """The interface of the implicit package's models, without learning."""

    fitted_parts = FactorModel.fitted_parts.plus(numbers={"n_iter_": int})

    given: tuple = ()  # (U, V) for the next fit

    def __init__(self, factors=8, iterations=3, random_state=None, num_threads=0):
        self.factors = factors
        self.iterations = iterations
        self.random_state = random_state
        self.num_threads = num_threads

    def fit(self, user_items, show_progress=True):
        if self.given:
            self.user_factors, self.item_factors = self.given
            return self
        rng = np.random.default_rng(self.random_state)
        n_users, n_items = user_items.shape
        self.user_factors = rng.standard_normal((n_users, self.factors), dtype=np.float32)
        self.item_factors = rng.standard_normal((n_items, self.factors), dtype=np.float32)
        return self

    def fold_in(self, user_items):
        return np.asarray(user_items @ self.item_factors, dtype=np.float32)


def tiny(U, V, **params) -> Tiny:
    """Make a model of these factors."""
    model = Tiny(**params)
    model.user_factors = np.asarray(U, dtype=np.float32)
    model.item_factors = np.asarray(V, dtype=np.float32)
    return model


def as_factors(U, V) -> Factors:
    """Factors of these rows."""
    return Factors(Side(U), Side(V))


def rows_of(factors):
    """U and V of factors."""
    return factors.users.rows, factors.items.rows

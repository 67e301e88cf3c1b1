"""The latent model as the paper writes it: float64, one user after the other."""

import numpy as np
from scipy.sparse import csr_matrix

from robirank import losses
from robirank.data.user_items import as_user_items
from robirank.latent.solvers.problem import Penalty


def random_problem(seed, users=8, items=30, d=3, share=0.2, spread=1.0, counts=False):
    """Factors, a dense table of weights, and the same table as UserItems."""
    rng = np.random.default_rng(seed)
    U = (spread * rng.standard_normal((users, d))).astype(np.float32)
    V = rng.standard_normal((items, d)).astype(np.float32)
    table = (rng.random((users, items)) < share).astype(np.float32)
    table[0, 0] = 1.0  # there is always something to learn
    if counts:
        table *= rng.integers(1, 6, size=table.shape)
    return U, V, table, as_user_items(csr_matrix(table), "count" if counts else "binary")


def user_loss(u, V, weights, rho):
    """Loss of one user and its gradient by the user's scores."""
    if not weights.any():
        return 0.0, np.zeros(len(V))
    plain = losses.list_loss(V @ u, weights, rho)
    return plain.loss, plain.gradient


def objective(U, V, table, rho, reg=0.0):
    """Loss, its gradients by U and V, all with the penalty."""
    U, V = U.astype(np.float64), V.astype(np.float64)
    parts = [user_loss(u, V, weights, rho) for u, weights in zip(U, table, strict=True)]
    G = np.array([gradient for _, gradient in parts])
    users, items = (table > 0).sum(axis=1), (table > 0).sum(axis=0)
    penalty = Penalty.of_counts(reg, users, items, table[table > 0].mean())
    a, b = reg * penalty.users.of(users)[:, None], reg * penalty.items.of(items)[:, None]
    value = sum(loss for loss, _ in parts) + 0.5 * float((a * U**2).sum() + (b * V**2).sum())
    return value, G @ V + a * U, G.T @ U + b * V

"""The rivals of ``cold.py``: hybrids that rank new rows by their features.

Each has a step that does not depend on its settings, a fit under a setting, and a few settings, the
first of which is taken where nothing can be held out.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from _cold_data import SEED, Board

MOST_DIRECT = 5_000  # columns of a system that is solved by Cholesky and not step by step
MOST_ITEMS = 15_000  # of MARec: a dense matrix of items × items is inverted
RIDGE_STEPS = 25  # of conjugate gradients
Found = dict[str, Any]


class Skipped(Exception):  # noqa: N818
    """A method cannot be run on a board; the text says why."""


class Ranked:
    """A model that gives the scores of all items for some users, with implicit's `recommend`."""

    def __init__(self, scores: Callable[[Any], Any]) -> None:
        self.scores = scores

    def recommend(
        self,
        userid: Any,
        user_items: Any,
        N: int = 10,
        recalculate_user: bool = False,  # noqa: ARG002
        items: Any = None,
    ) -> tuple[Any, Any]:
        """The best items of some users, without those that they have."""
        rows = np.array(self.scores(userid), np.float32)
        rows[user_items.nonzero()] = -np.inf
        items = np.arange(rows.shape[1]) if items is None else np.asarray(items)
        rows = rows[:, items]
        best = np.argpartition(-rows, min(N, rows.shape[1] - 1), axis=1)[:, :N]
        order = np.argsort(-np.take_along_axis(rows, best, 1), axis=1, kind="stable")
        best = np.take_along_axis(best, order, 1)
        return items[best], np.take_along_axis(rows, best, 1)


def by_factors(U: Any, V: Any) -> Ranked:
    """Rank by inner products."""
    return Ranked(lambda users: U[users] @ V.T)


def by_product(board: Board, product: Callable[[Any], Any]) -> Ranked:
    """Rank by the table times a matrix of items × items, or of users × users."""
    if not board.of_users:
        return Ranked(lambda users: product(board.train[users]))
    scores = np.ascontiguousarray(product(board.train.T.tocsr()).T)
    return Ranked(lambda users: scores[users])


def encoded(counts: Any) -> Any:
    """Rows of length one: log of the count × log of the inverse share of rows with the value."""
    n_having = np.bincount(counts.indices, minlength=counts.shape[1])
    rarity = np.log((counts.shape[0] + 1.0) / np.maximum(n_having, 1))
    data = np.log2(1.0 + counts.data) * rarity[counts.indices]
    rows = sparse.csr_matrix((data, counts.indices, counts.indptr), counts.shape)
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return sparse.csr_matrix(sparse.diags(scale) @ rows).astype(np.float32)


class Sides(NamedTuple):
    """A table without its empty rows and columns, and the features of what it keeps."""

    board: Board
    table: Any
    users: Any
    items: Any
    features: Any  # of every row of the featured side, encoded

    @classmethod
    def of(cls, board: Board) -> Sides:
        users = np.flatnonzero(np.diff(board.train.indptr))
        items = np.unique(board.train.indices)
        table = board.train[users][:, items].tocsr()
        return cls(board, table, users, items, encoded(board.features))

    @property
    def known(self) -> Any:
        """Positions of the rows with interactions, on the side that has features."""
        return self.users if self.board.of_users else self.items

    def whole(self, U: Any, V: Any, rows: Any) -> Ranked:
        """Factors of the table in their places; ``rows`` are what features say of all rows."""
        shape = self.board.train.shape
        users, items = (np.zeros((n, U.shape[1]), np.float32) for n in shape)
        (users if self.board.of_users else items)[:] = rows
        users[self.users], items[self.items] = U, V
        return by_factors(users, items)


def solved(matrix: Any, penalty: float, sides: Any) -> Any:
    """(MᵀM + penalty)⁻¹ times some columns, directly or by conjugate gradients."""
    if matrix.shape[1] <= MOST_DIRECT:
        gram = (matrix.T @ matrix).toarray().astype(np.float64)
        gram[np.diag_indices_from(gram)] += penalty
        return cho_solve(cho_factor(gram), sides).astype(np.float32)
    transposed = matrix.T.tocsr()
    found = np.zeros_like(sides)
    rest, way = sides.copy(), sides.copy()
    squares = np.einsum("ij,ij->j", rest, rest)
    least = 1e-6 * squares
    for _ in range(RIDGE_STEPS):
        image = transposed @ (matrix @ way) + np.float32(penalty) * way
        step = squares / np.maximum(np.einsum("ij,ij->j", way, image), 1e-30)
        found += step * way
        rest -= step * image
        before, squares = squares, np.einsum("ij,ij->j", rest, rest)
        if (squares <= least).all():
            break
        way = rest + (squares / np.maximum(before, 1e-30)) * way
    return found


# Cosine of features, ridge of interactions on features, MARec


def cosine(sides: Sides, setting: Found) -> Ranked:
    """Score by the features of a user's own items, or by what friends have."""
    board, F = sides.board, sides.features
    if setting["kind"] == "sum" and board.of_users:
        tie = 1e-6 * np.asarray(board.train.sum(axis=0)).ravel()
        friends = board.features
        return Ranked(lambda users: (friends[users] @ board.train).toarray() + tie)
    transposed = F.T.tocsr()
    return by_product(board, lambda rows: ((rows @ F) @ transposed).toarray())


def ridge(sides: Sides, setting: Found) -> Ranked:
    """Regress each user's row of the table on the features of the items it has; users alike."""
    F, known = sides.features, sides.known
    of_known, penalty = F[known].tocsr(), setting["penalty"]

    def product(rows: Any) -> Any:
        sums = (rows[:, known] @ of_known).toarray().T.astype(np.float32)
        return (F @ solved(of_known, penalty, sums)).T

    return by_product(sides.board, product)


def prepare_marec(board: Board) -> tuple[Sides, Any, Any]:
    """XᵀX and XᵀX̃, where X̃ is what the items that are like an item say of each user.

    X̃ is XG, with the cosines G of features, on the scale of X by least squares.
    """
    n = board.features.shape[0]
    if n > MOST_ITEMS:
        raise Skipped(f"{n:,} items, and it inverts a dense matrix of items × items")
    X = board.train.T.tocsr() if board.of_users else board.train
    sides = Sides.of(board)
    likeness = (sides.features @ sides.features.T).toarray()
    np.fill_diagonal(likeness, 0.0)
    gram = (X.T @ X).toarray().astype(np.float32)
    aligned = gram @ likeness
    scale = np.vdot(gram, likeness) / max(float(np.vdot(likeness, aligned)), 1e-12)
    return sides, gram, np.float32(scale) * aligned


def marec(prepared: tuple[Sides, Any, Any], setting: Found) -> Ranked:
    """EASE whose columns of rare items are drawn to what similar items say (MARec, RecSys 2024).

    min ‖X − XB‖² + λ‖B‖² + ‖(αX̃ − XB) D^½‖² with a zero diagonal, where D falls from β for
    items without interactions to 0 at the tenth percentile of their numbers.
    """
    sides, gram, aligned = prepared
    n_interactions = np.diag(gram)
    limit = max(float(np.percentile(n_interactions, 10)), 1.0)
    pull = setting["beta"] * np.maximum(0.0, 1.0 - n_interactions / limit)
    B = np.empty_like(gram)
    for d in np.unique(pull):
        chosen = np.flatnonzero(pull == d)
        system = (1.0 + np.float32(d)) * gram
        system[np.diag_indices_from(system)] += np.float32(setting["penalty"])
        inverse = np.linalg.inv(system)
        wanted = gram[:, chosen] + np.float32(d * setting["alpha"]) * aligned[:, chosen]
        columns = inverse @ wanted
        own = columns[chosen, np.arange(len(chosen))] / inverse[chosen, chosen]
        B[:, chosen] = columns - inverse[:, chosen] * own
    return by_product(sides.board, lambda rows: rows @ B)


# LightFM and irspack


def lightfm(sides: Sides, setting: Found) -> Ranked:
    """LightFM with WARP; every known row has an identity beside its features."""
    from lightfm import LightFM

    model = LightFM(
        setting["factors"],
        loss="warp",
        learning_rate=setting["learning_rate"],
        item_alpha=setting["alpha"],
        user_alpha=setting["alpha"],
        random_state=SEED,
    )
    side = "user" if sides.board.of_users else "item"
    n, known = sides.features.shape[0], sides.known
    shape = (n, len(known))
    identity = sparse.csr_matrix((np.ones(len(known)), (known, np.arange(len(known)))), shape)
    rows = sparse.hstack([identity, sides.features], format="csr").astype(np.float32)
    given = {f"{side}_features": rows[known].tocsr()}
    model.fit(sides.table.tocoo(), epochs=setting["epochs"], num_threads=2, **given)
    of_users, of_items = (
        model.get_user_representations(rows if side == "user" else None),
        model.get_item_representations(rows if side == "item" else None),
    )
    U, V = (
        np.column_stack([of_users[1], np.ones(len(of_users[0]))]),
        np.column_stack(of_items[::-1]),
    )
    if side == "user":
        return sides.whole(U[known], V, U)
    return sides.whole(U, V[known], V)


def irspack(sides: Sides, setting: Found) -> Ranked:
    """The feature-aware iALS of irspack: rows are drawn to what their features say."""
    from irspack.recommenders import IALSRecommender

    side = "user" if sides.board.of_users else "item"
    given = {
        f"{side}_features": sides.features[sides.known],
        f"lambda_{side}_feature": setting["feature_penalty"],
    }
    model = IALSRecommender(
        sides.table,
        n_components=setting["factors"],
        alpha0=setting["alpha0"],
        reg=setting["reg"],
        train_epochs=setting["epochs"],
        random_seed=SEED,
        **given,
    )
    with contextlib.redirect_stdout(io.StringIO()):  # its progress
        model.learn()
    U, V = model.get_user_embedding(), model.get_item_embedding()
    rows = getattr(model, f"compute_{side}_embedding_from_features")(sides.features)
    return sides.whole(U, V, rows)


class Rival(NamedTuple):
    """A method with settings."""

    prepare: Callable[[Board], Any]
    fit: Callable[[Any, Found], Ranked]
    settings: list[Found]
    package: str = ""


def _lightfm(factors: int, learning_rate: float, alpha: float, epochs: int) -> Found:
    names = ("factors", "learning_rate", "alpha", "epochs")
    return dict(zip(names, (factors, learning_rate, alpha, epochs), strict=True))


def _irspack(alpha0: float, reg: float, feature_penalty: float, factors: int = 64) -> Found:
    names = ("alpha0", "reg", "feature_penalty", "factors", "epochs")
    return dict(zip(names, (alpha0, reg, feature_penalty, factors, 16), strict=True))


RIVALS: dict[str, Rival] = {
    "cosine": Rival(Sides.of, cosine, [{"kind": "sum"}, {"kind": "cosine"}]),
    "ridge": Rival(Sides.of, ridge, [{"penalty": p} for p in (3.0, 1.0, 10.0, 30.0, 100.0)]),
    "marec": Rival(
        prepare_marec,
        marec,
        [
            {"penalty": p, "beta": b, "alpha": a}
            for p, b, a in (
                (100.0, 10.0, 1.0),
                (100.0, 10.0, 3.0),
                (100.0, 100.0, 3.0),
                (30.0, 10.0, 3.0),
                (300.0, 10.0, 3.0),
                (100.0, 100.0, 10.0),
            )
        ],
    ),
    "lightfm": Rival(
        Sides.of,
        lightfm,
        [
            _lightfm(64, 0.05, 1e-6, 30),
            _lightfm(64, 0.05, 0.0, 30),
            _lightfm(64, 0.05, 1e-5, 30),
            _lightfm(64, 0.05, 1e-4, 30),
            _lightfm(64, 0.05, 1e-6, 100),
            _lightfm(128, 0.02, 1e-5, 60),
        ],
        "lightfm",
    ),
    "irspack": Rival(
        Sides.of,
        irspack,
        [
            _irspack(0.01, 0.01, 1.0),
            _irspack(0.03, 0.01, 1.0),
            _irspack(0.003, 0.01, 1.0),
            _irspack(0.01, 0.003, 1.0),
            _irspack(0.01, 0.03, 1.0),
            _irspack(0.01, 0.01, 10.0),
        ],
        "irspack",
    ),
}

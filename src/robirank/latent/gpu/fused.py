"""The steps of the exact solver by kernels that write no score to memory; see cuda/scores.cu."""

from __future__ import annotations

import math

import torch

from robirank.latent.gpu import plain
from robirank.latent.gpu.batch import (
    FAR,
    MOST_WIDTH,
    AdamState,
    AdamStep,
    Batch,
    BatchInteractions,
    Gradients,
    UserStep,
    stacked,
)
from robirank.latent.gpu.kernels import (
    ADAM_NUMBERS,
    ADAM_THREADS,
    GRID_THREADS,
    NEWTON_THREADS,
    NEWTON_USERS,
    SPARSE_COLUMNS,
    SPARSE_SLICES,
    SUM_THREADS,
    TABLE_THREADS,
    Address,
    Kernels,
    Room,
    kernels_for,
)
from robirank.latent.gpu.layout import KERNEL_BINS
from robirank.losses import LN2, RhoName

# So few items, or so many relevant ones, are summed directly: their derivatives cancel beyond half
# precision.
_FEW_ITEMS, _MANY_RELEVANT = 64, 0.5
_SLICE = 4096  # entries of a row for a slice of threads, about
_RHO_NUMBERS = {"identity": 0, "log": 1, "type2": 2}


def gradients(
    U: torch.Tensor, V: torch.Tensor, interactions: BatchInteractions, rho: RhoName
) -> Gradients:
    """As `robirank.latent.gpu.plain.gradients`, on a card."""
    return _of_one(gradients_of_all(U[None], V[None], interactions, rho))


def gradients_of_all(
    U: torch.Tensor, V: torch.Tensor, interactions: BatchInteractions, rho: RhoName
) -> Gradients:
    """As `robirank.latent.gpu.plain.gradients_of_all`, on a card."""
    pairs = U.shape[1] * V.shape[1]
    if V.shape[1] <= _FEW_ITEMS or len(interactions.items) > _MANY_RELEVANT * pairs:
        return stacked([_direct(u, v, interactions, rho) for u, v in zip(U, V, strict=True)])
    batch = FusedBatch(U, V, interactions)
    found = batch.gradients(rho)
    wide = batch.wide()  # seldom; the card goes on while this waits for the grids
    return found if wide is None else _with_wide(found, wide, U, V, interactions, rho)


def adam(V: torch.Tensor, gradient: torch.Tensor, state: AdamState, step: AdamStep) -> None:
    """As `robirank.latent.gpu.plain.adam`."""
    factors, rows = V.shape[-1], V.numel() // V.shape[-1]
    kernels_for(factors, V.device.index or 0).launch(
        "adam",
        (-(-rows * factors // (ADAM_THREADS * ADAM_NUMBERS)), 1, 1),
        *(V, state.first, state.second, gradient, state.penalty, factors, rows),
        *map(float, step),
        threads=ADAM_THREADS,
    )


def step_users(
    U: torch.Tensor,
    found: Gradients,
    batch: Batch,
    rho: RhoName,
    step: UserStep,
    moved: torch.Tensor,
    places: torch.Tensor | None,
) -> torch.Tensor:
    """One step of Newton's on the rows of a batch; returns those that items are stepped with.

    ``moved`` gets the new rows, at these ``places``; None: in their order.
    """
    models, users, factors = U.shape
    seen_rows = torch.empty_like(U) if step.seen else None
    kernels_for(factors, U.device.index or 0).launch(
        "step_users",
        (-(-users // NEWTON_USERS), 1, models),
        *(U, found.users, found.losses, batch.interactions.starts, batch.places),
        *(step.weights, step.penalties, step.centres, *step.curvature, _RHO_NUMBERS[rho]),
        *(2 * LN2 * step.damping, float(step.seen), users, step.penalties.shape[1], factors),
        *(places, moved.shape[1], moved, seen_rows),
        threads=NEWTON_THREADS,
    )
    return U if seen_rows is None else seen_rows


def sparse_times(
    starts: torch.Tensor,
    columns: torch.Tensor,
    values: torch.Tensor,
    dense: torch.Tensor,
    *,
    factors: int,
    longest: int,
) -> torch.Tensor:
    """A CSR matrix times a dense one, with the same bits each time, by the kernels of a fit.

    ``longest`` is the number of entries of the longest row: by it are the slices of threads that
    share a row out.
    """
    dense = dense.contiguous()
    n_rows, width = len(starts) - 1, dense.shape[1]
    out = torch.empty((n_rows, width), device=dense.device)
    kernels_for(factors, dense.device.index or 0).launch(
        "sparse_times",
        (n_rows, -(-width // SPARSE_COLUMNS), 1),
        *(starts, columns, values, dense, width, out),
        threads=SPARSE_COLUMNS * min(max(longest // _SLICE, 4), SPARSE_SLICES),
    )
    return out


class FusedBatch:
    """The kernels' steps for one batch of users, of several models at once.

    Parameters
    ----------
    U : float32 tensor of shape (models, users, factors)
    V : float32 tensor of shape (models, items, factors)
    interactions : BatchInteractions
    """

    def __init__(self, U: torch.Tensor, V: torch.Tensor, interactions: BatchInteractions) -> None:
        kernels = kernels_for(V.shape[2], V.device.index or 0)
        models, users, items = len(U), U.shape[1], V.shape[1]
        self._kernels, self._sizes = kernels, (models, users, items)
        self._U, self._V, self._interactions = U, V, interactions
        self._n = interactions.items.shape[0]
        layout, n = kernels.layout, 4 * models * self._n
        self._cuts = kernels.ranges(users, items)
        ranges = self._cuts[1]
        self._parts = ranges * layout.groups
        of_users, row = 4 * models * users, 2 * models * layout.width
        counts = of_users * KERNEL_BINS
        of_models = 4 * models
        self._zeros = Room(
            torch.zeros, V.device, longest=of_models, largest=of_models, counts=counts, sums=counts
        )
        self._room = room = Room(
            torch.empty,
            V.device,
            u=users * row,
            rows=users * row,
            v=layout.padded(items) * row,
            points=n,
            scales=2 * of_users,
            tops=of_users,
            excess=ranges * of_users,
            of_relevant=n,
            first=n,
            unit=of_users,
            lines=of_models * layout.padded(users) * KERNEL_BINS,
            parts=of_users * self._parts * layout.width,
        )
        self._too_wide = kernels.flag()
        longest = self._zeros["longest"]
        kernels.write_halves(U, room["u"])
        kernels.write_halves(V, room["v"], longest, of_items=True)
        kernels.launch(
            "user_grids",
            (users, 1, models),
            *(room["u"], room["v"], interactions.starts, interactions.items, longest),
            *(math.log2(items) + FAR, MOST_WIDTH, items),
            *(room["points"], room["scales"], room["tops"], self._too_wide.address),
            threads=GRID_THREADS,
        )
        self._too_wide.record(V.device)

    def wide(self) -> torch.Tensor | None:
        """Which users' grids would be too coarse, of each model; None where there is none.

        To be asked before the next batch is made.
        """
        if not self._too_wide.is_set():
            return None
        models, users, _ = self._sizes
        return self._room.tensor("scales", torch.float32, models, users, 2)[:, :, 1] == 0

    def gradients(self, rho: RhoName) -> Gradients:
        """Losses, and the gradient by the rows of the batch and of all items."""
        return Gradients(self._losses(rho), self._to_users(), self._to_items)

    def _losses(self, rho: RhoName) -> torch.Tensor:
        """The losses; the tables are there, too."""
        (models, users, _), room, zeros = self._sizes, self._room, self._zeros
        kernels, interactions = self._kernels, self._interactions
        counted = zeros["counts"], zeros["sums"], room["excess"]
        inputs = room["u"], room["v"], room["scales"], room["tops"]
        _count(kernels, inputs, self._sizes, self._cuts, counted)
        losses = torch.empty((models, self._n), device=self._V.device)
        kernels.launch(
            "user_tables",
            (kernels.layout.padded(users), 1, models),
            *(users, *counted, self._cuts[1], room["scales"]),
            *(interactions.starts, room["points"], interactions.weights, _RHO_NUMBERS[rho]),
            *(losses, room["of_relevant"], room["first"], room["lines"], room["unit"]),
            zeros["largest"],
            threads=TABLE_THREADS,
        )
        return losses

    def _to_users(self) -> torch.Tensor:
        (models, users, items), kernels, room = self._sizes, self._kernels, self._room
        interactions = self._interactions
        tiles, ranges, size = self._cuts
        kernels.launch(
            "gradient_of_users",
            (tiles, ranges, models),
            *(room["u"], room["v"], room["scales"], room["lines"], users, items, size),
            room["parts"],
        )
        out, factors = torch.empty_like(self._U), self._U.shape[2]
        kernels.launch(
            "sum_users",
            (users, 1, models),
            *(room["parts"], self._parts, room["unit"], interactions.starts, interactions.items),
            *(room["of_relevant"], self._V, items, factors, out),
            threads=SUM_THREADS,
        )
        return out

    def _to_items(self, rows: torch.Tensor) -> torch.Tensor:
        (models, users, items), kernels, room = self._sizes, self._kernels, self._room
        out, factors = torch.empty_like(self._V), self._U.shape[2]
        right = room["u"]
        if rows is not self._U:
            right = room["rows"]
            kernels.write_halves(rows, right)
        kernels.launch(
            "gradient_of_items",
            (-(-items // kernels.layout.block_items), 1, models),
            *(room["u"], right, room["v"], room["scales"], room["lines"], room["unit"]),
            *(users, items, self._zeros["largest"], factors, out),
        )
        interactions, n = self._interactions, self._n
        by_item = interactions.by_item
        if by_item is None:
            by_item = torch.sort(interactions.items, stable=True).indices
        kernels.launch(
            "add_interactions",
            (n, 1, models),
            *(interactions.items, interactions.rows, by_item, room["of_relevant"], rows),
            *(n, factors, users, items, out),
            threads=min(256, -(-factors // 32) * 32),
        )
        return out


def count_scores(
    kernels: Kernels,
    u: torch.Tensor,
    v: torch.Tensor,
    sizes: tuple[int, int, int],
    scales: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Count scores into bins: how many, their parts, and what lies above, by ranges of items.

    Everything has an axis for the models first; ``sizes`` are models, users and items.
    """
    models, users, items = sizes
    counts, sums = torch.zeros((2, models, users, KERNEL_BINS), dtype=torch.int32, device=u.device)
    cuts = kernels.ranges(users, items)
    excess = torch.empty((models, cuts[1], users), device=u.device)
    _count(kernels, (u, v, scales, None), sizes, cuts, (counts, sums, excess))
    return counts, sums, excess


def _count(
    kernels: Kernels,
    inputs: tuple[torch.Tensor | Address | None, ...],
    sizes: tuple[int, int, int],
    cuts: tuple[int, int, int],
    counted: tuple[torch.Tensor | Address, ...],
) -> None:
    """As `count_scores`, to arrays that are there."""
    (models, users, items), (tiles, ranges, size) = sizes, cuts
    arguments = *inputs, users, items, size, *counted
    kernels.launch("count_scores", (tiles, ranges, models), *arguments)


def _with_wide(
    found: Gradients,
    wide: torch.Tensor,
    U: torch.Tensor,
    V: torch.Tensor,
    interactions: BatchInteractions,
    rho: RhoName,
) -> Gradients:
    """The same with users whose scores spread too far for a grid, which are zeros in ``found``.

    They are summed pair by pair, and cost the others nothing: of a million users there may be some
    in every step.
    """
    models: dict[int, tuple[torch.Tensor, Gradients] | None] = {}  # None: it has diverged
    for number in wide.any(dim=1).nonzero()[:, 0].tolist():
        u, v = U[number], V[number]
        if not (bool(u.isfinite().all()) and bool(v.isfinite().all())):
            found.losses[number] = found.users[number] = torch.nan
            models[number] = None
            continue
        users = wide[number].nonzero()[:, 0]
        part = _direct(u[users], v, interactions.of_rows(users), rho)
        found.losses[number, wide[number][interactions.rows.long()]] = part.losses
        found.users[number, users] = part.users
        models[number] = users, part

    def of_items(rows: torch.Tensor) -> torch.Tensor:
        narrow = rows.masked_fill(wide[..., None], 0.0)  # theirs may be beyond half precision
        items = found.of_items(narrow)
        for number, of_wide in models.items():
            if of_wide is None:
                items[number] = torch.nan
            else:
                users, part = of_wide
                items[number] += part.of_items(rows[number, users])
        return items

    return Gradients(found.losses, found.users, of_items)


def _direct(
    U: torch.Tensor, V: torch.Tensor, interactions: BatchInteractions, rho: RhoName
) -> Gradients:
    losses, by_score = plain.direct_score_gradients(U @ V.T, interactions, rho)
    return plain.from_scores(losses, by_score, V)


def _of_one(found: Gradients) -> Gradients:
    """Of one model, without the axis for models."""
    return Gradients(found.losses[0], found.users[0], lambda rows: found.of_items(rows[None])[0])

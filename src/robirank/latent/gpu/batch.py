"""A batch of users on a device: their interactions, and the grid that counts their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from robirank._types import Ints64
from robirank.data.user_items import UserItems
from robirank.latent.gpu.device import free_memory
from robirank.latent.gpu.kernels import Kernels

#: Bins of a user's grid of scores in plain PyTorch.
PLAIN_BINS = 512
#: Scores that spread over more than this are not counted but summed one by one. With 256 bins each
#: is one wide here: the gradient of such a user is right to .3 %, its loss to 2e-5.
MOST_WIDTH = 256.0

_INTERACTIONS_SHARE = 0.25  # of the free memory, for interactions
_SORTED_TOGETHER = 1 << 22  # interactions that are taken and sorted at a time
FAR = 13.0  # beyond log2(items): so far below, all items together are nothing beside one
_LEAST_WIDTH = 2.0**-10


class BatchInteractions(NamedTuple):
    """The interactions of a batch of users on a device.

    Attributes
    ----------
    starts : int64 tensor
        The interactions of row r are ``starts[r]:starts[r + 1]``.
    rows, items : int32 tensors
        The row of the batch and the item of each interaction; rows rise.
    weights : float32 tensor
    by_item : int64 tensor or None
        The interactions in the order of their items, and of their rows where these are the same.
    """

    starts: torch.Tensor
    rows: torch.Tensor
    items: torch.Tensor
    weights: torch.Tensor
    by_item: torch.Tensor | None = None

    @classmethod
    def of_users(
        cls, interactions: UserItems, users: Ints64, device: torch.device
    ) -> BatchInteractions:
        """Copy the interactions of some users to a device."""
        starts, items, weights = interactions.of_users(users)
        rows = np.repeat(np.arange(len(users), dtype=np.int32), np.diff(starts))
        to = [starts, rows, items, weights.astype(np.float32)]
        return cls(*(torch.from_numpy(array).to(device) for array in to))

    def of_rows(self, chosen: torch.Tensor) -> BatchInteractions:
        """The interactions of some rows, which are numbered anew."""
        number = torch.full((len(self.starts) - 1,), -1, dtype=torch.int32, device=chosen.device)
        number[chosen] = torch.arange(len(chosen), dtype=torch.int32, device=chosen.device)
        rows = number[self.rows.long()]
        is_chosen = rows >= 0
        counts = torch.bincount(rows[is_chosen], minlength=len(chosen))
        starts = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
        items, weights = self.items[is_chosen], self.weights[is_chosen]
        return BatchInteractions(starts, rows[is_chosen], items, weights)


class Batch(NamedTuple):
    """The users of a step: their positions, the same on the device, and their interactions."""

    users: Ints64
    places: torch.Tensor
    interactions: BatchInteractions


class DeviceInteractions:
    """All interactions, on the card where they fit; those of batches are taken there.

    Parameters
    ----------
    interactions : UserItems
    device : torch.device
    kernels : Kernels or None
        Without kernels, interactions stay on the host.
    """

    def __init__(
        self, interactions: UserItems, device: torch.device, kernels: Kernels | None
    ) -> None:
        self._interactions, self._device = interactions, device
        self._kernels: Kernels | None = None
        n_bytes = 8 * interactions.n_interactions
        if kernels is not None and n_bytes < _INTERACTIONS_SHARE * free_memory(device):
            self._kernels = kernels
            self._begins = torch.from_numpy(interactions.indptr).to(device)
            self._items = torch.from_numpy(interactions.items).to(device)
            weight = interactions.weight
            self._weights = None if weight is None else torch.from_numpy(weight).to(device)

    def batches(self, order: Ints64, size: int) -> Iterator[Batch]:
        """Users in batches of their order, sorted within a batch, with their interactions."""
        if not len(order):
            return
        cuts = range(0, len(order), size)
        users = np.concatenate([np.sort(order[cut : cut + size]) for cut in cuts])
        places = torch.from_numpy(users).to(self._device)
        counts = self._interactions.indptr[users + 1] - self._interactions.indptr[users]
        if self._kernels is None:
            for cut in cuts:
                batch = slice(cut, cut + size)
                rows = BatchInteractions.of_users(self._interactions, users[batch], self._device)
                yield Batch(users[batch], places[batch], rows)
            return
        for first, last in _groups(np.add.reduceat(counts, cuts)):
            group = slice(first * size, last * size)
            taken = self._take(self._kernels, places[group], counts[group], size)
            for number, rows in zip(range(first, last), taken, strict=True):
                batch = slice(number * size, (number + 1) * size)
                yield Batch(users[batch], places[batch], rows)

    def _take(
        self, kernels: Kernels, places: torch.Tensor, counts: Ints64, size: int
    ) -> list[BatchInteractions]:
        """The interactions of several batches of users, taken and sorted together."""
        cuts = range(0, len(counts), size)
        ends = np.concatenate([[0], np.cumsum(counts)])
        of_batches = [ends[cut : cut + size + 1] for cut in cuts]
        begins = np.array([part[0] for part in of_batches])
        n = int(ends[-1])
        starts = np.concatenate([ends, *(part - part[0] for part in of_batches), begins])
        on_card = torch.from_numpy(starts).to(self._device)
        rows, items = torch.empty((2, n), dtype=torch.int32, device=self._device)
        weights = torch.empty(n, device=self._device)
        kernels.launch(
            "take_interactions",
            (len(places), 1, 1),
            *(places, on_card[: len(ends)], self._begins, self._items, self._weights, size),
            *(rows, items, weights),
            threads=64,
        )
        sizes = torch.from_numpy(np.diff([*begins, n])).to(self._device)
        number = torch.arange(len(cuts), device=self._device)
        batch = torch.repeat_interleave(number, sizes, output_size=n)
        by_item = torch.sort(batch * self._interactions.n_items + items, stable=True).indices
        by_item -= on_card[-len(cuts) :][batch]
        starts_of = on_card[len(ends) : -len(cuts)].split([len(part) for part in of_batches])
        counts_of = [int(part[-1] - part[0]) for part in of_batches]
        columns = (column.split(counts_of) for column in (rows, items, weights, by_item))
        return [BatchInteractions(*part) for part in zip(starts_of, *columns, strict=True)]


def _groups(sizes: Ints64) -> Iterator[tuple[int, int]]:
    """Batches with these numbers of interactions in groups of about `_SORTED_TOGETHER`."""
    first, total = 0, 0
    for number, size in enumerate(sizes):
        if total and total + size > _SORTED_TOGETHER:
            yield first, number
            first, total = number, 0
        total += int(size)
    yield first, len(sizes)


@dataclass(frozen=True)
class Grid:
    """Where each user's scores are counted: a score s lies at the place s · bins + shift.

    Attributes
    ----------
    shift, bins : float32 tensors
        One number a user.
    wide : bool tensor
        Users whose grid would be too coarse.
    """

    shift: torch.Tensor
    bins: torch.Tensor
    wide: torch.Tensor

    @classmethod
    def around(
        cls,
        points: torch.Tensor,
        interactions: BatchInteractions,
        reach: torch.Tensor,
        n_items: int,
    ) -> Grid:
        """Cover the scores of the relevant items (points), and as far beyond as matters.

        ``reach`` is a bound of the size of each user's scores.
        """
        rows, users = interactions.rows.long(), len(reach)
        empty = torch.zeros(users, dtype=points.dtype, device=points.device)
        low = empty.scatter_reduce(0, rows, points, "amin", include_self=False)
        high = empty.scatter_reduce(0, rows, points, "amax", include_self=False)
        margin = math.log2(n_items) + FAR
        begin = torch.maximum(low - margin, -reach)
        return cls.between(begin, torch.minimum(high + margin, reach))

    @classmethod
    def between(cls, begin: torch.Tensor, end: torch.Tensor) -> Grid:
        """Cover a range of scores for each user."""
        width = (end - begin).clamp_min(_LEAST_WIDTH)
        bins = PLAIN_BINS / width
        return cls(-begin * bins, bins, ~(width <= MOST_WIDTH))

    def scales(self) -> torch.Tensor:
        """Shift and inverse width of places from 0 to 1, side by side, as the kernels read them."""
        return torch.stack([self.shift, self.bins], dim=1) / PLAIN_BINS


class Gradients(NamedTuple):
    """The losses and gradients of a batch of users, with scores S and G = d loss / d S.

    Attributes
    ----------
    losses : float32 tensor
        The loss of each interaction.
    users : float32 tensor
        The gradient of the loss by the rows of the batch's users, G V with the rows V of items.
    of_items : callable
        Gives Gᵀ rows: with the rows of the batch's users, the gradient by the rows of all items.
        It keeps the memory of the batch until it is dropped.
    """

    losses: torch.Tensor
    users: torch.Tensor
    of_items: Callable[[torch.Tensor], torch.Tensor]


def stacked(parts: Sequence[Gradients]) -> Gradients:
    """The gradients of several models, with an axis for the models first."""
    return Gradients(
        torch.stack([part.losses for part in parts]),
        torch.stack([part.users for part in parts]),
        lambda rows: torch.stack([p.of_items(r) for p, r in zip(parts, rows, strict=True)]),
    )


class AdamState(NamedTuple):
    """The averages that Adam on V keeps, and the penalty weight of each row."""

    first: torch.Tensor
    second: torch.Tensor
    penalty: torch.Tensor


class AdamStep(NamedTuple):
    """Numbers of a step of Adam.

    ``share`` is the share of the penalty that the step pays, ``b1`` and ``b2`` say how much of the
    averages it keeps, ``correction`` divides the bias out of the second one.
    """

    share: float
    b1: float
    b2: float
    rate: float
    correction: float


class Curvature(NamedTuple):
    """Of each model: the eigenvalues of C, its eigenvectors as columns, and as rows."""

    values: torch.Tensor
    directions: torch.Tensor
    transposed: torch.Tensor


class UserStep(NamedTuple):
    """What a step of Newton's on rows of users goes by; see `robirank.latent.solvers.user_steps`.

    Attributes
    ----------
    weights : float32 tensor
        The sum of the weights of each user's interactions, of all users.
    penalties : float32 tensor of shape (models, all users)
        λ a_x.
    centres : float32 tensor of shape (all users, factors) or None
        What the penalty pulls rows to; None: to zero.
    curvature : Curvature
    damping, seen : float
        θ, and the share of the step in the rows that items are stepped with.
    """

    weights: torch.Tensor
    penalties: torch.Tensor
    centres: torch.Tensor | None
    curvature: Curvature
    damping: float
    seen: float


def score_bound(U: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """A bound of the size of each user's scores: |u| times the longest row of V."""
    longest = torch.linalg.vector_norm(V, dim=1).max()
    return 1.002 * longest * torch.linalg.vector_norm(U, dim=1)

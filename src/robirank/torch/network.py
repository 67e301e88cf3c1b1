"""Training a scorer with residual layers, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from robirank._queries import Queries
from robirank._types import Floats32, Floats64, Ints64

Weights = dict[str, Floats64]
BatchLoss = Callable[[torch.Tensor, Ints64], torch.Tensor]


@dataclass(frozen=True)
class Schedule:
    """How a network is trained.

    Attributes
    ----------
    units, blocks : int
        The width, and how many residual blocks.
    dropout : float
        The share of the activations that are set to 0 in each block, in training.
    learning_rate, alpha : float
        The rate of Adam, and the weight decay.
    batch_size : int
        Queries of a step.
    epochs : int
        The most rounds through all queries.
    seed : int
        Decides weights, the order of queries and dropout.
    device : str
        Where to train.
    """

    units: int
    blocks: int
    dropout: float
    learning_rate: float
    alpha: float
    batch_size: int
    epochs: int
    seed: int
    device: str


def train_epochs(
    Z: Floats32, queries: Queries, loss: BatchLoss, schedule: Schedule
) -> Iterator[tuple[float, Weights]]:
    """Train on rows that come query by query; give the mean loss and the weights of each epoch.

    ``loss(scores, chosen)`` is the loss of the queries of these numbers; scores come in their
    order. One thread computes, so that the weights do not depend on their number.
    """
    with _one_thread():
        rng = np.random.default_rng(schedule.seed)
        dice = torch.Generator(schedule.device).manual_seed(schedule.seed)
        net = _draw(Z.shape[1], schedule, rng)
        adam = torch.optim.AdamW(
            net.values(), lr=schedule.learning_rate, weight_decay=schedule.alpha
        )
        given = torch.as_tensor(Z, device=schedule.device)
        for _ in range(schedule.epochs):
            losses = []
            for chosen in _batches(len(queries), schedule.batch_size, rng):
                rows = torch.as_tensor(queries.take(chosen).rows(), device=schedule.device)
                value = loss(_scores(net, given[rows], schedule.dropout, dice), chosen)
                adam.zero_grad()
                value.backward()
                adam.step()
                losses.append(value.item())
            yield float(np.mean(losses)), _as_arrays(net)


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _batches(n: int, size: int, rng: np.random.Generator) -> Iterator[Ints64]:
    order = rng.permutation(n)
    for begin in range(0, n, size):
        yield np.sort(order[begin : begin + size])


def _draw(n_features: int, schedule: Schedule, rng: np.random.Generator) -> dict[str, torch.Tensor]:
    """Weights at the start: every layer keeps the variance of what it is given."""
    units, blocks = schedule.units, schedule.blocks
    drawn = {
        "input_coef_": rng.standard_normal((n_features, units)) / np.sqrt(n_features),
        "input_intercept_": np.zeros(units),
        "block_coef_": rng.standard_normal((blocks, units, units)) * np.sqrt(2 / units),
        "block_intercept_": np.zeros((blocks, units)),
        "output_coef_": rng.standard_normal(units) / units,
    }
    return {
        name: torch.tensor(value, dtype=torch.float32, device=schedule.device, requires_grad=True)
        for name, value in drawn.items()
    }


def _scores(
    net: dict[str, torch.Tensor], z: torch.Tensor, dropout: float, dice: torch.Generator
) -> torch.Tensor:
    """The network in training; `robirank.ltr.robirank_net.forward` is the same without dropout."""
    hidden = z @ net["input_coef_"] + net["input_intercept_"]
    for coef, intercept in zip(net["block_coef_"], net["block_intercept_"], strict=True):
        step = torch.relu(hidden @ coef + intercept)
        if dropout > 0:
            kept = torch.rand(step.shape, generator=dice, device=step.device) >= dropout
            step = step * kept / (1 - dropout)
        hidden = hidden + step
    return hidden @ net["output_coef_"]


def _as_arrays(net: dict[str, torch.Tensor]) -> Weights:
    arrays: dict[str, Any] = {
        name: value.detach().cpu().numpy().astype(np.float64) for name, value in net.items()
    }
    return arrays

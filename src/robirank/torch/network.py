"""Training of a network with residual layers, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from robirank._queries import Queries
from robirank._types import Floats32, Floats64, Ints64

Weights = dict[str, Floats64]
BatchLoss = Callable[[torch.Tensor, Ints64], torch.Tensor]


def train_epochs(
    Z: Floats32,
    queries: Queries,
    loss: BatchLoss,
    *,
    units: int,
    blocks: int,
    dropout: float,
    learning_rate: float,
    weight_decay: float,
    batch_size: int,
    seed: int,
    device: str,
) -> Iterator[tuple[float, Weights]]:
    """Train on rows that come query by query; give the mean loss and the weights of each epoch.

    ``loss(scores, numbers)`` is the loss of the queries of these numbers; scores come in their
    order. The other arguments are the parameters of `RoBiRankNet`. One thread computes, so that
    the weights do not depend on their number.
    """
    with _one_thread():
        rng = np.random.default_rng(seed)
        dice = torch.Generator(device).manual_seed(seed)
        net = {
            name: torch.tensor(value, dtype=torch.float32, device=device, requires_grad=True)
            for name, value in _draw(Z.shape[1], units, blocks, rng).items()
        }
        adam = torch.optim.AdamW(net.values(), lr=learning_rate, weight_decay=weight_decay)
        features = torch.as_tensor(Z, device=device)
        while True:
            losses = []
            for numbers in _batches(len(queries), batch_size, rng):
                rows = torch.as_tensor(queries.take(numbers).rows(), device=device)
                value = loss(_scores(net, features[rows], dropout, dice), numbers)
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


def _draw(n_features: int, units: int, blocks: int, rng: np.random.Generator) -> Weights:
    """Weights at the start, such that every layer keeps the variance of its input."""
    return {
        "input_coef_": rng.standard_normal((n_features, units)) / np.sqrt(n_features),
        "input_intercept_": np.zeros(units),
        "block_coef_": rng.standard_normal((blocks, units, units)) * np.sqrt(2 / units),
        "block_intercept_": np.zeros((blocks, units)),
        "output_coef_": rng.standard_normal(units) / units,
    }


def _scores(
    net: dict[str, torch.Tensor], z: torch.Tensor, dropout: float, dice: torch.Generator
) -> torch.Tensor:
    """The scores in training; `robirank.ltr.robirank_net.forward` computes them without dropout."""
    hidden = z @ net["input_coef_"] + net["input_intercept_"]
    for coef, intercept in zip(net["block_coef_"], net["block_intercept_"], strict=True):
        step = torch.relu(hidden @ coef + intercept)
        if dropout > 0:
            is_active = torch.rand(step.shape, generator=dice, device=step.device) >= dropout
            step = step * is_active / (1 - dropout)
        hidden = hidden + step
    return hidden @ net["output_coef_"]


def _as_arrays(net: dict[str, torch.Tensor]) -> Weights:
    arrays: dict[str, Any] = {
        name: value.detach().cpu().numpy().astype(np.float64) for name, value in net.items()
    }
    return arrays

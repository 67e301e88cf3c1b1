"""Training of a network with residual layers, in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from robirank._queries import Queries
from robirank._types import Floats32, Floats64
from robirank.objectives.listwise import Lists
from robirank.torch.loss import loss_of_lists

Weights = dict[str, Floats64]


def train_epochs(
    Z: Floats32, y: Floats64, queries: Queries, params: Any, seed: int
) -> Iterator[tuple[float, Weights]]:
    """Train on rows that come query by query; give the mean loss and the weights of each epoch.

    ``params`` is a `RoBiRankNet`. One thread computes: the weights do not depend on their number.
    """
    device, dropout = str(params.device), float(params.dropout)
    loss: Any = {"metric": params.metric, "gain": params.gain, "rho": params.rho}
    with _one_thread():
        rng = np.random.default_rng(seed)
        dice = torch.Generator(device).manual_seed(seed)
        net = {
            name: torch.tensor(value, dtype=torch.float32, device=device, requires_grad=True)
            for name, value in _draw(Z.shape[1], params.units, params.blocks, rng).items()
        }
        adam = torch.optim.AdamW(
            net.values(), lr=float(params.learning_rate), weight_decay=float(params.alpha)
        )
        features = torch.as_tensor(Z, device=device)
        while True:
            losses = []
            order, size = rng.permutation(len(queries)), params.batch_size
            for begin in range(0, len(order), size):
                batch = queries.take(np.sort(order[begin : begin + size]))
                lists = Lists.build(y[batch.rows()], replace(batch, order=None), **loss)
                rows = torch.as_tensor(batch.rows(), device=device)
                value = loss_of_lists(_scores(net, features[rows], dropout, dice), lists)
                adam.zero_grad()
                value.backward()
                adam.step()
                losses.append(value.item())
            arrays = {name: weight.detach().cpu().numpy() for name, weight in net.items()}
            yield float(np.mean(losses)), {n: a.astype(np.float64) for n, a in arrays.items()}


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
    """The scores in training; `RoBiRankNet._forward` computes them without dropout."""
    hidden = z @ net["input_coef_"] + net["input_intercept_"]
    for coef, intercept in zip(net["block_coef_"], net["block_intercept_"], strict=True):
        step = torch.relu(hidden @ coef + intercept)
        if dropout > 0:
            is_active = torch.rand(step.shape, generator=dice, device=step.device) >= dropout
            step = step * is_active / (1 - dropout)
        hidden = hidden + step
    return hidden @ net["output_coef_"]

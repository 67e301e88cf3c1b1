"""The exact solver on a device; see `robirank.latent.solvers.exact` for what it does.

The order of the users, the steps and the state are those of the solver on the CPU, so a checkpoint
has the same arrays; of very many users, more make a block. V and its averages live on the device;
U does where it fits, and its rows travel where it does not; so do records. Fits that differ in λ
alone can run side by side: a step of all of them costs a small table hardly more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from robirank._types import Floats32, Floats64
from robirank._workers import Workers
from robirank.data.records import Records
from robirank.engine.interface import Figures, never
from robirank.latent.gpu import fused, plain
from robirank.latent.gpu.block import AdamState, AdamStep, Block, DeviceRecords, Gradients
from robirank.latent.gpu.device import cuda_device, device_errors, free_memory, has_kernels
from robirank.latent.gpu.kernels import kernels_for
from robirank.latent.solvers.exact import (
    B1,
    B2,
    STEPS,
    USER_RATE,
    ExactSolver,
    order_of_users,
    rate_share,
    user_memory,
)
from robirank.latent.solvers.penalty import Penalty
from robirank.latent.solvers.problem import Problem

_MOST_USERS = 8192  # in a step
_USER_SHARE = 0.5  # of the free memory, for U
_FITS_SHARE, _MOST_FITS = 0.5, 16  # of the free memory, for fits side by side; at most
_PLAIN_CELLS = 1 << 27  # scores at a time without kernels


class DeviceExactFits:
    """State and steps of fits of the exact solver that differ in their penalty alone.

    Parameters
    ----------
    problems : sequence of Problem
        One for each fit.
    records : Records
    start : (U, V), float32 arrays
        Where all of them begin.
    device : torch.device, optional
        Default: the current card. The CPU is for tests.
    kernels : bool, optional
        Default: where they can be used.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        records: Records,
        start: tuple[Floats32, Floats32],
        *,
        device: torch.device | None = None,
        kernels: bool | None = None,
    ) -> None:
        problem = problems[0]
        assert problem.rho is not None
        self._device = device or cuda_device()
        if kernels is None:
            kernels = has_kernels(problem.factors, self._device)
        self._steps: ModuleType = fused if kernels else plain
        self._kernels = kernels_for(problem.factors, self._device.index or 0) if kernels else None
        self._rho, self._seed = problem.rho, problem.seed
        self._rate = problem.rate * problem.learning_rate
        self._user_rate = problem.rate * USER_RATE
        self._counts = records.user_counts(), records.item_counts()
        self._users = np.flatnonzero(self._counts[0] > 0)
        most = _MOST_USERS
        if not kernels:
            most = max(1, min(most, _PLAIN_CELLS // records.n_items))
        self._block = int(np.clip(len(self._users) // STEPS, min(8, most), most))
        self.steps_done = 0
        with device_errors("the factors were copied to it"):
            self._records = DeviceRecords(records, self._device, self._kernels)
            self._V = self._for_all(start[1], len(problems))
            averages = torch.zeros_like(self._V), torch.zeros_like(self._V)
            self._adam = AdamState(*averages, decay=self._V)
            self.penalize([problem.penalty for problem in problems])
            self._U = self._place_users(start[0], len(problems))
            self._user_sum = torch.zeros(self._U.shape[:2], device=self._device)

    def penalize(self, penalties: Sequence[Penalty]) -> None:
        """Go on under penalties, one for each fit."""
        users, items = self._counts
        self._user_decay = self._stack([p.user_weights(users) for p in penalties])
        decay = self._stack([p.item_weights(items) for p in penalties])
        self._adam = self._adam._replace(decay=decay)

    def epoch(
        self, number: int, epochs: int, should_stop: Callable[[], bool] = never
    ) -> tuple[Floats64, Floats64]:
        """One pass over the users; see `ExactSolver.epoch`.

        Returns each fit's mean loss of a record, and that of the first step's.
        """
        order = order_of_users(self._users, self._seed, number)
        steps, seen = -(-len(order) // self._block), []
        shape = (max(1, steps), len(self._V))
        sums = torch.zeros(shape, dtype=torch.float64, device=self._device)
        with device_errors("it trained"):
            for i, block in enumerate(self._records.blocks(order, self._block)):
                fade = rate_share(number + i / steps, epochs)
                losses = self._step(block, fade, user_memory(epochs))
                torch.sum(losses, dim=1, dtype=torch.float64, out=sums[i])
                seen.append(losses.shape[1])
                if should_stop():
                    break
            total, first = sums.sum(0).cpu().numpy(), sums[0].cpu().numpy()
        return total / max(1, sum(seen)), first / max(1, sum(seen[:1]))

    def factors(self) -> list[tuple[Floats32, Floats32]]:
        """U and V of each fit, copied from the device."""
        with device_errors("the factors were read"):
            return [(_copied(U), _copied(V)) for U, V in zip(self._U, self._V, strict=True)]

    def tensors(self) -> dict[str, torch.Tensor]:
        """What steps change, with an axis for the fits first."""
        return {
            "U": self._U,
            "V": self._V,
            "user_sum": self._user_sum,
            "first": self._adam.first,
            "second": self._adam.second,
        }

    def _step(self, block: Block, fade: float, keep: float) -> torch.Tensor:
        U = self._rows_of(block)
        found: Gradients = self._steps.gradients_of_all(U, self._V, block.records, self._rho)
        self.steps_done += 1
        n, share = self.steps_done, U.shape[1] / max(1, len(self._users))
        rate = self._rate * fade / (1.0 - B1**n)
        step = AdamStep(share, B1, B2, rate, 1.0 / (1.0 - B2**n))
        self._steps.adam(self._V, found.items, self._adam, step)
        of_users = block.places, self._user_decay, self._user_sum
        self._steps.adagrad(U, found.users, *of_users, self._user_rate * fade, keep)
        if self._U.device == self._device:
            self._U.index_copy_(1, block.places, U)
        else:
            self._U.index_copy_(1, torch.from_numpy(block.users), U.cpu())
        return found.losses

    def _rows_of(self, block: Block) -> torch.Tensor:
        if self._U.device == self._device:
            return self._U.index_select(1, block.places)
        return self._U.index_select(1, torch.from_numpy(block.users)).to(self._device)

    def _place_users(self, U: Floats32, fits: int) -> torch.Tensor:
        on_card = self._device.type == "cuda"
        if on_card and fits * U.nbytes > _USER_SHARE * free_memory(self._device):
            return torch.from_numpy(U).repeat(fits, 1, 1).pin_memory()
        return self._for_all(U, fits)

    def _stack(self, arrays: Sequence[NDArray[Any]]) -> torch.Tensor:
        return torch.tensor(np.stack(arrays), dtype=torch.float32, device=self._device)

    def _for_all(self, rows: Floats32, fits: int) -> torch.Tensor:
        one = torch.tensor(rows, dtype=torch.float32, device=self._device)
        return one.expand(fits, -1, -1).contiguous()


class DeviceExactSolver:
    """One fit of the exact solver on a device.

    Parameters
    ----------
    problem : Problem
    records : Records
    start : (U, V), float32 arrays
    workers : Workers
        Not needed; the solvers are all made alike.
    **where : Any
        ``device`` and ``kernels``, as of `DeviceExactFits`.
    """

    default_rate: ClassVar[float] = ExactSolver.default_rate

    def __init__(
        self,
        problem: Problem,
        records: Records,
        start: tuple[Floats32, Floats32],
        workers: Workers | None = None,  # noqa: ARG002
        **where: Any,
    ) -> None:
        self._fits = DeviceExactFits([problem], records, start, **where)

    def penalize(self, penalty: Penalty) -> None:
        """Go on under a penalty."""
        self._fits.penalize([penalty])

    def epoch(self, number: int, epochs: int, should_stop: Callable[[], bool] = never) -> Figures:
        """One pass over the users; see `ExactSolver.epoch`."""
        loss, first = self._fits.epoch(number, epochs, should_stop)
        return {"loss": float(loss[0]), "start": float(first[0])}

    def factors(self) -> tuple[Floats32, Floats32]:
        """U and V, copied from the device."""
        return self._fits.factors()[0]

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that a later start needs to go on with the same bits."""
        with device_errors("its state was read"):
            tensors = {name: _copied(t[0]) for name, t in self._fits.tensors().items()}
        return tensors | {"steps": np.array([self._fits.steps_done], np.int64)}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a state that `state` gave."""
        with device_errors("its state was restored"):
            for name, tensor in self._fits.tensors().items():
                tensor[0].copy_(torch.tensor(state[name]))
        self._fits.steps_done = int(state["steps"][0])


def most_fits(problem: Problem, records: Records) -> int:
    """How many fits side by side have room on the current card, beside what a step needs."""
    device = cuda_device()
    if device.type != "cuda":
        return _MOST_FITS
    with device_errors("its memory was measured"):
        free = free_memory(device)
    users, items = min(records.n_users, _MOST_USERS), records.n_items
    each = 4 * problem.factors * (records.n_users + 6 * items) + 40_000 * users
    return max(1, min(_MOST_FITS, int(_FITS_SHARE * free) // each))


def _copied(tensor: torch.Tensor) -> NDArray[Any]:
    return tensor.cpu().numpy().copy()

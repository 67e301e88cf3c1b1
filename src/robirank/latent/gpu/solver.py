"""The exact solver on a device; see `robirank.latent.solvers.exact` for what it does.

The order of the users, the steps and the state are those of the solver on the CPU, so a checkpoint
has the same arrays; of very many users, more make a block. V and its averages live on the device;
U does where it fits, and its rows travel where it does not; so do records.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from robirank._types import Floats32
from robirank._workers import Workers
from robirank.data.records import Records
from robirank.engine.interface import Figures, never
from robirank.latent.gpu import fused, plain
from robirank.latent.gpu.block import AdamState, AdamStep, Block, DeviceRecords, Gradients
from robirank.latent.gpu.device import cuda_device, device_errors, has_kernels
from robirank.latent.gpu.kernels import kernels_for
from robirank.latent.problem import Problem, Request
from robirank.latent.solvers.exact import B1, B2, STEPS, USER_KEEP, USER_RATE, ExactSolver

_MOST_USERS = 2048  # in a step
_USER_SHARE = 0.5  # of the free memory, for U
_PLAIN_CELLS = 1 << 27  # scores at a time without kernels


class DeviceExactSolver:
    """State and steps of the exact solver on a device.

    Parameters
    ----------
    request : Request
    problem : Problem
    records : Records
    start : (U, V), float32 arrays
    workers : Workers
        Not needed; the solvers are all made alike.
    device : torch.device, optional
        Default: the current card. The CPU is for tests.
    kernels : bool, optional
        Default: where they can be used.
    """

    default_rate: ClassVar[float] = ExactSolver.default_rate

    def __init__(
        self,
        request: Request,
        problem: Problem,
        records: Records,
        start: tuple[Floats32, Floats32],
        workers: Workers | None = None,  # noqa: ARG002
        *,
        device: torch.device | None = None,
        kernels: bool | None = None,
    ) -> None:
        assert request.rho is not None
        self._device = device or cuda_device()
        if kernels is None:
            kernels = has_kernels(request.factors, self._device)
        self._steps: ModuleType = fused if kernels else plain
        self._kernels = kernels_for(request.factors, self._device.index or 0) if kernels else None
        self._rho, self._seed = request.rho, request.seed
        self._rate = request.rate * (request.learning_rate or self.default_rate)
        self._user_rate = request.rate * USER_RATE
        counts = records.user_counts()
        self._users = np.flatnonzero(counts > 0)
        most = _MOST_USERS
        if not kernels:
            most = max(1, min(most, _PLAIN_CELLS // records.n_items))
        self._block = int(np.clip(len(self._users) // STEPS, min(8, most), most))
        self._step_number = 0
        with device_errors("the factors were copied to it"):
            self._records = DeviceRecords(records, self._device, self._kernels)
            self._user_decay = self._to_device(problem.penalty.user_weights(counts))
            self._V = self._to_device(start[1])
            averages = torch.zeros_like(self._V), torch.zeros_like(self._V)
            decay = self._to_device(problem.penalty.item_weights(records.item_counts()))
            self._adam = AdamState(*averages, decay)
            self._U = self._place_users(start[0])
            self._user_sum = torch.zeros(len(self._U), device=self._device)

    def epoch(self, number: int, epochs: int, should_stop: Callable[[], bool] = never) -> Figures:
        """One pass over the users; see `ExactSolver.epoch`."""
        order = np.random.default_rng([self._seed, number]).permutation(self._users)
        steps, seen = -(-len(order) // self._block), []
        sums = torch.zeros(max(1, steps), dtype=torch.float64, device=self._device)
        with device_errors("it trained"):
            for i, block in enumerate(self._records.blocks(order, self._block)):
                progress = (number + i / steps) / epochs
                losses = self._step(block, 0.5 * (1.0 + np.cos(np.pi * min(progress, 1.0))))
                torch.sum(losses, dim=0, dtype=torch.float64, out=sums[i])
                seen.append(len(losses))
                if should_stop():
                    break
            total, first = float(sums.sum()), float(sums[0])
        return {"loss": total / max(1, sum(seen)), "start": first / max(1, sum(seen[:1]))}

    def factors(self) -> tuple[Floats32, Floats32]:
        """U and V, copied from the device."""
        with device_errors("the factors were read"):
            return _copied(self._U), _copied(self._V)

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that a later start needs to go on with the same bits."""
        with device_errors("its state was read"):
            return {name: _copied(tensor) for name, tensor in self._tensors().items()} | {
                "steps": np.array([self._step_number], np.int64)
            }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a state that `state` gave."""
        with device_errors("its state was restored"):
            for name, tensor in self._tensors().items():
                tensor.copy_(torch.tensor(state[name]))
        self._step_number = int(state["steps"][0])

    def _tensors(self) -> dict[str, torch.Tensor]:
        return {
            "U": self._U,
            "V": self._V,
            "user_sum": self._user_sum,
            "first": self._adam.first,
            "second": self._adam.second,
        }

    def _step(self, block: Block, fade: float) -> torch.Tensor:
        U = self._rows_of(block)
        found: Gradients = self._steps.gradients(U, self._V, block.records, self._rho)
        self._step_number += 1
        n, share = self._step_number, len(U) / max(1, len(self._users))
        rate = self._rate * fade / (1.0 - B1**n)
        step = AdamStep(share, B1, B2, rate, 1.0 / (1.0 - B2**n))
        self._steps.adam(self._V, found.items, self._adam, step)
        of_users = block.places, self._user_decay, self._user_sum
        self._steps.adagrad(U, found.users, *of_users, self._user_rate * fade, USER_KEEP)
        if self._U.device == self._device:
            self._U[block.places] = U
        else:
            self._U[torch.from_numpy(block.users)] = U.cpu()
        return found.losses

    def _rows_of(self, block: Block) -> torch.Tensor:
        if self._U.device == self._device:
            return self._U[block.places]
        return self._U[torch.from_numpy(block.users)].to(self._device)

    def _place_users(self, U: Floats32) -> torch.Tensor:
        if self._device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self._device)
            if U.nbytes > _USER_SHARE * free:
                return torch.from_numpy(U.copy()).pin_memory()
        return self._to_device(U)

    def _to_device(self, array: NDArray[Any]) -> torch.Tensor:
        return torch.tensor(array, dtype=torch.float32, device=self._device)


def _copied(tensor: torch.Tensor) -> NDArray[Any]:
    return tensor.cpu().numpy().copy()

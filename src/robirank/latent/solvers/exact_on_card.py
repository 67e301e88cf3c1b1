"""The exact solver on a device; see `robirank.latent.solvers.exact` for what it does.

The order of the users, the steps and the state are those of the solver on the CPU, so a checkpoint
has the same arrays; of very many users, more make a batch. V and its averages live on the device; U
does where it fits, and its rows travel where it does not; so do interactions. Fits that differ in λ
alone can run side by side: a step of all of them costs a small table hardly more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from robirank._types import Floats32, Floats64
from robirank._workers import Workers
from robirank.data.user_items import UserItems
from robirank.engine.interface import Figures, never
from robirank.engine.state import Arrays
from robirank.latent.factors.factors import Factors
from robirank.latent.gpu import fused, plain
from robirank.latent.gpu.batch import (
    AdamState,
    AdamStep,
    Batch,
    Curvature,
    DeviceInteractions,
    Gradients,
    UserStep,
)
from robirank.latent.gpu.device import cuda_device, device_errors, free_memory, has_kernels
from robirank.latent.gpu.kernels import kernels_for
from robirank.latent.solvers.exact import B1, B2, EpochSchedule
from robirank.latent.solvers.problem import Penalty, Problem
from robirank.latent.solvers.user_steps import (
    StepSettings,
    newton_steps,
    pair_weights,
    renewal,
    sampled_items,
    spectrum,
    weight_sums,
)
from robirank.losses import RhoName

_MOST_USERS = 8192  # in a step
_USER_SHARE = 0.5  # of the free memory, for U
_FITS_SHARE, _MOST_FITS = 0.5, 16  # of the free memory, for fits side by side; at most
_SUMMED_TOGETHER = 64  # steps whose losses are summed at a time
_PLAIN_CELLS = 1 << 27  # scores at a time without kernels
# Factors up to which the processor finds eigenvectors sooner than the card. Milliseconds of a
# processor beside an H200, and of the H200: with 64 .4 and .8, with 128 1.3 and 1.6, with 256 4.8
# and 2.2.
_SMALL_SPECTRUM = 128


class DeviceExactFits:
    """State and steps of fits of the exact solver that differ in their penalty alone.

    Parameters
    ----------
    problems : sequence of Problem
        One for each fit.
    interactions : UserItems
    start : Factors
        Where all of them begin.
    device : torch.device, optional
        Default: the current card. The CPU is for tests.
    kernels : bool, optional
        Default: where they can be used.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        interactions: UserItems,
        start: Factors,
        *,
        device: torch.device | None = None,
        kernels: bool | None = None,
    ) -> None:
        problem = problems[0]
        assert problem.rho is not None
        self._start, self._table = start, interactions
        self._curvature: Curvature
        self._device = device or cuda_device()
        if kernels is None:
            kernels = has_kernels(problem.factors, self._device)
        self._steps: ModuleType = fused if kernels else plain
        self._newton = fused.step_users if kernels else step_users
        self._kernels = kernels_for(problem.factors, self._device.index or 0) if kernels else None
        self._rho, self._seed = problem.rho, problem.seed
        self._step_settings = StepSettings.of(problem.factors)
        self._rate = problem.rate * problem.learning_rate
        self._counts = interactions.user_counts(), interactions.item_counts()
        self._users = np.flatnonzero(self._counts[0] > 0)
        most = _MOST_USERS
        if not kernels:
            most = max(1, min(most, _PLAIN_CELLS // interactions.n_items))
        batch = len(self._users) // self._step_settings.steps
        self._batch = int(np.clip(batch, min(8, most), most))
        self.steps_done = 0
        with device_errors("the factors were copied to it"):
            self._interactions = DeviceInteractions(interactions, self._device, self._kernels)
            self._V = self._upload_repeated(start.items.rows, len(problems))
            averages = torch.zeros_like(self._V), torch.zeros_like(self._V)
            self._adam = AdamState(*averages, penalty=self._V)
            self.penalize([problem.penalty for problem in problems])
            self._U = self._place_users(start.users.rows, len(problems))
            self._weights = self._upload_stacked([weight_sums(interactions)])[0]
        self._user_centres: torch.Tensor | None = None
        self._item_centres: torch.Tensor | None = None

    def pull_to(self, user_centres: torch.Tensor | None, item_centres: torch.Tensor | None) -> None:
        """Go on with a penalty that pulls the rows of all fits to these centres, on the device."""
        self._user_centres, self._item_centres = user_centres, item_centres

    def penalize(self, penalties: Sequence[Penalty]) -> None:
        """Go on under penalties, one for each fit."""
        users, items = self._counts
        self._user_penalty = self._upload_stacked([p.user_weights(users) for p in penalties])
        penalty = self._upload_stacked([p.item_weights(items) for p in penalties])
        self._adam = self._adam._replace(penalty=penalty)

    def epoch(
        self, number: int, epochs: int, should_stop: Callable[[], bool] = never
    ) -> tuple[Floats64, Floats64]:
        """One pass over the users; see `ExactSolver.epoch`.

        Returns each fit's mean loss of an interaction, and that of the first step's.
        """
        schedule = EpochSchedule.of(self._users, self._batch, self._seed, number, epochs)
        losses: list[torch.Tensor] = []
        seen: list[int] = []
        first = total = torch.zeros(len(self._V), dtype=torch.float64, device=self._device)
        with device_errors("it trained"):
            batches = self._interactions.batches(schedule.order, self._batch)
            for i, (batch, rate) in enumerate(zip(batches, schedule.rates, strict=True)):
                self._renew_curvature(i)
                losses.append(self._step(batch, rate))
                seen.append(losses[-1].shape[1])
                if len(seen) == 1:
                    first = _sums(losses)
                if len(losses) == _SUMMED_TOGETHER:
                    total, losses = total + _sums(losses), []
                if should_stop():
                    break
            if losses:
                total = total + _sums(losses)
            of_all, of_first = torch.stack([total, first]).cpu().numpy()
        return of_all / max(1, sum(seen)), of_first / max(1, sum(seen[:1]))

    def factors(self) -> list[Factors]:
        """The factors of each fit, where they are: on the device."""
        return [self._start.with_rows(U, V) for U, V in zip(self._U, self._V, strict=True)]

    def tensors(self) -> dict[str, torch.Tensor]:
        """What steps change, with an axis for the fits first."""
        return {
            "U": self._U,
            "V": self._V,
            "first": self._adam.first,
            "second": self._adam.second,
        }

    def _step(self, batch: Batch, rate: float) -> torch.Tensor:
        """One step on a batch of users; returns the loss of each interaction in each fit."""
        U = self._rows_of(batch)
        found: Gradients = self._steps.gradients_of_all(U, self._V, batch.interactions, self._rho)
        items = found.of_items(self._update_users(batch, U, found))
        self.steps_done += 1
        n, share = self.steps_done, U.shape[1] / max(1, len(self._users))
        if self._item_centres is not None:  # the step below pulls rows to zero
            items.addcmul_(self._adam.penalty[..., None], self._item_centres, value=-share)
        item_rate = self._rate * rate / (1.0 - B1**n)
        step = AdamStep(share, B1, B2, item_rate, 1.0 / (1.0 - B2**n))
        self._steps.adam(self._V, items, self._adam, step)
        return found.losses

    def _update_users(self, batch: Batch, U: torch.Tensor, found: Gradients) -> torch.Tensor:
        """One step of Newton's on the rows of a batch; returns those that the items see."""
        damping, seen, _ = self._step_settings
        step = UserStep(
            self._weights, self._user_penalty, self._user_centres, self._curvature, damping, seen
        )
        on_device = self._U.device == self._device
        moved = self._U if on_device else torch.empty_like(U)
        places = batch.places if on_device else None
        rows = self._newton(U, found, batch, self._rho, step, moved, places)
        if not on_device:
            self._U.index_copy_(1, torch.from_numpy(batch.users), moved.cpu())
        return rows

    def _renew_curvature(self, in_epoch: int) -> None:
        """Renew the curvature that users share, if it is time; see `UserSteps`."""
        renews, turns = renewal(in_epoch, self.steps_done)
        if not renews:
            return
        items = torch.from_numpy(sampled_items(self._table, self.steps_done))
        rows = self._V.index_select(1, items.to(self._device))
        rows = rows - rows.mean(dim=1, keepdim=True)
        if turns:
            values, directions = _spectrum((rows.mT @ rows / rows.shape[1]).double())
            both = directions.contiguous(), directions.mT.contiguous()
            self._curvature = Curvature(values, *both)
        else:
            values = (rows @ self._curvature.directions).square().mean(dim=1)
            self._curvature = self._curvature._replace(values=values)

    def _rows_of(self, batch: Batch) -> torch.Tensor:
        if self._U.device == self._device:
            return self._U.index_select(1, batch.places)
        return self._U.index_select(1, torch.from_numpy(batch.users)).to(self._device)

    def _place_users(self, U: Floats32, fits: int) -> torch.Tensor:
        on_card = self._device.type == "cuda"
        if on_card and fits * U.nbytes > _USER_SHARE * free_memory(self._device):
            return torch.from_numpy(U).repeat(fits, 1, 1).pin_memory()
        return self._upload_repeated(U, fits)

    def _upload_stacked(self, arrays: Sequence[NDArray[Any]]) -> torch.Tensor:
        return torch.tensor(np.stack(arrays), dtype=torch.float32, device=self._device)

    def _upload_repeated(self, rows: Floats32, fits: int) -> torch.Tensor:
        matrix = torch.tensor(rows, dtype=torch.float32, device=self._device)
        return matrix.expand(fits, -1, -1).contiguous()


class DeviceExactSolver:
    """One fit of the exact solver on a device.

    Parameters
    ----------
    problem : Problem
    interactions : UserItems
    start : Factors
    workers : Workers
        Not needed; the solvers are all made alike.
    **where : Any
        ``device`` and ``kernels``, as of `DeviceExactFits`.
    """

    def __init__(
        self,
        problem: Problem,
        interactions: UserItems,
        start: Factors,
        workers: Workers | None = None,  # noqa: ARG002
        **where: Any,
    ) -> None:
        self._fits = DeviceExactFits([problem], interactions, start, **where)

    def penalize(self, penalty: Penalty) -> None:
        """Go on under a penalty."""
        self._fits.penalize([penalty])

    def pull_to(self, user_centres: Any, item_centres: Any) -> None:
        """Go on with a penalty that pulls rows to these centres, on the device; None: to zero."""
        self._fits.pull_to(user_centres, item_centres)

    def epoch(self, number: int, epochs: int, should_stop: Callable[[], bool] = never) -> Figures:
        """One pass over the users; see `ExactSolver.epoch`."""
        loss, first = self._fits.epoch(number, epochs, should_stop)
        return {"loss": float(loss[0]), "start": float(first[0])}

    def factors(self) -> Factors:
        """The factors as they stand, on the device."""
        return self._fits.factors()[0]

    def state(self) -> Arrays:
        """Everything that a later start needs to go on with the same bits."""
        with device_errors("its state was read"):
            tensors = {name: _copied(t[0]) for name, t in self._fits.tensors().items()}
        return tensors | {"steps": np.array([self._fits.steps_done], np.int64)}

    def restore(self, state: Arrays) -> None:
        """Go on from a state that `state` gave."""
        with device_errors("its state was restored"):
            for name, tensor in self._fits.tensors().items():
                tensor[0].copy_(torch.tensor(state[name]))
        self._fits.steps_done = int(state["steps"][0])


def most_fits(problem: Problem, interactions: UserItems) -> int:
    """How many fits side by side have room on the current card, beside what a step needs."""
    device = cuda_device()
    if device.type != "cuda":
        return _MOST_FITS
    with device_errors("its memory was measured"):
        free = free_memory(device)
    users, items = min(interactions.n_users, _MOST_USERS), interactions.n_items
    bytes_of_fit = 4 * problem.factors * (interactions.n_users + 6 * items) + 40_000 * users
    if not has_kernels(problem.factors, device):
        bytes_of_fit += 4 * _PLAIN_CELLS
    return max(1, min(_MOST_FITS, int(_FITS_SHARE * free) // bytes_of_fit))


def _spectrum(covariance: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As `spectrum`, where it takes less time: here or on the device."""
    if covariance.shape[-1] <= _SMALL_SPECTRUM:
        on_host = spectrum(covariance.cpu().numpy())
        values, vectors = (torch.from_numpy(array).to(covariance.device) for array in on_host)
        return values, vectors
    is_finite = covariance.isfinite().all(-1).all(-1)[:, None]
    values, vectors = torch.linalg.eigh(torch.where(is_finite[..., None], covariance, 0.0))
    values = torch.where(is_finite, values.clamp_min(0.0), torch.inf)
    return values.float(), vectors.float()


def step_users(
    U: torch.Tensor,
    found: Gradients,
    batch: Batch,
    rho: RhoName,
    step: UserStep,
    moved: torch.Tensor,
    places: torch.Tensor | None,
) -> torch.Tensor:
    """As `robirank.latent.gpu.fused.step_users`, in plain PyTorch: its reference."""
    starts, penalty = batch.interactions.starts, step.penalties[:, batch.places]
    away = U if step.centres is None else U - step.centres[batch.places]
    gradient = torch.addcmul(found.users, penalty[..., None], away)
    losses = torch.segment_reduce(found.losses.T.contiguous(), "sum", offsets=starts, axis=0).T
    kappa = pair_weights(losses, step.weights[batch.places], rho)
    taken = newton_steps(gradient, kappa, penalty, step.curvature[:2], step.damping)
    if places is None:
        moved.copy_(U - taken)
    else:
        moved.index_copy_(1, places, U - taken)
    return U - step.seen * taken if step.seen else U


def _sums(losses: list[torch.Tensor]) -> torch.Tensor:
    """Each fit's sum of the losses of some steps."""
    return torch.cat(losses, dim=1).sum(dim=1, dtype=torch.float64)


def _copied(tensor: torch.Tensor) -> NDArray[Any]:
    return tensor.cpu().numpy().copy()

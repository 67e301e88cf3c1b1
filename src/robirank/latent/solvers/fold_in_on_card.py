"""The losses of new users on a device; see `robirank.latent.solvers.fold_in`.

Scores are float32 here: with half-precision products the line search would stop too early.
"""

from __future__ import annotations

import numpy as np
import torch

from robirank._types import Floats32, Floats64, Ints64
from robirank.data.user_items import UserItems
from robirank.latent.gpu.batch import BatchInteractions, score_bound
from robirank.latent.gpu.device import cuda_device, device_errors
from robirank.latent.gpu.plain import score_gradients
from robirank.losses import RhoName

_MOST_USERS = 2048  # of a batch
_CELLS = 1 << 26  # scores at a time


class DeviceProblem:
    """The losses of a batch of users and their gradients, V as it is.

    Parameters
    ----------
    V : float32 array
    interactions : UserItems
    rho : str
    device : torch.device, optional
        Default: the current card. The CPU is for tests.
    """

    def __init__(
        self, V: Floats32, interactions: UserItems, rho: RhoName, device: torch.device | None = None
    ) -> None:
        self._device = device or cuda_device()
        with device_errors("the factors were copied to it"):
            self._V = torch.tensor(np.ascontiguousarray(V, np.float32), device=self._device)
        self._interactions, self._rho = interactions, rho
        #: How many users at a time.
        self.batch = max(1, min(_MOST_USERS, _CELLS // len(V)))

    def losses(self, u: Floats64, users: Ints64) -> tuple[Floats64, Floats64]:
        """Losses and gradients of some users, without the penalty."""
        with device_errors("it solved for new users"):
            U = torch.tensor(u, dtype=torch.float32, device=self._device)
            interactions = BatchInteractions.of_users(self._interactions, users, self._device)
            reach = score_bound(U, self._V)
            losses, by_score = score_gradients(U @ self._V.T, interactions, self._rho, reach)
            sums = torch.segment_reduce(losses.double(), "sum", offsets=interactions.starts)
            return sums.cpu().numpy(), (by_score @ self._V).double().cpu().numpy()

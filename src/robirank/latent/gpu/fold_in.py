"""The losses of new users on a device; see `robirank.latent.retrieve.fold_in`."""

from __future__ import annotations

import torch

from robirank._types import Floats32, Floats64, Ints64
from robirank.data.records import Records
from robirank.latent.gpu import plain
from robirank.latent.gpu.block import BlockRecords, score_bound
from robirank.latent.gpu.device import cuda_device, device_errors, has_kernels
from robirank.latent.gpu.fused import user_gradients
from robirank.losses import RhoName

_MOST_USERS = 2048  # of a block
_CELLS = 1 << 26  # scores at a time without kernels


class DeviceProblem:
    """The losses of a block of users and their gradients, V as it is.

    Parameters
    ----------
    V : float32 array
    records : Records
    rho : str
    device : torch.device, optional
        Default: the current card. The CPU is for tests.
    """

    def __init__(
        self, V: Floats32, records: Records, rho: RhoName, device: torch.device | None = None
    ) -> None:
        self._device = device or cuda_device()
        with device_errors("the factors were copied to it"):
            self._V = torch.tensor(V, device=self._device)
        self._records, self._rho = records, rho
        self._kernels = has_kernels(V.shape[1], self._device)
        #: How many users at a time.
        self.block = _MOST_USERS if self._kernels else max(1, min(_MOST_USERS, _CELLS // len(V)))

    def losses(self, u: Floats64, users: Ints64) -> tuple[Floats64, Floats64]:
        """Losses and gradients of some users, without the penalty."""
        with device_errors("it solved for new users"):
            U = torch.tensor(u, dtype=torch.float32, device=self._device)
            records = BlockRecords.of_users(self._records, users, self._device)
            step = user_gradients if self._kernels else self._plain
            losses, slope = step(U, self._V, records, self._rho)
            sums = torch.segment_reduce(losses.double(), "sum", offsets=records.starts)
            return sums.cpu().numpy(), slope.double().cpu().numpy()

    def _plain(
        self, U: torch.Tensor, V: torch.Tensor, records: BlockRecords, rho: RhoName
    ) -> tuple[torch.Tensor, torch.Tensor]:
        losses, slopes = plain.slopes_of_scores(U @ V.T, records, rho, score_bound(U, V))
        return losses, slopes @ V

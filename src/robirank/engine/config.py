"""How to train on a Ray cluster."""

from __future__ import annotations

import os
from dataclasses import dataclass

from robirank._checks import check_count, check_positive


@dataclass(frozen=True)
class RayConfig:
    """Train on a Ray cluster: give it to a latent model as ``engine=``.

    Parameters
    ----------
    run_dir : path or URL
        Checkpoints, logs and the finished model go here. All machines must see it.
    address : str, optional
        Of the cluster, such as ``"auto"`` or ``"10.0.0.5:6379"``. By default a small one is
        started on this machine.
    workers : int, default=2
        Processes that train, with one core each. Their number does not change the result.
    checkpoint_seconds : float, default=10
        Between two checkpoints.
    worker_timeout : float, default=30
        Seconds to wait for workers that find no place in the cluster; then the others take over
        their parts.

    Examples
    --------
    >>> config = RayConfig("runs/plays", workers=4)
    >>> config.workers, config.checkpoint_seconds
    (4, 10.0)
    """

    run_dir: str | os.PathLike[str]
    address: str | None = None
    workers: int = 2
    checkpoint_seconds: float = 10.0
    worker_timeout: float = 30.0

    def __post_init__(self) -> None:
        check_count("workers", self.workers)
        check_positive("checkpoint_seconds", self.checkpoint_seconds)
        check_positive("worker_timeout", self.worker_timeout)

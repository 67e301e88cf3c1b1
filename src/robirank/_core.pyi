"""Types of the native core; what its arguments mean is said where they are used."""

import numpy as np
from numpy.typing import NDArray

def listwise(
    scores: NDArray[np.float32] | NDArray[np.float64],
    offsets: NDArray[np.int64],
    starts: NDArray[np.int64],
    relevant: NDArray[np.int32],
    weight: NDArray[np.float64],
    rho: int,
    method: int,
    hessian: int,
    gradient: bool,
    n_threads: int,
    /,
) -> tuple[
    NDArray[np.float64],
    NDArray[np.floating] | None,
    NDArray[np.floating] | None,
    NDArray[np.float64],
]: ...
def linear(
    X: NDArray[np.float32] | NDArray[np.float64],
    rows: NDArray[np.int64] | None,
    offsets: NDArray[np.int64],
    starts: NDArray[np.int64],
    relevant: NDArray[np.int32],
    weight: NDArray[np.float64],
    w: NDArray[np.float64],
    rho: int,
    method: int,
    n_threads: int,
) -> tuple[float, NDArray[np.float64]]: ...
def instruction_sets() -> list[str]: ...
def instruction_set() -> str: ...
def use_instruction_set(name: str) -> None: ...
def ranksvm(
    scores: NDArray[np.float64],
    rank: NDArray[np.int32],
    offsets: NDArray[np.int64],
    weight: NDArray[np.float64],
    ranks: int,
    n_threads: int,
) -> tuple[float, NDArray[np.float64]]: ...

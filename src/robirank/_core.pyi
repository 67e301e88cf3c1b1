"""Types of the native core; what its arguments mean is said where they are used."""

from typing import Any

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

# --- letor.cpp ---
# `first_bad` is (line, reason, token, index of the feature before or -1).

class LetorParser:
    def __init__(
        self,
        *,
        sparse: bool,
        n_features: int,
        zero_based: bool,
        skip: bool,
        n_threads: int,
        piece_bytes: int,
    ) -> None: ...
    def feed(self, block: bytes | bytearray | memoryview) -> bool: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_stored(self) -> int: ...
    @property
    def n_lines(self) -> int: ...
    @property
    def n_skipped(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def first_bad(self) -> tuple[int, str, bytes, int] | None: ...
    @property
    def longest_doc_id(self) -> int: ...
    @property
    def doc_id_bytes(self) -> int: ...
    @property
    def ascii_doc_ids(self) -> bool: ...
    def fill_labels(self, out: NDArray[np.float32]) -> None: ...
    def fill_qids(self, out: NDArray[np.int64]) -> list[bytes] | None: ...
    def fill_doc_ids(self, out: NDArray[np.uint32]) -> None: ...
    def doc_ids(self) -> list[bytes]: ...
    def fill_dense(self, out: NDArray[Any]) -> None: ...
    def fill_sparse(
        self, values: NDArray[Any], columns: NDArray[np.int32], offsets: NDArray[np.int64]
    ) -> None: ...

class LetorParser64(LetorParser): ...  # at run time a class of its own; the same but for float64

def letor_features(
    values: NDArray[Any], columns: NDArray[np.int32], offsets: NDArray[np.int64]
) -> bytes: ...
def rankboost_potential(
    scores: NDArray[np.float64],
    grade: NDArray[np.int32],
    offsets: NDArray[np.int64],
    weight: NDArray[np.float64],
    n_threads: int,
) -> tuple[float, NDArray[np.float64]]: ...
def rankboost_weak_ranker(
    codes: NDArray[np.uint8] | NDArray[np.uint32],
    cuts: NDArray[np.int64],
    potential: NDArray[np.float64],
    loss: float,
    n_threads: int,
) -> tuple[int, int, float]: ...
def measure_along(
    base: NDArray[np.float64],
    direction: NDArray[np.float64],
    steps: NDArray[np.float64],
    value: NDArray[np.float64],
    offsets: NDArray[np.int64],
    scale: NDArray[np.float64],
    discount: NDArray[np.float64],
    average: bool,
    n_threads: int,
) -> NDArray[np.float64]: ...

# --- exact.cpp ---

def listwise_block(
    scores: NDArray[np.float32],
    starts: NDArray[np.int64],
    relevant: NDArray[np.int32],
    weight: NDArray[np.float64],
    rho: int,
    losses: NDArray[np.float64],
    t: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def adam(
    rows: NDArray[np.float32],
    first: NDArray[np.float32],
    second: NDArray[np.float32],
    gradient: NDArray[np.float32],
    decay: NDArray[np.float32],
    rate: float,
    b1: float,
    b2: float,
    correction: float,
) -> None: ...
def topk(
    users: NDArray[np.float32],
    user_rows: NDArray[np.int32],
    items: NDArray[np.float32],
    item_rows: NDArray[np.int32] | None,
    item_scale: NDArray[np.float32] | None,
    starts: NDArray[np.int64] | None,
    excluded: NDArray[np.int32] | None,
    wanted: int,
    n_threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...

class InnerSums:
    def __init__(
        self, U: NDArray[np.float32], offsets: NDArray[np.int64], points: NDArray[np.float32]
    ) -> None: ...
    def add(self, V: NDArray[np.float32]) -> None: ...
    def sums(self) -> NDArray[np.float64]: ...

def point_sums(
    scores: NDArray[np.float32],
    offsets: NDArray[np.int64],
    points: NDArray[np.float32],
    t: NDArray[np.float64],
    n_threads: int,
    method: int = 0,
) -> None: ...

# --- interactions.cpp, mixture.cpp ---

def group_records(
    user: NDArray[np.int32],
    item: NDArray[np.int32],
    count: NDArray[np.float32] | None,
    time: NDArray[Any] | None,
    n_users: int,
    n_items: int,
    n_threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32], NDArray[Any] | None]: ...
def sample_rows(
    indptr: NDArray[np.int64], take: NDArray[np.int64], seed: int, n_threads: int
) -> NDArray[np.uint8]: ...
def draw_lists(
    indptr: NDArray[np.int64],
    share: NDArray[np.float32],
    tables: NDArray[np.float32],
    seed: int,
    n_threads: int,
) -> NDArray[np.int32]: ...

# --- sgd.cpp ---
# Tasks return (sampled items, loss, steps left out because they were not finite).

def sgd_task(
    U: NDArray[np.float32],
    acc_u: NDArray[np.float32],
    indptr: NDArray[np.int64],
    items: NDArray[np.int32],
    slope: NDArray[np.float32],
    decay_u: NDArray[np.float32],
    V: NDArray[np.float32],
    acc_v: NDArray[np.float32],
    decay_v: NDArray[np.float32],
    position: NDArray[np.int32],
    first: int,
    popularity: NDArray[np.float32],
    cell_items: int,
    factors: int,
    negatives: int,
    rate_u: float,
    rate_v: float,
    key: int,
) -> tuple[int, float, int]: ...
def warp_task(
    U: NDArray[np.float32],
    acc_u: NDArray[np.float32],
    indptr: NDArray[np.int64],
    items: NDArray[np.int32],
    weight: NDArray[np.float32] | None,
    decay_u: NDArray[np.float32],
    V: NDArray[np.float32],
    acc_v: NDArray[np.float32],
    decay_v: NDArray[np.float32],
    position: NDArray[np.int32],
    first: int,
    weight_after: NDArray[np.float32],
    cell_items: int,
    factors: int,
    margin: float,
    rate_u: float,
    rate_v: float,
    key: int,
) -> tuple[int, float, int]: ...
def record_scores(
    U: NDArray[np.float32],
    indptr: NDArray[np.int64],
    items: NDArray[np.int32],
    V: NDArray[np.float32],
    position: NDArray[np.int32],
    first: int,
    scores: NDArray[np.float32],
) -> None: ...
def sgd_draws(key: int, cell: int, record: int, n: int, bound: int) -> NDArray[np.uint32]: ...

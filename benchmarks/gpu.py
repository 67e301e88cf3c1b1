"""The exact solver on a card: checked against plain PyTorch, timed, and compared.

    python benchmarks/gpu.py
        [--parts check precision gowalla yelp epochs steps msd topk softmax sgd] [--epochs 16]

- check: losses and gradients of the kernels beside sums over all pairs in double precision, and
  whether a second run has the same bits.
- precision: what half-precision products change on Gowalla.
- gowalla, yelp: default fits, and fits whose λ is chosen on the board's validation part, each in a
  process of its own that starts cold (compiled kernels are kept from an earlier run); the seconds
  are those of the whole process up to the fitted model.
- epochs: milliseconds of an epoch on Gowalla with 64, 128 and 256 factors, at one λ.
- steps: a step of 8,192 users at the Million Song shape with 64, 128 and 256 factors, beside its
  floor, and its kernels.
- msd: the generated Million Song shape: λ searched on a sample of the users, epochs, memory, the
  floor of an epoch, and held-out precision@1; then a few epochs with 256 factors at the same λ, and
  their floor.
- topk: the best 100 of all items for 100,000 users beside torch.topk over full scores.
- softmax: matrix factors under a softmax over all items, in PyTorch, on the same card: seconds to
  its own best Recall@20, and ours to that value.
- sgd (only if asked for; needs no card): held-out precision@1 at the Million Song shape of the
  stochastic solver on two cores, 8 epochs.

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import clone

import boards
import robirank as rr
from robirank.data.user_items import as_user_items
from robirank.latent.factors import topk_on_card
from robirank.latent.gpu import fused, plain
from robirank.latent.gpu.batch import (
    AdamState,
    AdamStep,
    Batch,
    BatchInteractions,
    Curvature,
    DeviceInteractions,
    UserStep,
)
from robirank.latent.gpu.device import cuda_device, has_kernels
from robirank.latent.gpu.kernels import Kernels, kernels_for
from robirank.latent.solvers import exact_on_card
from robirank.latent.solvers.user_steps import StepSettings

MILLION_SONG = (1_129_318, 386_133, 49_824_519)
KERNELS = (
    *("count_scores", "user_tables", "gradient_of_users", "gradient_of_items", "adam"),
    *("to_halves", "user_grids", "sum_users", "step_users", "add_interactions"),
)
Figures = dict[str, float]
Sums = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
#: Users, items, factors, interactions of a user, size of the factors, and of every third user.
SHAPES = [
    (5, 1, 4, 1, 1.0, 1.0),  # summed directly, as all tables of few items
    (5, 30, 4, 30, 1.0, 1.0),
    (1, 65, 4, 1, 1.0, 1.0),
    (5, 300, 8, 300, 1.0, 1.0),  # all positive
    (5, 3000, 8, 3000, 1.0, 1.0),
    (4, 1000, 8, 20, 0.0, 1.0),  # equal scores
    (4, 1000, 8, 20, 500.0, 1.0),  # ±1e6
    (90, 1000, 8, 20, 1.0, 1000.0),
    (100, 20_000, 64, 40, 0.4, 1.0),
    (70, 9_000, 40, 40, 0.3, 1.0),
    (130, 9_000, 128, 40, 0.3, 1.0),
    (130, 9_000, 256, 40, 0.2, 1.0),
    (300, 400_000, 64, 40, 0.35, 1.0),
    (300, 400_000, 64, 40, 0.8, 1.0),
    (100, 20_000, 100, 40, 0.3, 1.0),
    (100, 20_000, 192, 40, 0.25, 1.0),
    (300, 400_000, 128, 40, 0.25, 1.0),
    (300, 400_000, 256, 40, 0.18, 1.0),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = [part for part in PARTS if part != "sgd"]
    parser.add_argument("--parts", nargs="*", default=every, choices=list(PARTS))
    parser.add_argument("--epochs", type=int, default=16, help="of the Million Song fit")
    parser.add_argument("--cold", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cold:
        return cold(*args.cold)
    if torch.cuda.is_available():
        print_versions()
    figures: Figures = {}
    for part in args.parts:
        print(f"\n{part}", flush=True)
        figures |= PARTS[part](args)
        print(json.dumps({name: round(value, 4) for name, value in figures.items()}), flush=True)
    return None


def print_versions() -> None:
    card = torch.cuda.get_device_properties(cuda_device())
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    print(
        f"{card.name}, {card.total_memory / 2**30:.0f} GiB, driver {driver}, CUDA "
        f"{torch.version.cuda}, torch {torch.__version__}, robirank {rr.__version__}"
    )


# The kernels beside plain PyTorch


def random_block(
    n: int, m: int, d: int, each: int, size: float, third: float = 1.0
) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(n), each)
    columns = np.tile(np.arange(m), n) if each == m else rng.integers(0, m, len(rows))
    interactions = as_user_items(sp.csr_matrix((np.ones(len(rows)), (rows, columns)), (n, m)))
    device = cuda_device()
    U, V = (
        torch.tensor(size * rng.standard_normal((k, d)), dtype=torch.float32, device=device)
        for k in (n, m)
    )
    U[::3] *= third
    return U, V, BatchInteractions.of_users(interactions, np.arange(n), device)


def check(_: Any) -> Figures:
    worst = 0.0
    print(f"{'users':>6s}{'items':>8s}{'factors':>8s}{'size':>7s}  rho      loss     dU     dV")
    for n, m, d, each, size, third in SHAPES:
        U, V, interactions = random_block(n, m, d, each, size, third)
        for rho in ("log", "identity", "type2"):
            found, again = (by_kernels(U, V, interactions, rho) for _ in range(2))
            expected = summed_directly(U.double(), V.double(), interactions, rho)
            errors = [distance(a, b) for a, b in zip(found, expected, strict=True)]
            same = all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
            worst = max(worst, *errors)
            text = "  ".join(f"{error:.0e}" for error in errors)
            print(f"{n:6d}{m:8d}{d:8d}{size:7g}  {rho:8s} {text}{'' if same else '  OTHER BITS'}")
            assert same
    worst = max(worst, check_long_ranges())
    check_steps()
    return {"worst_error": worst}


def check_long_ranges() -> float:
    """The worst error where a group of warps visits all items, as in steps of very many users."""

    def one_range(self: Kernels, users: int, items: int) -> tuple[int, int, int]:
        return -(-users // self.layout.rows), 1, -(-items // 256) * 256

    cut = Kernels.ranges
    Kernels.ranges = one_range  # type: ignore[method-assign]
    U, V, interactions = random_block(64, 400_000, 64, 40, 0.35)
    found = by_kernels(U, V, interactions, "log")
    Kernels.ranges = cut  # type: ignore[method-assign]
    expected = summed_directly(U.double(), V.double(), interactions, "log")
    errors = [distance(a, b) for a, b in zip(found, expected, strict=True)]
    print("in one range of items: " + "  ".join(f"{error:.0e}" for error in errors))
    return max(errors)


def by_kernels(U: torch.Tensor, V: torch.Tensor, interactions: BatchInteractions, rho: Any) -> Sums:
    """Losses, and the gradients by users and by items; items are stepped with half of U."""
    found = fused.gradients(U, V, interactions, rho)
    return found.losses, found.users, found.of_items(0.5 * U)


def summed_directly(
    U: torch.Tensor, V: torch.Tensor, interactions: BatchInteractions, rho: Any
) -> Sums:
    """A pair of a relevant item and another at a time, in the precision of U."""
    own = interactions._replace(weights=interactions.weights.to(U.dtype))
    losses, by_score = plain.direct_score_gradients(U @ V.T, own, rho)
    return losses, by_score @ V, by_score.T @ (0.5 * U)


def check_steps() -> None:
    """What the kernels take of the interactions, and their steps, beside PyTorch's."""
    device, rng = cuda_device(), np.random.default_rng(0)
    table = sp.random(50, 300, 0.1, random_state=0, format="csr")
    table.data[:] = 1 + np.arange(table.nnz) % 5
    users = np.array([3, 4, 20, 49])
    for weighting in ("binary", "log"):
        interactions = as_user_items(table, weighting)
        blocks = DeviceInteractions(interactions, device, kernels_for(40, 0)).batches(users, 3)
        for block in blocks:
            expected = BatchInteractions.of_users(interactions, block.users, device)
            for one, other in zip(block.interactions[:4], expected[:4], strict=True):
                assert torch.equal(one, other)
    numbers = [torch.tensor(rng.random((2, 300, 40)), device=device).float() for _ in range(4)]
    decay = torch.tensor(rng.random((2, 300)), device=device).float()
    results = []
    for kind in (plain, fused):
        V, gradient, first, second = (x.clone() for x in numbers)
        state = AdamState(first, second, decay)
        kind.adam(V, gradient, state, AdamStep(0.3, 0.9, 0.99, 0.05, 1.7))
        results.append([V, first, second])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def distance(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The relative error; beside 1e-4 where nothing is expected."""
    return float((found.double() - expected).norm() / expected.norm().clamp_min(1e-4))


# Boards from a cold start


class Run(NamedTuple):
    """A fit from a cold start: its factors, and whether λ is chosen by validation."""

    factors: int
    searched: bool

    def __str__(self) -> str:
        how = "λ by LatentRoBiRankCV" if self.searched else "a default fit"
        return f"{self.factors} factors, {how}"


def cold(table: str, *numbers: str) -> None:
    """Fit and measure; the parent says when the process began."""
    began = float(os.environ["BEGAN"])
    factors, searched = map(int, numbers)
    train, test, valid = (sp.load_npz(f"{table}.{p}.npz") for p in ("train", "test", "valid"))
    read = time.time()
    model: Any = rr.LatentRoBiRank(factors, random_state=0, device="cuda")
    if searched:
        model = rr.LatentRoBiRankCV(model, cv=valid)
    fitted = model.fit(train, False)
    done = time.time()
    best = getattr(fitted, "best_estimator_", fitted)
    found = rr.evaluate(best, train=train, test=test, k=20)
    print(
        json.dumps(
            {
                "seconds": done - began,
                "fit": done - read,
                "recall20": found["recall@20"],
                "ndcg20": found["ndcg@20"],
                "regularization": best.regularization_,
            }
        )
    )


def fit_cold(table: Path, run: Run) -> Figures:
    done = subprocess.run(
        [sys.executable, __file__, "--cold", str(table), *(str(int(x)) for x in run)],
        env=os.environ | {"BEGAN": str(time.time())},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    print(
        f"  {run}: {found['seconds']:.1f} s from a cold start, {found['fit']:.1f} s of it for the "
        f"fit; Recall@20 {found['recall20']:.4f}, NDCG@20 {found['ndcg20']:.4f}, "
        f"λ {found['regularization']:.4g}",
        flush=True,
    )
    return found


def board(name: str, runs: dict[str, Run]) -> Callable[[Any], Figures]:
    def fit_all(_: Any) -> Figures:
        figures = {}
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / name
            save(name, table)
            for key, run in runs.items():
                kernels_for(run.factors, 0)  # compiled, and kept
                found = fit_cold(table, run)
                figures |= {f"{key}_{m}": found[m] for m in ("seconds", "recall20", "ndcg20")}
        return figures

    return fit_all


def epochs(_: Any) -> Figures:
    """Milliseconds of an epoch on Gowalla, by the number of factors."""
    train, _, _ = tables("gowalla")
    figures = {}
    for factors in (64, 128, 256):
        model = rr.LatentRoBiRank(factors, regularization=0.19, random_state=0, device="cuda")
        figures[f"gowalla{factors}_epoch_ms"] = 1e3 * epoch_seconds(model, train, 12)
    print(", ".join(f"{name} {ms:.1f}" for name, ms in figures.items()))
    return figures


def epoch_seconds(model: Any, train: Any, epochs: int) -> float:
    """Seconds of an epoch of a fit that is given its λ: the median, without the first."""
    ends: list[float] = []
    model = clone(model).set_params(iterations=epochs)
    model.fit(train, False, callback=lambda *_: ends.append(time.perf_counter()))
    return float(np.median(np.diff(ends)))


def precision(_: Any) -> Figures:
    """Recall@20 with the kernels' half-precision products and with PyTorch's float32, one λ."""
    train, test, _ = tables("gowalla")
    recalls = []
    for usable in (True, False):
        exact_on_card.has_kernels = lambda *_, usable=usable: usable
        model = rr.LatentRoBiRank(regularization=0.19, random_state=0, device="cuda")
        model.fit(train, False)
        recalls.append(recall_of(model.user_factors, model.item_factors, train, test))
    exact_on_card.has_kernels = has_kernels
    print(f"  Recall@20 {recalls[0]:.5f} with half-precision products, {recalls[1]:.5f} in float32")
    return {"precision_recall20_change": abs(recalls[0] - recalls[1])}


def save(name: str, table: Path) -> None:
    for part, matrix in zip(("train", "test", "valid"), tables(name), strict=True):
        sp.save_npz(f"{table}.{part}.npz", matrix)


def tables(name: str) -> boards.Board:
    root = Path(os.environ.get("ROBIRANK_DATA", "../shared/data")) / "implicit"
    return boards.load(root / name)


# The Million Song shape


def million_song() -> tuple[Any, Any]:
    return rr.split_ratio(rr.make_interactions(*MILLION_SONG, random_state=0), 0.02, random_state=0)


def precision_at_1(model: Any, train: Any, held_out: Any) -> float:
    """Of 20,000 users."""
    asked = np.random.default_rng(0).choice(train.shape[0], 20_000, replace=False)
    found = rr.evaluate(model, train=train, test=held_out, k=1, users=np.sort(asked))
    return float(found["precision@1"])


def msd(args: Any) -> Figures:
    train, held_out = million_song()
    users, items = train.shape
    base = rr.LatentRoBiRank(random_state=0, device="cuda")
    begin = time.perf_counter()
    reg = rr.LatentRoBiRankCV(base).search(train, False)["regularization"]
    print(f"  λ {reg:.4g}, searched in {time.perf_counter() - begin:.1f} s", flush=True)
    ends: list[float] = []
    torch.cuda.reset_peak_memory_stats()
    base.set_params(regularization=reg)
    model = clone(base).set_params(iterations=args.epochs)
    begin = time.perf_counter()
    model.fit(train, False, callback=lambda *_: ends.append(time.perf_counter()))
    seconds = time.perf_counter() - begin
    epoch = float(np.median(np.diff(ends)))
    state = 4 * 64 * (users + 3 * items)
    peak = (torch.cuda.max_memory_allocated() - state) / 1e9
    found = precision_at_1(model, train, held_out)
    floor = floors(users, items, 64)
    print(
        f"  {epoch:.2f} s an epoch, {len(ends)} epochs in {seconds / 60:.1f} min; "
        f"{peak:.1f} GB beside factors and state; held-out precision@1 {found:.4f}"
    )
    print_floors(floor)
    del model
    return {
        "msd_epoch_seconds": epoch,
        "msd_total_minutes": seconds / 60,
        "msd_peak_gb": peak,
        "msd_precision1": found,
        "msd_over_floor": epoch / max(floor.values()),
        **many_factors(base, train),
        **row_speedup(items),
    }


def many_factors(base: Any, train: Any) -> Figures:
    """An epoch with 256 factors, and its floor."""
    epoch = epoch_seconds(clone(base).set_params(factors=256), train, 4)
    floor = floors(*train.shape, 256)
    over = epoch / max(floor.values())
    print(f"  256 factors: {epoch:.2f} s an epoch, {over:.1f} times its floor")
    print_floors(floor)
    return {"msd256_epoch_seconds": epoch, "msd256_over_floor": over}


def sgd(_: Any) -> Figures:
    train, held_out = million_song()
    model = rr.LatentRoBiRank(solver="sgd", iterations=8, num_threads=2, random_state=0)
    begin = time.perf_counter()
    model.fit(train, False)
    seconds = time.perf_counter() - begin
    found = precision_at_1(model, train, held_out)
    print(f"  sgd, 8 epochs in {seconds / 60:.1f} min; held-out precision@1 {found:.4f}")
    return {"sgd_minutes": seconds / 60, "sgd_precision1_8_epochs": found}


def print_floors(floor: dict[str, float]) -> None:
    print("  floor: " + ", ".join(f"{name} {t:.2f} s" for name, t in floor.items()))


def floors(users: int, items: int, factors: int) -> dict[str, float]:
    """Seconds that an epoch needs at least, by what it needs: the rates are measured here."""
    pairs = float(users) * items
    a = torch.randn(8192, 8192, device=cuda_device(), dtype=torch.float16)
    product = 2 * 8192**3 / timed(lambda: a @ a, 20)
    x = torch.empty(2**30, device=cuda_device(), dtype=torch.uint8)
    y = torch.empty_like(x)
    copy = 2 * 2**30 / timed(lambda: y.copy_(x), 20)
    card = torch.cuda.get_device_properties(cuda_device())
    clock = torch.cuda.clock_rate() * 1e6
    lanes = card.multi_processor_count * 32 * clock  # numbers of shared memory a second
    steps = users / exact_on_card._MOST_USERS
    return {
        f"products (5 of all pairs, {factors} factors)": 5 * 2 * factors * pairs / product,
        "shared memory (3 visits of a pair)": 3 * pairs / lanes,
        "card's memory (factors, averages)": steps * items * factors * 4 * 14 / copy,
    }


def row_speedup(items: int) -> Figures:
    """One step at that many items: the kernels beside plain PyTorch."""
    U, V, interactions = random_block(512, items, 64, 44, 0.35)
    with_kernels = timed(lambda: fused.gradients(U, V, interactions, "log").of_items(U), 10)
    without = timed(lambda: plain.gradients(U, V, interactions, "log").of_items(U), 3)
    print(f"  a step of 512 users: {1e3 * with_kernels:.2f} ms, plain {1e3 * without:.2f} ms")
    return {"row_speedup": without / with_kernels}


def steps(_: Any) -> Figures:
    """A step of the most users at the Million Song shape, beside its floor, and its kernels."""
    users, items = MILLION_SONG[:2]
    figures = {}
    for factors, size in ((64, 0.35), (128, 0.25), (256, 0.18)):
        step = step_of_most_users(items, factors, size)
        seconds = timed(step, 6)
        epoch = seconds * users / exact_on_card._MOST_USERS
        over = epoch / max(floors(users, items, factors).values())
        print(
            f"  {factors} factors: {1e3 * seconds:.2f} ms, {epoch:.2f} s an epoch, "
            f"{over:.2f} times its floor"
        )
        print("    " + ", ".join(f"{name} {t:.2f}" for name, t in kernel_times(step)))
        figures |= {f"step{factors}_ms": 1e3 * seconds, f"step{factors}_over_floor": over}
    return figures


def step_of_most_users(items: int, factors: int, size: float) -> Callable[[], None]:
    """A step of the solver on random rows."""
    users = exact_on_card._MOST_USERS
    U, V, interactions = random_block(users, items, factors, 44, size)
    order = torch.sort(interactions.items, stable=True).indices
    places = torch.arange(users, device=U.device)
    batch = Batch(places.cpu().numpy(), places, interactions._replace(by_item=order))
    damping, seen, _ = StepSettings.of(factors)
    turn = torch.linalg.qr(torch.randn(1, factors, factors, device=U.device)).Q.contiguous()
    values = torch.rand(1, factors, device=U.device)
    curvature = Curvature(values, turn, turn.mT.contiguous())
    weights, penalties = torch.full_like(U[:, 0], 44.0), torch.full_like(U[None, :, 0], 3.0)
    newton = UserStep(weights, penalties, None, curvature, damping, seen)
    rows, zeros = U[None], torch.zeros_like(V[None])
    state = AdamState(zeros, zeros.clone(), torch.zeros_like(V[None, :, 0]))
    moved, items_rows = torch.empty_like(rows), V[None].clone()

    def step() -> None:
        found = fused.gradients_of_all(rows, items_rows, batch.interactions, "log")
        seen_rows = fused.step_users(rows, found, batch, "log", newton, moved, None)
        adam = AdamStep(0.0, 0.9, 0.99, 0.0, 1.0)
        fused.adam(items_rows, found.of_items(seen_rows), state, adam)

    return step


def kernel_times(step: Callable[[], None]) -> list[tuple[str, float]]:
    """Milliseconds of the kernels of a step, the longest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        torch.cuda.synchronize()
    times = {e.key: e.device_time_total / 1e3 for e in profile.key_averages() if e.key in KERNELS}
    return sorted(times.items(), key=lambda pair: -pair[1])


def timed(run: Callable[[], Any], times: int) -> float:
    run()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / times


# The best of all items


def best_items(_: Any) -> Figures:
    users, items, n = 100_000, MILLION_SONG[1], 100
    device = cuda_device()
    Q, V = (0.3 * torch.randn(k, 64, device=device) for k in (users, items))

    def ours() -> list[Any]:
        rows = topk_on_card.CardRows.of_tensor(V)
        excluded = topk_on_card._Pairs.of(None, users, None, device)
        size = topk_on_card._MOST_USERS
        return [
            topk_on_card._collected(
                Q[a : a + size], rows, n, excluded.of_queries(a, min(a + size, users))
            )
            for a in range(0, users, size)
        ]

    def full() -> None:
        for a in range(0, users, 4096):
            (Q[a : a + 4096] @ V.T).topk(n, dim=1)

    some = ours()[0][1][:512]
    expected = (Q[:512].double() @ V.double().T).topk(n, dim=1).values
    assert distance(some, expected) < 1e-5
    torch.backends.cuda.matmul.allow_tf32 = True  # the rival may be inexact
    mine, theirs = timed(ours, 2), timed(full, 1)
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"  top {n} of {items:,} for {users:,}: {mine:.3f} s, torch.topk {theirs:.3f} s")
    return {"recommend_seconds": mine, "recommend_speedup": theirs / mine}


# A softmax over all items

TEMPERATURES = (0.07, 0.1, 0.14, 0.2)


def softmax(_: Any) -> Figures:
    figures: Figures = {}
    for name in ("gowalla", "yelp2018"):
        train, test, _ = tables(name)
        best, seconds = softmax_best(train, test)
        curve = our_curve(train, test)
        reached = next((s for s, recall in curve if recall >= best), float("nan"))
        print(
            f"  {name}: softmax Recall@20 {best:.4f} after {seconds:.1f} s; RoBiRank reaches it "
            f"after {reached:.1f} s and ends at {curve[-1][1]:.4f} after {curve[-1][0]:.1f} s"
        )
        figures |= {
            f"{name}_softmax_recall20": best,
            f"{name}_softmax_seconds": seconds,
            f"{name}_seconds_to_softmax": reached,
        }
    return figures


def our_curve(train: Any, test: Any) -> list[tuple[float, float]]:
    """Seconds (the search for λ among them) and Recall@20 after each epoch."""
    curve = []
    begin, spent = time.perf_counter(), 0.0

    def measure(report: Any) -> None:
        nonlocal spent
        paused = time.perf_counter()
        recall = recall_of(report.user_factors, report.item_factors, train, test)
        curve.append((paused - begin - spent, recall))
        spent += time.perf_counter() - paused

    model = rr.LatentRoBiRank(random_state=0, device="cuda")
    model.fit(train, False, callbacks=[measure])
    return curve


def recall_of(U: Any, V: Any, train: Any, test: Any) -> float:
    from robirank.latent.factors.factor_model import FactorModel

    model = FactorModel.of(U, V, device="cuda")
    return float(rr.evaluate(model, train=train, test=test, k=20)["recall@20"])


def softmax_best(train: Any, test: Any) -> tuple[float, float]:
    """The best Recall@20 at the temperature that held-out data choose, and the seconds to it."""
    part, held_out = (
        p.matrix for p in rr.split_ratio(rr.Interactions.from_matrix(train), 0.1, random_state=0)
    )
    values = {t: max(softmax_curve(part, held_out, t, epochs=50))[0] for t in TEMPERATURES}
    chosen = max(values, key=lambda t: values[t])
    text = ", ".join(f"{t:g}: {value:.4f}" for t, value in values.items())
    print(f"  softmax, held-out Recall@20 by temperature: {text}")
    best, seconds = max(softmax_curve(train, test, chosen, epochs=200))
    return best, -seconds


def softmax_curve(
    train: Any, test: Any, temperature: float, epochs: int
) -> list[tuple[float, float]]:
    """Cosines over a temperature under a softmax over all items, by Adam on blocks of users.

    Recall@20 and less the seconds, every 5 epochs, until it has not risen for 25.
    """
    device = cuda_device()
    torch.set_float32_matmul_precision("high")
    generator = torch.Generator(device).manual_seed(0)
    U, V = (
        (0.1 * torch.randn(n, 64, device=device, generator=generator)).requires_grad_()
        for n in train.shape
    )
    adam = torch.optim.Adam([U, V], lr=3e-3, fused=True)
    interactions = DeviceInteractions(as_user_items(train), device, kernels_for(64, 0))
    unit = torch.nn.functional.normalize
    order, curve, spent = np.random.default_rng(0), [], 0.0
    for epoch in range(1, epochs + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for block in interactions.batches(order.permutation(train.shape[0]), train.shape[0] // 60):
            q, v = unit(U[block.places]) / temperature, unit(V)
            counts = block.interactions.starts.diff()
            own = (q[block.interactions.rows.long()] * v[block.interactions.items.long()]).sum()
            loss = ((counts * (q @ v.T).logsumexp(1)).sum() - own) / len(block.interactions.items)
            adam.zero_grad()
            loss.backward()
            adam.step()
        torch.cuda.synchronize()
        spent += time.perf_counter() - begin
        if epoch % 5 == 0:
            rows = (unit(x.detach()).cpu().numpy() for x in (U, V))
            curve.append((recall_of(*rows, train, test), -spent))
            if len(curve) - curve.index(max(curve)) > 5:
                break
    torch.set_float32_matmul_precision("highest")
    return curve


PARTS: dict[str, Callable[[Any], Figures]] = {
    "check": check,
    "precision": precision,
    "gowalla": board(
        "gowalla",
        {
            "gowalla64_default": Run(64, searched=False),
            "gowalla64_tuned": Run(64, searched=True),
            "gowalla256_default": Run(256, searched=False),
            "gowalla256": Run(256, searched=True),
        },
    ),
    "yelp": board(
        "yelp2018",
        {
            "yelp2018_64_default": Run(64, searched=False),
            "yelp2018_64": Run(64, searched=True),
        },
    ),
    "epochs": epochs,
    "steps": steps,
    "msd": msd,
    "topk": best_items,
    "softmax": softmax,
    "sgd": sgd,
}


if __name__ == "__main__":
    main()

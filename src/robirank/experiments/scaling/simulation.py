r"""How long an epoch takes on p machines: a small model of the parallel algorithm.

Users are cut into p parts and items into p blocks; machine q owns part q. With :math:`A_q` records
in part q, :math:`B_b` records in block b and :math:`N_{qb}` in both, an epoch is

1. a new order of the items, which every machine works out for itself, and the rows of V on their
   way to new blocks: ``plan`` · |Y| + ``row`` · |Y| / p;
2. p sub-steps, in which part q meets block q + r (mod p). The task of part q on block b takes

   .. math::
       \text{record} \cdot N_{qb} + \text{scan} \cdot A_q + \text{item} \cdot |Y| / p + \text{task},

   times a random factor :math:`e^{s z}`, where z is normal and s the measured spread. It begins
   when the machine is done with its last block and the next one comes from where it was;
3. the ξ-step of a share of the users, as many on each machine, whom all p blocks visit:
   ``pair`` · users · |Y| + ``visit`` · users · p.

Between sub-steps a block of V, :math:`|Y| (d + 1) \cdot 4 / p` bytes with Adagrad's sums, goes to
the next machine: p moves an epoch, one of them to new blocks. In the ξ-step every machine sees the
whole of V twice. Each sub-step costs one latency, because the next task needs the block, and so
does each batch of the ξ-step; where a driver hands out the tasks one by one, p hand-outs.

The parts, the blocks and :math:`N_{qb}` are drawn: users and items are cut at random as the
algorithm does it, from the numbers of records that they have, and :math:`N_{qb}` is Poisson with
mean :math:`A_q B_b / |Ω|`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np

from robirank._types import Floats64
from robirank.engine.strata import BATCH_USERS

_TASKS = 16  # or more (U,V)-tasks of a machine are simulated for one answer


@dataclass(frozen=True)
class Rates:
    """What the work costs, in seconds of one processor.

    Attributes
    ----------
    record : float
        A record of a (U,V)-task, all its sampled items included.
    scan : float
        A record of the part that the task passes over to find those of its block.
    item : float
        An item of the task's block: the table that items are sampled from.
    task : float
        A task, whatever its size.
    pair : float
        A user and an item of the ξ-step.
    visit : float
        A user and a block of the ξ-step.
    plan : float
        An item of the new order, which no machine can leave to another.
    row : float
        A row of V that moves to another block.
    spread : float
        Standard deviation of the logarithm of a task's time about what the others explain.
    """

    record: float
    scan: float
    item: float
    task: float
    pair: float
    visit: float
    plan: float
    row: float
    spread: float


def mean_rates(measured: Sequence[Rates]) -> Rates:
    """The mean of each rate over several measurements."""
    names = [f.name for f in fields(Rates)]
    return Rates(**{n: sum(getattr(r, n) for r in measured) / len(measured) for n in names})


@dataclass(frozen=True)
class Network:
    """What lies between machines.

    Attributes
    ----------
    bandwidth : float
        Bytes a second, into and out of a machine.
    latency : float
        Seconds until a message is there and acted upon.
    hand_out : float
        Seconds that a driver takes to hand out one task and take its answer; 0 where machines hand
        blocks on to each other, as in the paper.
    """

    bandwidth: float = 1.25e9
    latency: float = 5e-4
    hand_out: float = 0.0


@dataclass(frozen=True)
class Shape:
    """What there is to do.

    Attributes
    ----------
    user_counts, item_counts : arrays
        Records of each user and of each item.
    factors : int
    xi_share : float
        The share of the users whose ξ-step comes with an epoch.
    """

    user_counts: Floats64
    item_counts: Floats64
    factors: int
    xi_share: float = 0.25

    @property
    def n_records(self) -> float:
        """|Ω|."""
        return float(self.user_counts.sum())

    @property
    def n_items(self) -> int:
        """|Y|."""
        return len(self.item_counts)


@dataclass(frozen=True)
class EpochTime:
    """Seconds of an epoch, by what they go into; a machine's mean where machines differ.

    Attributes
    ----------
    compute : float
        Work.
    waiting : float
        For slower machines.
    sharing : float
        For a core, where there are fewer than machines.
    communication : float
        Bytes on the way.
    latency : float
        Messages that a next task waits for.
    hand_out : float
        Tasks that wait for the driver.
    """

    compute: float = 0.0
    waiting: float = 0.0
    sharing: float = 0.0
    communication: float = 0.0
    latency: float = 0.0
    hand_out: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return sum(getattr(self, field.name) for field in fields(self))

    @property
    def without_driver(self) -> float:
        """What it takes where machines hand blocks on to each other."""
        return self.total - self.hand_out

    @property
    def path(self) -> float:
        """What it would take with a core for each machine and nothing between them."""
        return self.compute + self.waiting

    def __add__(self, other: EpochTime) -> EpochTime:
        pairs = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return EpochTime(**pairs)

    def __truediv__(self, n: float) -> EpochTime:
        return EpochTime(**{f.name: getattr(self, f.name) / n for f in fields(self)})


def epoch_time(
    shape: Shape,
    rates: Rates,
    network: Network | None,
    machines: int,
    *,
    cores: int | None = None,
    seed: int = 0,
) -> EpochTime:
    """Simulate an epoch.

    Parameters
    ----------
    shape : Shape
    rates : Rates
    network : Network or None
        None: all in the memory of one process, whose main thread turns V to the new order.
    machines : int
        p.
    cores : int, optional
        Where p workers share so many cores; one each by default.
    seed : int, default=0
        Decides how users and items are cut.

    Returns
    -------
    EpochTime
        The mean over several epochs.

    Examples
    --------
    Equal users, equal items, and no noise: two machines need half the time.

    >>> shape = Shape(np.full(4000, 500.0), np.full(1000, 2000.0), factors=32, xi_share=0.0)
    >>> rates = Rates(1e-6, scan=0, item=0, task=0, pair=0, visit=0, plan=0, row=0, spread=0)
    >>> one, two = (epoch_time(shape, rates, None, p) for p in (1, 2))
    >>> round(one.total, 1), round(two.total, 1)
    (2.0, 1.0)
    """
    if machines < 1 or machines > min(len(shape.user_counts), shape.n_items // 2):
        most = min(len(shape.user_counts), shape.n_items // 2)
        raise ValueError(f"machines must be from 1 to {most}, for this data; got {machines!r}")
    rng = np.random.default_rng([seed, machines])
    n = max(3, _TASKS // machines)
    drawn = [_one_epoch(shape, rates, machines, cores or machines, rng) for _ in range(n)]
    work = sum(drawn, EpochTime()) / n
    turn = rates.plan * shape.n_items
    if network is None:
        return work + EpochTime(compute=turn + rates.row * shape.n_items)
    turn += rates.row * shape.n_items / machines
    return work + EpochTime(compute=turn) + _between(shape, network, machines)


def _one_epoch(
    shape: Shape, rates: Rates, p: int, cores: int, rng: np.random.Generator
) -> EpochTime:
    part, block = (_cut(counts, p, rng) for counts in (shape.user_counts, shape.item_counts))
    records = rng.poisson(np.outer(part, block) / shape.n_records) if p > 1 else part[:, None]
    fixed = rates.task + rates.item * shape.n_items / p
    seconds = fixed + rates.scan * part[:, None] + rates.record * records
    seconds = seconds * np.exp(rates.spread * rng.standard_normal((p, p)))
    by_step = seconds[np.arange(p)[:, None], (np.arange(p)[:, None] + np.arange(p)) % p]
    users = shape.xi_share * len(shape.user_counts) / p
    xi = users * (rates.pair * shape.n_items + rates.visit * p)
    uv_step = _side_by_side(by_step.sum(axis=1), wavefront(by_step), cores)
    return uv_step + _side_by_side(np.full(p, xi), xi, cores)


def _cut(counts: Floats64, p: int, rng: np.random.Generator) -> Floats64:
    """The records of p equal shares, drawn at random, of users or items."""
    bounds = np.arange(p) * len(counts) // p
    return np.add.reduceat(rng.permutation(counts), bounds)


def wavefront(seconds: Floats64) -> float:
    """How long a pass takes if every task begins as soon as its part and its block are free.

    In sub-step r part q takes over the block that part q + 1 had in the sub-step before.

    Parameters
    ----------
    seconds : array of shape (parts, sub-steps)

    Examples
    --------
    Part 0 is slow with one block only, so the others need not wait for it every time.

    >>> wavefront(np.array([[3.0, 1.0], [1.0, 1.0]]))
    4.0
    """
    end = np.zeros(len(seconds))
    for step in range(seconds.shape[1]):
        end = np.maximum(end, np.roll(end, -1)) + seconds[:, step]
    return float(end.max())


def _side_by_side(busy: Floats64, path: float, cores: int) -> EpochTime:
    """Machines that are busy for so long, of which the longest chain of tasks takes `path`.

    With fewer cores than machines they cannot end before the cores have done all the work.
    """
    mean = float(busy.mean())
    crowded = max(0.0, float(busy.sum()) / min(cores, len(busy)) - path)
    return EpochTime(compute=mean, waiting=path - mean, sharing=crowded)


def _between(shape: Shape, network: Network, p: int) -> EpochTime:
    """What goes over the network in an epoch, and how often all must meet."""
    if p == 1:
        return EpochTime()
    moved = shape.n_items * (shape.factors + 1) * 4.0  # all blocks once, a p-th in each of p moves
    visits = 2.0 * shape.n_items * shape.factors * 4.0 * (1 - 1 / p) * (shape.xi_share > 0)
    batches = np.ceil(shape.xi_share * len(shape.user_counts) / p / BATCH_USERS)
    rounds = p + 1 + float(batches)  # the sub-steps, the split of blocks, the ξ-step's batches
    return EpochTime(
        communication=(moved + visits) / network.bandwidth,
        latency=rounds * network.latency,
        hand_out=rounds * p * network.hand_out,
    )


def stops_paying(times: Sequence[tuple[int, float]], gain: float = 1.1) -> int:
    """The number of machines after which the next, larger one is not faster by a tenth.

    Examples
    --------
    >>> stops_paying([(1, 8.0), (2, 4.0), (4, 2.5), (8, 2.4), (16, 3.0)])
    4
    """
    for (p, seconds), (_, after) in pairwise(times):
        if seconds < gain * after:
            return p
    return times[-1][0]


def million_song(factors: int = 64, xi_share: float = 0.25) -> Shape:
    """The shape of the paper's Million Song data, with the power laws of `make_interactions`.

    Examples
    --------
    >>> shape = million_song()
    >>> round(shape.n_records), len(shape.user_counts), shape.n_items
    (49824519, 1129318, 386133)
    """
    n_users, n_items, n_records = 1_129_318, 386_133, 49_824_519
    activity = (np.arange(1, n_users + 1) + n_users / 1000) ** -0.6
    popularity = (np.arange(1, n_items + 1) + n_records / n_users) ** -1.0
    return Shape(
        n_records * activity / activity.sum(),
        n_records * popularity / popularity.sum(),
        factors,
        xi_share,
    )

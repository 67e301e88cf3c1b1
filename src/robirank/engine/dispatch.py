"""Hands out the tasks of a tick to the workers of a cluster, and knows where things are.

Of V it has references only, one a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robirank.engine.checkpoints import Checkpoint
from robirank.engine.ray import Crew
from robirank.engine.strata import DATA_ORDER, visiting_order, xi_turn, xi_waves
from robirank.engine.tasks import Report, XiReport
from robirank.engine.ticks import DriftTick, Result, SquaresTick, Tick, UvTick, XiTick
from robirank.storage.folder import Entry, Folder

__all__ = ["Dispatch", "total"]

Refs = list[tuple[int, Any]]  # a worker, and the reference of what it will say


class Dispatch:
    """Where the blocks of V are, and who does what.

    Parameters
    ----------
    crew : Crew
    part_users : sequence of int
        How many users each part has.

    Attributes
    ----------
    blocks_epoch : int
        In whose order V lies.
    """

    def __init__(self, crew: Crew, part_users: Sequence[int]) -> None:
        self._crew, self.part_users = crew, part_users
        self._n = len(part_users)
        self._blocks: list[Any] = []
        self._homes: list[int] = []  # the worker that made each block
        self.blocks_epoch = 0
        self._factors_at = self._slopes_at = 0  # the ticks that changed them last

    def start(self) -> None:
        """The state that every run begins with."""
        self._homes = list(self._crew.owner)
        self._blocks, self.blocks_epoch = [], 0
        self._factors_at = self._slopes_at = 0
        for worker in range(len(self._crew.members)):
            own = [block for block, home in enumerate(self._homes) if home == worker]
            self._blocks += self._crew.call_many(worker, "start", own, returns=len(own))

    def submit(self, tick: Tick, number: int) -> Refs:
        """Hand out the tasks of a tick."""
        crew = self._crew
        if isinstance(tick, UvTick):
            self._factors_at = number
            return self._submit_uv(tick)
        if isinstance(tick, SquaresTick):
            return [
                (crew.owner[p], crew.call(crew.owner[p], "squares", p, self._blocks[p]))
                for p in range(self._n)
            ]
        self._slopes_at = number
        if isinstance(tick, XiTick):
            return self._submit_xi(tick)
        refs = []
        for part, n_users in enumerate(self.part_users):
            worker = crew.owner[part]
            if isinstance(tick, DriftTick):
                users = xi_turn(n_users, tick.turn, tick.of)
                refs.append((worker, crew.call(worker, "drift", part, users, tick.factor)))
            else:
                refs.append((worker, crew.call(worker, "scale_slopes", part, tick.factor)))
        return refs

    def _submit_uv(self, tick: UvTick) -> Refs:
        crew, n, old_epoch = self._crew, self._n, self.blocks_epoch
        cargo: list[list[Any]] = [[ref] for ref in self._blocks]
        homes = [[home] for home in self._homes]
        if tick.epoch != old_epoch:
            pieces = self._split(tick.epoch)
            cargo = [[pieces[old][block] for old in range(n)] for block in range(n)]
            homes = [self._homes] * n
        reports: Refs = []
        blocks: list[Any] = [None] * n
        new_homes = [0] * n
        for part in range(n):
            block, worker = (part + tick.step) % n, crew.owner[part]
            report, blocks[block] = crew.call(
                worker,
                "uv",
                part,
                block,
                tick.epoch,
                old_epoch,
                tick.task,
                tick.settings,
                tick.kept,
                [home != worker for home in homes[block]],
                *cargo[block],
                returns=2,
            )
            new_homes[block] = worker
            reports.append((worker, report))
        self._blocks, self._homes, self.blocks_epoch = blocks, new_homes, tick.epoch
        return reports

    def _split(self, epoch: int) -> list[list[Any]]:
        """Cut every block, where it lies, into pieces for the blocks of another epoch."""
        n, old = self._n, self.blocks_epoch
        return [
            self._crew.call_many(home, "split", block, old, epoch, self._blocks[block], returns=n)
            for block, home in enumerate(self._homes)
        ]

    def _submit_xi(self, tick: XiTick) -> Refs:
        refs = []
        for part, n_users in enumerate(self.part_users):
            waves = xi_waves(n_users, tick.turn, tick.of)
            if tick.wave >= len(waves):
                continue
            visits = [(b, self._blocks[b]) for b in visiting_order(part, self._n)]
            worker = self._crew.owner[part]
            arguments = (part, self.blocks_epoch, waves[tick.wave], tick.rho)
            refs.append((worker, self._crew.call_xi(worker, visits, *arguments)))
        return refs

    def save(
        self, folder: Folder, known: Mapping[str, Entry]
    ) -> tuple[list[Any], tuple[list[str], list[str], list[str]]]:
        """Let the workers write what is not known yet; the names of U, the slopes and V."""
        parts = range(self._n)
        factors = [f"factors-{self._factors_at:09d}-{p:05d}.safetensors" for p in parts]
        slopes = [f"slopes-{self._slopes_at:09d}-{p:05d}.safetensors" for p in parts]
        blocks = [f"block-{self._factors_at:09d}-{b:05d}.safetensors" for b in parts]
        refs = []
        for p in parts:
            new = tuple(None if name in known else name for name in (factors[p], slopes[p]))
            refs.append(self._crew.call(self._crew.owner[p], "save", folder, {p: new}))
        for b, name in enumerate(blocks):
            if name not in known:
                home = self._homes[b]
                refs.append(self._crew.call(home, "save_block", folder, name, self._blocks[b]))
        return refs, (factors, slopes, blocks)

    def restore(self, folder: Folder, checkpoint: Checkpoint) -> None:
        """Take up a checkpoint; a damaged file is a `DamagedFileError`."""
        crew, homes = self._crew, list(self._crew.owner)
        files = list(zip(checkpoint.factors, checkpoint.slopes, strict=True))
        restored = [
            crew.call(crew.owner[part], "restore", folder, {part: files[part]})
            for part in range(self._n)
        ]
        blocks = [
            crew.call(home, "restore_block", folder, checkpoint.blocks[block], returns=2)
            for block, home in enumerate(homes)
        ]
        crew.get([*restored, *(done for done, _ in blocks)])
        self._homes, self._blocks = homes, [ref for _, ref in blocks]
        self.blocks_epoch = checkpoint.blocks_epoch
        self._factors_at = _tick_of(checkpoint.factors[0])
        self._slopes_at = _tick_of(checkpoint.slopes[0])

    def write_model(self, folder: Folder) -> tuple[list[Any], list[Any]]:
        """Let the workers write U, and V in the order of the data."""
        crew, n = self._crew, self._n
        users = [crew.call(w, "write_users", folder) for w in range(len(crew.members))]
        pieces = self._split(DATA_ORDER)
        items = []
        for shard in range(n):
            own = [pieces[old][shard] for old in range(n)]
            arguments = (folder, shard, self.blocks_epoch, *own)
            items.append(crew.call(crew.owner[shard], "write_items", *arguments))
        return users, items


def total(tick: Tick, answers: Sequence[Any]) -> Result:
    """What the answers of all parts to a tick come to."""
    if isinstance(tick, UvTick):
        return sum((report for report, _ in answers), Report())
    if isinstance(tick, XiTick):
        return sum((report for report, _ in answers), XiReport())
    if isinstance(tick, SquaresTick):
        return sum(u for u, _ in answers), sum(v for _, v in answers)
    return None


def _tick_of(entry: Entry) -> int:
    return int(str(entry["name"]).split("-")[1])

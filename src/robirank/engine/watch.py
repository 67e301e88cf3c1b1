"""What a run on a cluster says of itself: a line a tick and worker, in the run directory."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from robirank.engine.ticks import Tick, UvTick, XiTick
from robirank.storage.folder import Folder

__all__ = ["Watch"]

log = logging.getLogger("robirank.engine")


class Watch:
    """Writes ``workers.jsonl`` and the log, and keeps sums for the progress line.

    Attributes
    ----------
    bytes_in, bytes_moved : int
        Of blocks of V that workers took in, and of those that another worker had made.
    busy : float
        Seconds of work, of all workers together.
    on_tick : callable, optional
        Called after every tick with a few figures by name.
    """

    def __init__(self, folder: Folder) -> None:
        self._file: Any = None
        if folder.is_local:  # a store cannot append
            self._file = Path(folder.path("workers.jsonl")).open("a", encoding="utf-8")  # noqa: SIM115
        self.bytes_in = self.bytes_moved = 0
        self.busy = 0.0
        self.memory: dict[int, int] = {}
        self.on_tick: Callable[..., None] | None = None

    def note(
        self,
        engine: Any,
        tick: Tick,
        number: int,
        begun: float,
        workers: Sequence[int],
        answers: Sequence[Any],
    ) -> None:
        """Note what a tick cost each worker."""
        if not isinstance(tick, UvTick | XiTick):
            return
        seconds = time.monotonic() - begun
        place = {"epoch": tick.epoch, "step": tick.step} if isinstance(tick, UvTick) else {}
        place |= {"wave": tick.wave, "turn": tick.turn} if isinstance(tick, XiTick) else {}
        for worker in sorted(set(workers)):
            own = [a for w, a in zip(workers, answers, strict=True) if w == worker]
            receipts = [receipt for _, receipt in own]
            busy = sum(r.seconds for r in receipts)
            done = sum(
                report.draws if isinstance(tick, UvTick) else report.records for report, _ in own
            )
            self.busy += busy
            self.bytes_in += sum(r.bytes_in for r in receipts)
            self.bytes_moved += sum(r.bytes_moved for r in receipts)
            self.memory[worker] = receipts[-1].memory
            self.say(
                "uv" if isinstance(tick, UvTick) else "xi",
                tick=number,
                **place,
                worker=worker,
                pid=engine.crew.members[worker]["pid"],
                node=engine.crew.members[worker]["node"],
                tasks=len(own),
                busy_seconds=round(busy, 4),
                seconds=round(seconds, 4),
                per_second=round(done / max(busy, 1e-9)),
                bytes_in=sum(r.bytes_in for r in receipts),
                bytes_moved=sum(r.bytes_moved for r in receipts),
                bytes_out=sum(r.bytes_out for r in receipts),
                memory=receipts[-1].memory,
            )
        if self.on_tick is not None:
            step = f"{'(U,V)' if isinstance(tick, UvTick) else 'ξ'}-step"
            step += f" {tick.step + 1}/{engine.n_parts}" if isinstance(tick, UvTick) else ""
            memory = max(self.memory.values(), default=0)
            self.on_tick(
                step=step, workers=str(len(engine.crew.members)), memory=f"{memory / 1e9:.1f} GB"
            )

    def say(self, what: str, **figures: Any) -> None:
        """Write one line."""
        line = json.dumps({"time": round(time.time(), 3), "what": what, **figures})
        log.info("%s", line)
        if self._file is None:
            return
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as error:  # a full disk must not end the training
            log.warning("workers.jsonl cannot be written: %s", error)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

"""The log of a run on a cluster: a line for each step and worker, in the run directory."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robirank.engine.interface import Figures, add_up
from robirank.engine.ray.worker import Step
from robirank.storage.files import refuse_link
from robirank.storage.folder import Folder

log = logging.getLogger("robirank.engine")


class RunLog:
    """Writes ``workers.jsonl`` and the log, and calls ``on_step`` with a few figures by name.

    It adds up the bytes of blocks that workers took in and that another worker had made, and has
    the bytes of memory that each worker held after its last task.
    """

    def __init__(self, folder: Folder) -> None:
        self._file: Any = None
        if folder.is_local:  # a store cannot append
            refuse_link(folder.path("workers.jsonl"))
            self._file = Path(folder.path("workers.jsonl")).open("a", encoding="utf-8")  # noqa: SIM115
        self.bytes_in = self.bytes_moved = 0.0
        self.memory: dict[int, float] = {}
        self.on_step: Callable[..., None] | None = None

    def step_done(
        self,
        step: Step,
        number: int,
        seconds: float,
        members: Sequence[Mapping[str, Any]],
        workers: Sequence[int],
        answers: Sequence[tuple[Figures, Figures]],
    ) -> None:
        """Note what a step cost each worker."""
        place = {} if step.epoch is None else {"epoch": step.epoch}
        for worker in sorted(set(workers)):
            of_worker = [a for w, a in zip(workers, answers, strict=True) if w == worker]
            cost = add_up(cost for _, cost in of_worker)
            self.bytes_in += cost["bytes_in"]
            self.bytes_moved += cost["bytes_moved"]
            self.memory[worker] = of_worker[-1][1]["memory"]
            self.say(
                step.kind,
                task=step.task.__name__,
                step=number,
                **place,
                number=step.number,
                worker=worker,
                pid=members[worker]["pid"],
                node=members[worker]["node"],
                tasks=len(of_worker),
                busy_seconds=round(cost["seconds"], 4),
                seconds=round(seconds, 4),
                per_second=round(
                    sum(f.get("done", 0) for f, _ in of_worker) / max(cost["seconds"], 1e-9)
                ),
                bytes_in=cost["bytes_in"],
                bytes_moved=cost["bytes_moved"],
                bytes_out=cost["bytes_out"],
                memory=self.memory[worker],
            )
        if self.on_step is not None:
            self.on_step(
                step=f"{step.kind} {step.number + 1}",
                workers=str(len(members)),
                memory=f"{max(self.memory.values(), default=0) / 1e9:.1f} GB",
            )

    def say(self, what: str, **figures: Any) -> None:
        """Write one line."""
        line = json.dumps({"time": round(time.time(), 3), "what": what, **figures})
        log.log(logging.DEBUG if what in ("sweep", "scan") else logging.INFO, "%s", line)
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

"""What users took since the model was trained: hidden, folded in, and kept in a log."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Any

from robirank.serve.feedback_log import FeedbackLog, Fsync, Line


class Feedback:
    """The items that each user took, in the order in which they came.

    With a folder, lines are appended to a log there, and read from it: what another worker wrote
    is known as soon as the worker has answered, and what is in the log is known after a restart.

    Parameters
    ----------
    folder : Path, optional
        For the log; without it, feedback lasts as long as the server.
    most : int
        Pairs of users and items that are kept in memory; those of the users whose last feedback is
        the oldest go first. The log keeps all.
    fsync : {"always", "second", "never"}
        When lines are forced to disk: before the answer, within a second, or by the system.
    most_bytes : int
        Of a file of the log, after which the next one is begun.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        most: int = 1_000_000,
        fsync: Fsync = "second",
        most_bytes: int = 64 << 20,
    ) -> None:
        self._most, self._n_pairs = most, 0
        self._of_user: OrderedDict[str, OrderedDict[str, str | int]] = OrderedDict()
        self._lock = threading.RLock()
        self._log = None if folder is None else FeedbackLog(folder, fsync, most_bytes)
        self.refresh()

    def __len__(self) -> int:
        """The number of pairs in memory."""
        return self._n_pairs

    def add(self, lines: Sequence[Line]) -> None:
        """Keep what users took; when this returns, it is in the log and is known."""
        if self._log is not None:
            self._log.append(lines)
            self.refresh()
            return
        with self._lock:
            for line in lines:
                self._keep(line)

    def refresh(self) -> None:
        """Read what was appended to the log, by this process or by others."""
        if self._log is None:
            return
        with self._lock:
            for line in self._log.read_new():
                self._keep(line)

    def has(self, user: Any) -> bool:
        """Whether something is known of a user."""
        return str(user) in self._of_user

    def items_of(self, user: Any) -> Sequence[str | int]:
        """What a user took, in the order in which it came."""
        with self._lock:
            items = self._of_user.get(str(user))
            return () if items is None else tuple(items.values())

    def forget(self, known: Callable[[str], Container[str]]) -> int:
        """Forget pairs that a new table of interactions has; how many they were.

        ``known`` gives the ids, as text, of the items that the table has of a user. Others are
        answered meanwhile.
        """
        with self._lock:
            users = [*self._of_user]
        n_forgotten = 0
        for user in users:
            had = known(user)
            with self._lock:
                items = self._of_user.get(user, OrderedDict())
                gone = [item for item in items if item in had]
                for item in gone:
                    del items[item]
                if gone and not items:
                    del self._of_user[user]
                self._n_pairs -= len(gone)
                n_forgotten += len(gone)
        return n_forgotten

    def close(self) -> None:
        """Force what was written to disk."""
        if self._log is not None:
            self._log.close()

    def _keep(self, line: Line) -> None:
        items = self._of_user.setdefault(str(line.user), OrderedDict())
        self._of_user.move_to_end(str(line.user))
        for item in line.items:
            self._n_pairs += str(item) not in items
            items[str(item)] = item
            items.move_to_end(str(item))
        while self._n_pairs > self._most:
            _, oldest = self._of_user.popitem(last=False)
            self._n_pairs -= len(oldest)

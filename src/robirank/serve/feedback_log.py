"""The log of feedback: JSON lines in numbered files of a folder, which several processes append to.

``feedback-00000001.jsonl`` is followed by ``feedback-00000002.jsonl`` when it is full. A line is an
object with the fields ``time``, ``user`` and ``items``. Files are never changed or removed; whoever
has learned from them may remove all but the last.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Literal

import msgspec

from robirank._callers import warn
from robirank._checks import check_choice
from robirank.errors import TableError
from robirank.serve.messages import Id
from robirank.storage.files import sync_folder

try:
    import fcntl
except ImportError:  # Windows: one worker alone
    fcntl = None  # type: ignore[assignment]

Fsync = Literal["always", "second", "never"]

_NAME = re.compile(r"feedback-(\d{8})\.jsonl")
_SYNC_SECONDS = 1.0


class Line(msgspec.Struct, frozen=True):
    """What a user took at once."""

    time: datetime
    user: Id
    items: list[Id]


def line_now(user: str | int, items: Sequence[str | int]) -> Line:
    """What a user just took."""
    return Line(datetime.now(UTC), user, list(items))


class FeedbackLog:
    """A folder with the files of a log, to append to and to read from."""

    def __init__(self, folder: Path, fsync: Fsync = "second", most_bytes: int = 64 << 20) -> None:
        check_choice("fsync", fsync, ("always", "second", "never"))
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._fsync, self._most_bytes = folder, fsync, most_bytes
        self._encoder, self._decoder = msgspec.json.Encoder(), msgspec.json.Decoder(Line)
        self._lock = threading.Lock()
        self._lock_file = (folder / ".lock").open("ab")
        self._writing: tuple[int, IO[bytes]] | None = None
        self._timer: threading.Timer | None = None
        numbers = [number for number, _ in files_of(folder)]
        self._reading = min(numbers, default=1)
        self._read_to = 0
        self._reader: IO[bytes] | None = None

    def append(self, lines: Sequence[Line]) -> None:
        """Append lines, all of them or none."""
        content = b"".join(self._encoder.encode(line) + b"\n" for line in lines)
        with self._lock:
            _lock(self._lock_file)
            try:
                file = self._last_file()
                end = file.seek(0, os.SEEK_END)
                if end and not _ends_line(self._path(self._writing_number), end):
                    content = b"\n" + content  # a process was killed while it wrote
                try:
                    _write_all(file.fileno(), content)
                except OSError:
                    os.ftruncate(file.fileno(), end)
                    raise
            finally:
                _unlock(self._lock_file)
            if self._fsync == "always":
                os.fsync(file.fileno())
            elif self._fsync == "second" and self._timer is None:
                self._timer = threading.Timer(_SYNC_SECONDS, self._sync)
                self._timer.daemon = True
                self._timer.start()

    def read_new(self) -> Iterator[Line]:
        """The lines that were appended since the last call; broken ones are passed over."""
        while True:
            following = self._following()  # where there is one, nobody appends to this one
            yield from self._rest_of_file()
            if following is None:
                return
            if self._reader is not None:
                self._reader.close()
            self._reading, self._read_to, self._reader = following, 0, None

    def _following(self) -> int | None:
        """The number of the file to read after this one; None where this is the last.

        Files may have been removed, of which the last can have begun anew.
        """
        if self._path(self._reading + 1).exists():
            return self._reading + 1
        path = self._path(self._reading)
        if path.exists() if self._reader is None else _is_at(path, self._reader):
            return None
        return min((n for n, _ in files_of(self._folder) if n >= self._reading), default=None)

    def close(self) -> None:
        """Force what was written to disk, and close the files."""
        if self._timer is not None:
            self._timer.cancel()
        self._sync()
        if self._writing is not None:
            self._writing[1].close()
            self._writing = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._lock_file.close()

    @property
    def _writing_number(self) -> int:
        assert self._writing is not None
        return self._writing[0]

    def _path(self, number: int) -> Path:
        return self._folder / f"feedback-{number:08d}.jsonl"

    def _last_file(self) -> IO[bytes]:
        """The file to append to, opened; the next one where the last is full."""
        before = self._reading if self._writing is None else self._writing[0]
        number = max((number for number, _ in files_of(self._folder)), default=before)
        path = self._path(number)
        is_new = not path.exists()
        if not is_new and path.stat().st_size >= self._most_bytes:
            number, path, is_new = number + 1, self._path(number + 1), True
        if self._writing is None or not _is_at(path, self._writing[1]):
            if self._writing is not None:
                os.fsync(self._writing[1].fileno())
                self._writing[1].close()
            self._writing = number, path.open("ab", buffering=0)
        if is_new and self._fsync != "never":
            sync_folder(self._folder)
        return self._writing[1]

    def _sync(self) -> None:
        with self._lock:
            self._timer = None
            if self._writing is not None and self._fsync != "never":
                os.fsync(self._writing[1].fileno())

    def _rest_of_file(self) -> Iterator[Line]:
        if self._reader is None:
            try:
                self._reader = self._path(self._reading).open("rb")
            except FileNotFoundError:
                return
        if os.fstat(self._reader.fileno()).st_size <= self._read_to:
            return
        self._reader.seek(self._read_to)
        content = self._reader.read()
        whole = content.rfind(b"\n") + 1
        self._read_to += whole
        yield from _lines(content[:whole], self._decoder)


def read_feedback(folder: Path) -> Iterator[Line]:
    """All lines of the log in a folder, in the order in which they were written.

    A warning counts broken lines. There must be a file.
    """
    files = files_of(folder) if folder.is_dir() else []
    if not files:
        raise TableError(f"{folder} must be a folder with feedback-00000001.jsonl and so on")
    decoder, n_lines, n_whole = msgspec.json.Decoder(Line), 0, 0
    for _, path in files:
        content = path.read_bytes()
        n_lines += sum(1 for line in content.splitlines() if line.strip())
        for line in _lines(content, decoder):
            n_whole += 1
            yield line
    if n_whole < n_lines:
        warn(f"{folder}: {n_lines - n_whole} of {n_lines} lines are broken, and passed over")


def remove_old_files(folder: Path, kept: int = 3) -> None:
    """Remove all files of a log but the last few; what is in memory is still known."""
    for _, path in files_of(folder)[:-kept]:
        path.unlink(missing_ok=True)


def files_of(folder: Path) -> list[tuple[int, Path]]:
    """The numbers and paths of the files of a log, in order."""
    matches = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in matches if match)


def _lines(content: bytes, decoder: msgspec.json.Decoder[Line]) -> Iterator[Line]:
    for line in content.splitlines():
        try:
            yield decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue


def _ends_line(path: Path, end: int) -> bool:
    with path.open("rb") as file:
        file.seek(end - 1)
        return file.read(1) == b"\n"


def _is_at(path: Path, file: IO[bytes]) -> bool:
    """Whether an open file is the one that has a path now."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _lock(file: IO[bytes]) -> None:
    if fcntl is not None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)


def _unlock(file: IO[bytes]) -> None:
    if fcntl is not None:
        fcntl.flock(file.fileno(), fcntl.LOCK_UN)

"""Logs of the server: a JSON object on each line, without personal data unless asked for."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

log = logging.getLogger("robirank.serve")


class JsonLines(logging.Formatter):
    """Writes a record as one JSON object: when, how bad, what, and the fields of ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


@contextmanager
def logs_on_stderr(level: int = logging.INFO) -> Iterator[None]:
    """Let the program's logs go to standard error as JSON lines, until the block ends."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    loggers = [logging.getLogger(name) for name in ("robirank", "uvicorn", "uvicorn.error")]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    try:
        for logger in loggers:
            logger.handlers, logger.propagate = [handler], False
            logger.setLevel(level)
        yield
    finally:
        for logger, (handlers, propagate, old_level) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(old_level)


def tell(level: int, event: str, /, **fields: Any) -> None:
    """Log an event with fields."""
    if log.isEnabledFor(level):
        log.log(level, event, extra={"fields": fields})

"""The step log as JSON lines in files that rotate; needs no collector."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Self

from loopguard_lg.errors import PolicyError
from loopguard_lg.hooks import GuardEvent, logger
from loopguard_lg.traces.formats import steplog
from loopguard_lg.traces.recorder import Redact, encoded, redacted

MAX_BYTES, KEEP = 64 << 20, 5


class StepLog:
    """An observer that writes a row per call, as it happens, for `loopguard check`.

    Other than a `Recorder` it holds no run in memory, loses nothing when the process is
    killed, and writes no texts unless it is told to. One process writes a file.

    Args:
        path: The file; older ones are `path.1`, `path.2`, ... The folder must be there.
        content: Write arguments, results and words, too; secrets in them are masked.
        max_bytes: Size at which a new file is begun; 0: never.
        keep: Older files that are kept.
        redact: Is given every row before it is written; `None`: as it is.
        clock: Nanoseconds since 1970.

    Raises:
        PolicyError: There is no such folder, or the path is one.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        content: bool = False,
        max_bytes: int = MAX_BYTES,
        keep: int = KEEP,
        redact: Redact | None = redacted,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.path = Path(path)
        if self.path.is_dir() or not self.path.parent.is_dir():
            raise PolicyError(
                f"StepLog({str(path)!r}): give a file in a folder that is there"
            )
        self.lost = 0
        self._content = content
        self._redact = redact
        self._clock = clock
        self._file = _File(
            path, maxBytes=max_bytes, backupCount=keep, encoding="utf-8", delay=True
        )

    def __call__(self, event: GuardEvent) -> None:
        """Write the rows of an event; a full disk costs rows, which `lost` counts."""
        for row in steplog.rows(event, content=self._content):
            row = {"at": self._clock(), **row}
            text = encoded(self._redact(row) if self._redact else row).decode()
            try:
                self._file.handle(logging.makeLogRecord({"msg": text}))
            except OSError as error:
                self._lose(error)

    def _lose(self, error: OSError) -> None:
        if not self.lost:
            logger.warning("loopguard: rows of %s are lost: %s", self.path, error)
        self.lost += 1

    def close(self) -> None:
        """Close the file; what comes later opens it again."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _File(RotatingFileHandler):
    """A handler that raises what it meets instead of printing it."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Raise what `emit` has caught."""
        raise

"""The package's logger: what it says has no secrets, tracebacks included."""

from __future__ import annotations

import logging
from typing import Any
from weakref import WeakKeyDictionary

from loopguard_lg import redaction
from loopguard_lg.quoting import printable

logger = logging.getLogger("loopguard_lg")

_FORMAT = logging.Formatter()


class Redacting(logging.Filter):
    """Masks secrets in messages and in the text of exceptions.

    Exceptions often quote what they failed on. A handler that formats `exc_info` by
    itself, rather than by a `logging.Formatter`, has to redact it by itself.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, once it is masked and on lines of its own."""
        message = redaction.masked(_said(record))
        record.msg, record.args = printable(message, keep="\n\t"), ()
        if record.exc_info:
            trace = redaction.masked(_FORMAT.formatException(record.exc_info))
            record.exc_text = printable(trace, keep="\n\t")
        return True


_failures: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def _said(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # an error whose own text fails
        return str(record.msg)


def note_failure(part: Any, what: str) -> None:
    """Count a failure of a part of the user's, and log the first one of each part.

    Call it where the exception is handled.

    Args:
        part: The function or object that failed.
        what: What is said of it.
    """
    owner = getattr(part, "__self__", part)
    try:
        before = _failures.get(owner, 0)
        _failures[owner] = before + 1
    except TypeError:  # nothing that can be kept in mind: said each time
        before = 0
    level = logging.DEBUG if before else logging.ERROR
    logger.log(level, what, exc_info=True)


def failures(part: Any) -> int:
    """How often a part of the user's has failed in this process."""
    return _failures.get(getattr(part, "__self__", part), 0)


logger.addFilter(Redacting())

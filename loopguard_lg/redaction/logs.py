"""The package's logger: what it says has no secrets, tracebacks included."""

from __future__ import annotations

import logging

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
        message = redaction.masked(record.getMessage())
        record.msg, record.args = printable(message, keep="\n\t"), ()
        if record.exc_info:
            trace = redaction.masked(_FORMAT.formatException(record.exc_info))
            record.exc_text = printable(trace, keep="\n\t")
        return True


logger.addFilter(Redacting())

"""What must not be kept: secrets are masked before a text is stored, logged or shown.

There is one mechanism, for the scratchpad, recordings, cassettes, reports, hand-overs
and the log. It works on what goes out: detectors and digests see the texts as they
were, so no verdict depends on it.

    redaction.use(Redaction(emails=True, hook=lambda text: text.replace("ACME", "***")))
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from loopguard_lg.errors import PolicyError
from loopguard_lg.quoting import spelled
from loopguard_lg.redaction.rules import (
    MASK,
    is_secret,
    masked as _ruled,
    without_emails,
)

__all__ = ["MASK", "Redaction", "data", "is_secret", "masked", "redacted", "use"]

Clean: TypeAlias = Callable[[str], str]
"""Masks what is secret in one text."""

_DEPTH = 60
"""Nesting below which a value is written as text; also ends cycles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """What is masked beside the secrets that the rules know.

    Attributes:
        emails: E-mail addresses, too.
        hook: Gets every text after the rules and returns the one that may go out.
            Where it fails, the whole text is masked.
        plugins: In what is written to files, what `detect-secrets` finds, where that
            is installed (extra `secrets`). Texts for a model are the same with it and
            without it.

    Raises:
        PolicyError: `hook` can't be called.
    """

    emails: bool = False
    hook: Clean | None = None
    plugins: bool = True

    def __post_init__(self) -> None:
        if self.hook is not None and not callable(self.hook):
            raise PolicyError(f"hook={self.hook!r}: give a callable, or None")


_HARMLESS = (type(None), bool, int, float)

_used = Redaction()
_failing: Clean | None = None


def use(redaction: Redaction) -> Redaction:
    """Redact like this in the whole process from now on; what held before is returned.

    It belongs at the start of a program: texts that were kept before stay as they are.
    """
    global _used
    before, _used = _used, redaction
    return before


def masked(text: str) -> str:
    """`text` with every known secret as `***`; without one it is returned as is."""
    text = _ruled(text)
    if _used.emails:
        text = without_emails(text)
    return text if _used.hook is None else _hooked(_used.hook, text)


def _hooked(hook: Clean, text: str) -> str:
    try:
        return str(hook(text))
    except Exception as error:  # a text that nobody could look at does not go out
        _warn(hook, type(error).__name__)  # its message may quote the text
        return MASK


def _warn(hook: Clean, what: str) -> None:
    """Say once that a hook fails, by a logger that does not ask the hook."""
    global _failing
    if _failing is not hook:
        _failing = hook
        log = logging.getLogger("loopguard_lg.redaction")
        log.warning("a redaction hook failed, so texts are masked: %s", what)


def redacted(text: str) -> str:
    """The same for a text that goes into a file: also what installed detectors find."""
    text = masked(text)
    if not _used.plugins:
        return text
    from loopguard_lg.redaction.plugins import found

    for secret in found(text):
        text = text.replace(secret, MASK)
    return text


def data(value: Any, clean: Clean = redacted) -> Any:
    """A value as JSON has it with the secrets in all its texts masked, keys included.

    What stands under the name of a secret is masked whatever it looks like. A value
    without secrets comes back equal.
    """
    return _data(value, clean, _DEPTH)


def _data(value: Any, clean: Clean, depth: int) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, _HARMLESS):
        return value
    if depth and isinstance(value, Mapping | list | tuple):
        return _inside(value, clean, depth - 1)
    text = spelled(value)
    safe = clean(text)
    return value if depth and safe == text else safe


def _inside(value: Any, clean: Clean, depth: int) -> Any:
    if isinstance(value, Mapping):
        return dict(_pair(*item, clean, depth) for item in value.items())
    return [_data(item, clean, depth) for item in value]


def _pair(name: Any, value: Any, clean: Clean, depth: int) -> tuple[Any, Any]:
    safe = MASK if _opens(name, value) else _data(value, clean, depth)
    return _data(name, clean, 0), safe


def _opens(name: Any, value: Any) -> bool:
    """Whether the value of an argument is secret by the name of it."""
    empty = value is None or value == "" or isinstance(value, bool)
    return not empty and is_secret(str(name))

"""What the detectors of `detect-secrets` find in a text, where it is installed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from loopguard_lg.redaction.rules import has_run, signs

_LEFT_OUT = frozenset(
    {
        "IPPublicDetector",  # an address is no secret
        "PrivateKeyDetector",  # finds the headline; our rules take all of the key
        "ArtifactoryDetector",  # takes words in capitals for keys
        "NpmDetector",  # quadratic, and named tokens are masked by our rules
        "IbmCosHmacDetector",  # slow, likewise
    }
)

_LINE = 1_000
"""Characters that a detector is given at once: its time is not ours to bound."""

_SIGNS = signs(b"_-/+=")


def found(text: str) -> set[str]:
    """The secrets in `text`: those with a look of their own, not guesses by entropy."""
    detectors = _detectors()
    return {
        secret
        for part in _parts(text)
        for detector in detectors
        for secret in detector.analyze_string(part)
        if len(secret) > 3
    }


def _parts(text: str) -> Iterator[str]:
    """The lines that may hold one, and long ones in pieces that overlap."""
    for line in text.splitlines():
        if not has_run(line, _SIGNS) and "://" not in line:
            continue
        for at in range(0, len(line), _LINE * 3 // 4):
            yield line[at : at + _LINE]


@cache
def _detectors() -> tuple[Any, ...]:
    try:
        from detect_secrets.core.plugins.util import (
            get_mapping_from_secret_type_to_class,
        )
        from detect_secrets.plugins.base import RegexBasedDetector
    except ModuleNotFoundError:
        return ()
    known: Iterable[type[Any]] = get_mapping_from_secret_type_to_class().values()
    return tuple(
        kind()
        for kind in known
        if issubclass(kind, RegexBasedDetector) and kind.__name__ not in _LEFT_OUT
    )

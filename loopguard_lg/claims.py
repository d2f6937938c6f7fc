"""What an agent claims of its checks, and whether a check that was seen shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from loopguard_lg.history import History, Mark
from loopguard_lg.steps import clip

_MOST = 3
"""Claims of one text that are told."""

_SENTENCE = re.compile(r"[^.!?\n]+")
_CLAIM = re.compile(
    r"\b(?:tests?|specs?|checks?|builds?|test suite|suite|lint\w*|type.?check\w*|pytest"
    r"|ruff|mypy|ci)\b.{0,40}?\b(?:pass(?:es|ed|ing)?|green|succeed\w*|successful\w*|clean)\b"
    r"|\b(?:passes|passing|green)\b.{0,30}\b(?:tests?|checks?|suite)\b|\b\d+ passed\b",
    re.IGNORECASE,
)
_HEDGED = re.compile(
    r"\b(?:should|would|could|might|may|will|must|if|once|until|unless|when|whether"
    r"|so that|to make|make sure|not|never|no|cannot|fail\w*|unproven)\b|n't\b",
    re.IGNORECASE,
)


def unproven(history: Mapping[str, Any], text: str) -> list[str]:
    """The claims in a text that checks pass, where the newest check shows nothing.

    It failed, or its exit status went into a pipe, so that nobody knows.

    Args:
        history: The plain history in the guard's memory.
        text: What the agent said.
    """
    if _newest_check(history) & Mark.PASSED:
        return []
    sentences = (found.group().strip() for found in _SENTENCE.finditer(clip(text)))
    claims = (s for s in sentences if _CLAIM.search(s) and not _HEDGED.search(s))
    return [claim[:200] for claim in claims][:_MOST]


def _newest_check(history: Mapping[str, Any]) -> int:
    """The marks of the newest check; of a pass where none is known: then the claim may
    rest on one that is forgotten, or on what somebody else has seen.
    """
    try:
        marks = History.load(history).rows.marks
    except (KeyError, TypeError, ValueError):  # stored by who knows whom
        return Mark.PASSED
    checks = (m for m in reversed(marks) if m & (Mark.CHECK | Mark.RED | Mark.PASSED))
    return next(checks, Mark.PASSED)

"""Formats of recordings, one file each; `FORMATS` is the registry.

A format is told by content: the first one that matches a record has it. What none
matches is read as our own.
"""

from __future__ import annotations

from typing import Any

from loopguard_lg.traces.formats import (
    anthropic,
    claude_code,
    langchain,
    langsmith,
    mini_swe_agent,
    openai,
    openhands,
    otlp,
    steplog,
    swe_agent,
)
from loopguard_lg.traces.formats.base import BAD, Format, mapping

OWN = Format("a run", lambda r: "steps" in mapping(r), lambda found, _: found[0])

FORMATS = (
    OWN,
    steplog.FORMAT,
    otlp.FORMAT,
    langsmith.FORMAT,
    claude_code.FORMAT,
    mini_swe_agent.FORMAT,
    swe_agent.FORMAT,
    openhands.RUN,
    openhands.EVENTS,
    langchain.RUN,
    anthropic.RUN,
    openai.RUN,
    anthropic.LINES,
)
"""The particular ones first, as a message may look like a chat's."""


def format_of(record: Any) -> Format | None:
    """The format of a JSON value; `None`: none knows it."""
    for known in FORMATS:
        try:
            if known.matches(record):
                return known
        except BAD:
            continue
    return None

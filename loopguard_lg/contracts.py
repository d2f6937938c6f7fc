"""What one agent hands to another: the subtask, its owner, and when it is done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

_SAME = 0.8
"""Share of common words from which two wordings are one subtask: a wrong guess costs
the agent one sentence, so what is reworded is let through rather than held.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A subtask that is handed over.

    Attributes:
        what: What is to be done.
        owner: Who has to do it.
        done_when: By what one sees that it is done.
        by: Who hands it over.
        answer: What the owner has said of it since; empty while it is open.
    """

    what: str
    owner: str
    done_when: str = ""
    by: str = ""
    answer: str = ""


Case: TypeAlias = Literal["answered", "owned"]
"""Why a subtask is not handed over: its answer is there, or another agent has it."""


def settled(new: Contract, earlier: Sequence[Contract]) -> tuple[Case, Contract] | None:
    """Why a subtask is not to be handed over, and the contract that says so.

    The newest contract about the subtask counts. Who got it from `new.owner` may return
    it there; whoever has it may not pass it on without a word.

    Args:
        new: What is to be handed over.
        earlier: What was handed over in this run, in order.
    """
    for old in reversed(earlier):
        if not is_same(old.what, new.what):
            continue
        if old.answer:
            return "answered", old
        returns = old.owner == new.by and old.by == new.owner
        return None if returns or old.owner == new.owner else ("owned", old)
    return None


def is_same(one: str, other: str) -> bool:
    """Whether two wordings ask for the same."""
    a, b = _words(one), _words(other)
    return bool(a | b) and len(a & b) >= _SAME * len(a | b)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))

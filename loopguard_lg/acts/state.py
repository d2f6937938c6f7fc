"""What the acts remember, as plain data of at most 1.2 KB:

{"cache": [digest, message id, digest of the result, ...],
 "done": [digest, place, ...], "lost": [digest, ...],
 "polls": [digest, times, seconds, ...]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loopguard_lg.acts import cache, polling, receipts
from loopguard_lg.acts.calls import Made


def after(
    acts: Mapping[str, Any] | None,
    batch: Sequence[Made],
    *,
    new_word: bool = False,
    answered: bool = False,
    lost: Sequence[int] | None = None,
) -> dict[str, Any]:
    """What is remembered after the calls of one reply.

    Args:
        acts: What was remembered before.
        batch: The calls with their results.
        new_word: A person said something new after them.
        answered: A person answered a question.
        lost: The calls that are made at most once of a reply that was removed before
            anyone saw how they ended; `None` where there is none.
    """
    before = acts or {}
    if new_word:
        return {}
    anew = answered or lost is not None  # nobody knows what has changed
    found = {
        "cache": [] if anew else cache.after(before.get("cache", []), batch),
        "done": receipts.after(before.get("done", []), batch),
        "lost": receipts.with_lost(before.get("lost", []), lost or ()),
        "polls": [] if anew else polling.after(before.get("polls", []), batch),
    }
    return {name: entries for name, entries in found.items() if entries}

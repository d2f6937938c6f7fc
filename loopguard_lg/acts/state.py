"""What the acts remember, as plain data of less than 1 KB:

{"cache": [digest, message id, ...], "done": [digest, place, ...]}
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
) -> dict[str, Any]:
    """What is remembered after the calls of one reply.

    Args:
        acts: What was remembered before.
        batch: The calls with their results.
        new_word: A person said something new after them.
        answered: A person answered a question.
    """
    before = acts or {}
    if new_word:
        return {}
    found = {
        "cache": [] if answered else cache.after(before.get("cache", []), batch),
        "done": receipts.after(before.get("done", []), batch),
        "polls": [] if answered else polling.after(before.get("polls", []), batch),
    }
    return {name: entries for name, entries in found.items() if entries}

"""What the engine remembers: bounded, versioned, plain data.

Memory lives in a channel of the graph's state. It holds digests, counters and the
capped scratchpad, never whole texts, and is as large after 100,000 steps as after
200:

    {"version": 1, "rev": writes so far, "history": {...}, "ladder": {...},
     "used": {"run": {...}, "thread": {...}}, "pad": {...}, "warned": [...],
     "faults": {detector: times}, "host": what the adapter keeps for itself}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, TypeAlias

from loopguard_lg import budgets, scratchpad

Memory: TypeAlias = dict[str, Any]

VERSION = 1


def fresh() -> Memory:
    """The memory of a thread that has not run yet."""
    return {
        "version": VERSION,
        "rev": 0,
        "history": {},
        "ladder": {},
        "used": {"run": {}, "thread": {}},
        "pad": {},
        "warned": [],
        "faults": {},
        "host": {},
    }


def load(data: Any) -> Memory:
    """The memory behind stored data, whoever wrote it; never raises.

    Data of another version, or broken data, keeps what can be trusted (counts, so
    that budgets still hold, and the scratchpad) and starts afresh with the rest.
    """
    if not data or not isinstance(data, (dict, Mapping)):
        return fresh()
    if data.get("version") == VERSION and _fits(data):
        return dict(data)
    return afresh(data)


def _fits(data: Mapping[str, Any]) -> bool:
    try:
        if [*map(type, _PARTS(data))] != _TYPES:
            return False
        return [*map(type, _USED(data["used"]))] == [dict, dict]
    except KeyError:
        return False


def afresh(data: Mapping[str, Any]) -> Memory:
    """A new memory with what can be trusted of an older one: counts and scratchpad."""
    kept = fresh()
    if isinstance(data.get("rev"), int):
        kept["rev"] = data["rev"]
    used = data.get("used")
    for scope in _SCOPES:
        amounts = used.get(scope) if isinstance(used, Mapping) else None
        kept["used"][scope] = _numbers(amounts)
    kept["pad"] = scratchpad.load(data.get("pad"))
    return kept


_PARTS = itemgetter(*fresh())
_TYPES = [*map(type, fresh().values())]
_SCOPES = ("run", "thread")
_USED = itemgetter(*_SCOPES)


def _numbers(used: Any) -> dict[str, float]:
    """What counts as usage: amounts that a budget can be held against."""
    if not isinstance(used, Mapping):
        return {}
    return {
        str(name): amount
        for name, amount in used.items()
        if isinstance(amount, int | float) and 0 <= amount < math.inf
    }


def fold(left: Any, right: Any) -> Memory:
    """The reducer of the guard's channel: the value after a write.

    A write is `{"base": rev it was made from, "set": memory, "spend": used}`. Where
    another writer of the same step was first, its memory stays and the counts and the
    scratchpad of this one are added, so that no count is lost. Anything else than a
    write replaces the value; nothing raises.
    """
    if not isinstance(right, Mapping) or "set" not in right:
        return load(right)
    current, new = load(left), load(right["set"])
    rev = current["rev"] + 1
    if right.get("base") == current["rev"]:
        return {**new, "rev": rev}
    spend = _numbers(right.get("spend"))
    used = {s: budgets.add(_numbers(current["used"][s]), spend) for s in _SCOPES}
    pad = scratchpad.merge(scratchpad.load(current["pad"]), scratchpad.load(new["pad"]))
    return {**current, "rev": rev, "used": used, "pad": pad}


def write(before: Memory, after: Memory) -> Memory:
    """The write for `fold` that takes the channel from `before` to `after`."""
    old, new = before["used"]["thread"], after["used"]["thread"]
    spend = {name: amount - old.get(name, 0) for name, amount in new.items()}
    return {
        "base": before["rev"],
        "set": after,
        "spend": {name: amount for name, amount in spend.items() if amount},
    }

"""Polls that are slowed instead of flagged: the same one is made after a pause.

A poll is a call whose role says so: from the policy, the tool's metadata or its name.
How often the same one was made is remembered until something else was done, time was
waited, or a person spoke.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tenacity import stop_never, wait_exponential

from loopguard_lg.acts.calls import Made, newest
from loopguard_lg.acts.strategies import asked, state, stopping, waiting

ENTRIES = 4
"""Polls that are remembered, the newest."""

GENTLE = wait_exponential(max=10)
"""Pauses of polls that nobody has declared: 1, 2, 4, 8, 10, 10, ... seconds."""

Polls: TypeAlias = list[float]
"""Digest, times made, and seconds waited, in turn; oldest first."""

Entries: TypeAlias = dict[float, tuple[float, float]]


def after(polls: Polls, batch: Sequence[Made]) -> Polls:
    """The polls after the calls of one reply."""
    ran = [one for one in batch if one.executed]
    if any(one.touches or one.role == "wait" for one in ran):
        return []
    entries = _entries(polls)
    for one in ran:
        if one.role == "poll":
            times, waited = entries.pop(one.digest, (0, 0))
            entries[one.digest] = (times + 1, round(waited + one.waited, 3))
    return newest(entries, ENTRIES)


def _entries(polls: Polls) -> Entries:
    triples = zip(polls[::3], polls[1::3], polls[2::3], strict=True)
    return {digest: (times, waited) for digest, times, waited in triples}


def times(polls: Polls, call: Made) -> int:
    """How often the same poll was made; 0 for the first one, and for other calls."""
    if call.role != "poll":
        return 0
    return int(_entries(polls).get(call.digest, (0, 0))[0])


def pause(polls: Polls, call: Made) -> float:
    """Seconds that have to pass between the newest poll and this one."""
    made, waited = _entries(polls).get(call.digest, (0, 0))
    if call.role != "poll" or not made or not call.policy.slow:
        return 0.0
    wait = waiting(call.policy.wait, GENTLE)
    now = state(int(made), waited, idle=waited)
    return max(0.0, float(asked(wait, now, 0.0)))


def is_over(polls: Polls, call: Made) -> bool:
    """Whether its policy says that there were enough polls."""
    made, waited = _entries(polls).get(call.digest, (0, 0))
    if call.role != "poll" or not made or not call.policy.slow:
        return False
    stop = stopping(call.policy.stop, stop_never)
    return bool(asked(stop, state(int(made), waited, idle=waited), False))

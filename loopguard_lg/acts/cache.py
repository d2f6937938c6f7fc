"""The result cache of read-only calls: where in the messages each result is.

Nothing is stored twice: an entry is 32 bits of a call and the id of the message with
its result. A call that may change anything drops all entries, as does a person's word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from loopguard_lg.acts.calls import Made

ENTRIES = 8
"""Results that are remembered, the newest."""

Cache: TypeAlias = list[Any]
"""Digest and message id in turn, oldest first."""


def after(cache: Cache, batch: Sequence[Made]) -> Cache:
    """The cache after the calls of one reply, which ran side by side."""
    ran = [one for one in batch if one.executed]
    if any(one.touches for one in ran):
        return []
    entries = dict(zip(cache[::2], cache[1::2], strict=True))
    for one in ran:
        if one.policy.cache and one.role == "read" and one.message and _lasts(one):
            entries.pop(one.digest, None)
            entries[one.digest] = one.message
    return [part for entry in [*entries.items()][-ENTRIES:] for part in entry]


def _lasts(one: Made) -> bool:
    """Will the result be the same as long as nothing changes."""
    return one.worked and not one.pending


def find(cache: Cache, call: Made, ahead: Iterable[Made]) -> str | None:
    """The id of the message that answers a call; `ahead`: the calls of its batch that
    stand before it, and may change what it reads.
    """
    usable = call.policy.cache and call.role == "read"
    if not usable or any(one.touches for one in ahead):
        return None
    entries = dict(zip(cache[::2], cache[1::2], strict=True))
    found: str | None = entries.get(call.digest)
    return found

"""The result cache of read-only calls: where in the messages each result is.

Nothing is stored twice: an entry is 32 bits of a call, the id of the message with its
result, and 32 bits of that, as another middleware may put something else in its place.
A call that may change anything drops all entries, as does a poll that has come to its
end, and a person's word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from loopguard_lg.acts.calls import Made, newest

ENTRIES = 8
"""Results that are remembered, the newest."""

Cache: TypeAlias = list[Any]
"""Digest, message id and digest of the result in turn, oldest first."""

Entries: TypeAlias = dict[int, tuple[str, int]]


def after(cache: Cache, batch: Sequence[Made]) -> Cache:
    """The cache after the calls of one reply, which ran side by side."""
    ran = [one for one in batch if one.executed]
    if any(one.touches or _is_over(one) for one in ran):
        return []
    entries = _entries(cache)
    for one in filter(_is_cached, ran):
        if one.message and _lasts(one):
            entries.pop(one.digest, None)
            entries[one.digest] = (one.message, one.content)
    return newest(entries, ENTRIES)


def _is_cached(one: Made) -> bool:
    """Is it a call whose result may be given again."""
    return one.policy.cache and one.role == "read"


def _entries(cache: Cache) -> Entries:
    thirds = zip(cache[::3], cache[1::3], cache[2::3], strict=False)
    return {digest: (message, content) for digest, message, content in thirds}


def _is_over(one: Made) -> bool:
    """Does a poll say that what it waited for has happened, and changed things."""
    return one.role == "poll" and _lasts(one)


def _lasts(one: Made) -> bool:
    """Will the result be the same as long as nothing changes."""
    return one.worked and not one.pending


def find(cache: Cache, call: Made, ahead: Iterable[Made]) -> tuple[str, int] | None:
    """The id of the message that answers a call, and the digest of its text.

    Args:
        cache: What is remembered.
        call: The call.
        ahead: The calls of its batch that stand before it, and may change what it
            reads.
    """
    if not _is_cached(call) or any(one.touches for one in ahead):
        return None
    return _entries(cache).get(call.digest)

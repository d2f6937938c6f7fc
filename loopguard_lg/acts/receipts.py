"""At most once: a write that has worked is not done again, its receipt is given.

A receipt is 32 bits of a call, and 32 of the file that it is about. It holds across
retries, parallel calls, resumes and rollbacks until a person says something new, or
until another call writes to the same file: then the same write is another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from loopguard_lg.acts.calls import Made, newest
from loopguard_lg.digests import args_hash

ENTRIES = 48
"""Receipts that are kept, the newest."""

LOST = 16
"""Calls that are kept whose messages were removed before anyone saw how they ended."""

Receipts: TypeAlias = list[int]
"""Digest and place in turn, oldest first."""


def after(receipts: Receipts, batch: Sequence[Made]) -> Receipts:
    """The receipts after the calls of one reply, which ran side by side."""
    entries = dict(zip(receipts[::2], receipts[1::2], strict=True))
    for one in (one for one in batch if one.done):
        if one.place and one.role in ("write", "other"):
            entries = {d: p for d, p in entries.items() if _stands(d, p, one)}
        if one.policy.once:
            entries[one.digest] = one.place
    return newest({digest: (place,) for digest, place in entries.items()}, ENTRIES)


def _stands(digest: int, place: int, write: Made) -> bool:
    """Whether what a call wrote is still as it left it."""
    return place != write.place or digest == write.digest


def with_lost(lost: Sequence[int], more: Iterable[int]) -> list[int]:
    """The calls of which nobody knows how they ended, with some more."""
    return [*dict.fromkeys([*lost, *more])][-LOST:]


def is_done(receipts: Receipts, call: Made) -> bool:
    """Whether a call that may be made once was made."""
    return call.policy.once and call.digest in receipts[::2]


def is_lost(lost: Sequence[int], call: Made) -> bool:
    """Whether nobody knows how a call ended that may be made once."""
    return call.policy.once and call.digest in lost


def is_twin(call: Made, ahead: Iterable[Made]) -> bool:
    """Whether the same call stands before a call that may be made once."""
    return call.policy.once and any(one.digest == call.digest for one in ahead)


def key(thread: str, word: str, call: Made) -> str:
    """The idempotency key of a call: the same whenever it is tried again.

    Args:
        thread: The thread that it is made in.
        word: The human word that it is made for.
        call: The call; its own value for the key does not count.
    """
    return args_hash([thread, word, call.digest])

"""The windows that a history is made of: calls, events, and last known values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from zlib import crc32

from loopguard_lg.steps import Role

ROWS = 32
"""Calls that are remembered."""
TURNS = 32
"""Events that are remembered."""
BATCH = 8
"""Distinct calls of one turn that are remembered."""

CALLS, TEXT, HUMAN, COMPACTION, REPORT = range(5)
"""What an event was: a turn with calls, without, a person, compaction, progress."""


class Mark:
    """Bits in the column `marks`."""

    FAILED = 1
    CHANGED = 1 << 1
    BLOCKED = 1 << 2
    FORMAL = 1 << 3
    EMPTY = 1 << 4
    TRANSIENT = 1 << 5
    PENDING = 1 << 6
    WAITED = 1 << 7
    INVALID = 1 << 8
    TESTS = 1 << 9
    PASSED = 1 << 10
    RED = 1 << 11
    DRIFT = 1 << 12
    GESTURE = 1 << 13
    WEAKENS = 1 << 14
    CHECK = 1 << 15
    WRITE = 1 << 16
    PLAN = 1 << 17
    HANDOFF = 1 << 18
    POLL = 1 << 19
    READ = 1 << 20
    WAIT = 1 << 21
    AGAIN = 1 << 22


ROLE_MARKS = {
    "check": Mark.CHECK,
    "write": Mark.WRITE,
    "plan": Mark.PLAN,
    "handoff": Mark.HANDOFF,
    "poll": Mark.POLL,
    "wait": Mark.WAIT | Mark.WAITED,
    "read": Mark.READ,
}


class Seen(NamedTuple):
    """One call of the newest turn.

    Attributes:
        call: Its identity (`call_digest`).
        near: Its identity but for case, white space, times and random ids.
        result: Digest of its result.
        error: Digest of its error text, 0 where it did not fail.
        kin: The same without what the error quotes.
        place: Digest of the file it is about, 0 for none.
        state: Digest of that file or of the world after it, 0 where unknown.
        words: Sketch of its words.
        shape: Digest of the call without the values that it asks for; 0 where the
            result is more than a short answer.
        name: Digest of the tool's name.
        gain: What it added: `NOTHING`, `LITTLE` or `MUCH`.
        marks: Bits of `Mark`.
        tool: The tool's name.
        role: What it is for.
        path: The file it is about.
        changed: Did it change the outside world.
        ok: Did the check pass; `None` where it is none or nobody can tell.
        blocked: The guard answered in place of the tool.
        off: Kinds of detectors that do not look at it.
    """

    call: int
    near: int
    result: int
    error: int
    kin: int
    place: int
    state: int
    words: int
    shape: int
    name: int
    gain: int
    marks: int
    tool: str
    role: Role
    path: str
    changed: bool | None
    ok: bool | None
    blocked: bool
    off: tuple[str, ...]


def key_of(name: str) -> int:
    """32 bits of a name, 0 for none."""
    return crc32(name.encode("utf-8", "surrogatepass")) if name else 0


class Rows(NamedTuple):
    """One entry per call in each column, oldest first; after `i`, the index of the
    turn, they are the first fields of `Seen`, in its order.
    """

    i: list[int]
    call: list[int]
    near: list[int]
    result: list[int]
    error: list[int]
    kin: list[int]
    path: list[int]
    state: list[int]
    words: list[int]
    shape: list[int]
    tool: list[int]
    gain: list[int]
    marks: list[int]


class Turns(NamedTuple):
    """One entry per event in each column, oldest first.

    `what`: digest of the calls with their results, as a multiset. `agent`, `text`: who
    spoke, and the digest of what.
    """

    i: list[int]
    kind: list[int]
    what: list[int]
    agent: list[int]
    text: list[int]
    gain: list[int]


class Known(NamedTuple):
    """Last known values.

    Attributes:
        t: Seconds at the newest turn, 0 where unknown.
        gap: Seconds between the newest two turns.
        context: Input tokens of the newest model call.
        output: Bytes of all results since the newest compaction.
        added: How many of them the newest turn added.
        chant: How often the newest reply says one sentence.
        done: Items of the plan ticked off.
        checks: Pairs of a check's digest and the fewest failures it counted, flat.
        edits: The newest edits, flat (see `editlog`).
        lines: Tags of the lines that edits have put in place lately.
    """

    t: float = 0.0
    gap: float = 0.0
    context: int = 0
    output: int = 0
    added: int = 0
    chant: int = 0
    done: int = 0
    checks: list[int] = []
    edits: list[int] = []
    lines: list[int] = []


def empty_rows() -> Rows:
    """A window without calls."""
    return Rows(*([] for _ in Rows._fields))


def empty_turns() -> Turns:
    """A window without events."""
    return Turns(*([] for _ in Turns._fields))


def grow_turns(turns: Turns, entry: tuple[int, ...]) -> Turns:
    """One event more, the oldest forgotten."""
    return Turns._make(_grown(turns, 1 - TURNS, [entry]))


def grow_rows(rows: Rows, now: tuple[Seen, ...], i: int) -> Rows:
    """The calls of a turn more, the oldest forgotten."""
    kept = [(i, *seen[:_NUMBERS]) for seen in now[:BATCH]]
    return Rows._make(_grown(rows, len(kept) - ROWS, kept))


_NUMBERS = len(Rows._fields) - 1


def _grown(
    columns: Iterable[list[int]], old: int, rows: Iterable[tuple[Any, ...]]
) -> list[list[int]]:
    """Copies of the last `-old` entries of columns, with these rows below."""
    grown = [column[old:] for column in columns]
    for row in rows:
        for column, value in zip(grown, row, strict=True):
            column.append(value)
    return grown

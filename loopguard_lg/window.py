"""The windows that a history is made of: calls, events, and last known values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, NamedTuple, Self
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
    """Bits in the column `marks`, and those of events, which only `History.marks` has.

    Of an event: a reply without calls (`SAYS`) or with some (`CALLED`), of which none
    brought anything (`STALE`), one hands over (`HANDED`), one left a known state
    (`STATED`) or one edited a file at a known time (`EDITED`); a compaction (`CUT`).
    """

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
    MOVED = 1 << 23

    SAYS = 1 << 24
    CUT = 1 << 25
    CALLED = 1 << 26
    STALE = 1 << 27
    HANDED = 1 << 28
    STATED = 1 << 29
    EDITED = 1 << 30


ROLE_MARKS = {
    "check": Mark.CHECK,
    "write": Mark.WRITE,
    "plan": Mark.PLAN,
    "handoff": Mark.HANDOFF,
    "poll": Mark.POLL,
    "wait": Mark.WAIT | Mark.WAITED,
    "read": Mark.READ,
}


# This and what else is made at each step is not frozen: that would take five times as
# long to make, and a tuple three times as long to read.
@dataclass(slots=True)
class Seen:
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


class Column:
    """One number of each row: a list, made when it is first asked for."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.pick: Callable[[list[int]], int] = itemgetter(place)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, table: Table, owner: type | None = None) -> list[int]:
        column = [*map(self.pick, table.data)]
        table.__dict__[self.name] = column  # found before this from now on
        return column


class Table:
    """Rows of numbers, oldest first, read by column.

    An event adds a row, and few columns are looked at where nothing goes in circles.

    Args:
        data: The rows; not copied, and nobody may change them.
    """

    places: ClassVar[dict[str, int]]

    def __init_subclass__(cls) -> None:
        columns = {k: v for k, v in vars(cls).items() if isinstance(v, Column)}
        cls.places = {name: column.place for name, column in columns.items()}

    def __init__(self, data: list[list[int]]) -> None:
        self.data = data

    @classmethod
    def load(cls, data: list[list[int]]) -> Self:
        """A table that was stored.

        Raises:
            ValueError: The newest row has not one number for each column.
        """
        if data and len(data[-1]) != len(cls.places):
            raise ValueError(f"a row of {len(data[-1])} numbers")
        return cls(data)

    def newest(self, name: str, without: int = 0) -> int:
        """The newest entry of a column, without making the column."""
        return self.data[-1][self.places[name]] if self.data else without

    def grown(self, rows: list[list[int]], most: int) -> Self:
        """With these rows below; of all, the newest `most` are kept."""
        return type(self)([*self.data[len(rows) - most :], *rows])


class Rows(Table):
    """One row per call; after `i`, the index of the turn, the columns are the first
    fields of `Seen`, in its order.
    """

    i, call, near, result, error, kin, path = map(Column, range(7))
    state, words, shape, tool, gain, marks = map(Column, range(7, 13))


class Turns(Table):
    """One row per event.

    `what`: digest of the calls with their results, as a multiset. `agent`, `text`: who
    spoke, and the digest of what.
    """

    i, kind, what, agent, text, gain = map(Column, range(6))


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
        spots: Where failures were reported lately, flat (see `spots`).
        asked: 1 where the newest word of a person's asks for tests to be changed.
        suites: What test files hold, flat (see `suites`).
        ran: How many tests checks ran when they failed, flat, likewise.
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
    spots: list[int] = []
    asked: int = 0
    suites: list[int] = []
    ran: list[int] = []


def grow_turns(turns: Turns, row: list[int]) -> Turns:
    """One event more, the oldest forgotten."""
    return turns.grown([row], TURNS)


def grow_rows(rows: Rows, now: tuple[Seen, ...], i: int) -> Rows:
    """The calls of a turn more, the oldest forgotten."""
    kept: list[list[Any]] = [[i, *_NUMBERS(seen)] for seen in now[:BATCH]]
    return rows.grown(kept, ROWS)


_NUMBERS = attrgetter(*[f.name for f in fields(Seen)][: len(Rows.places) - 1])

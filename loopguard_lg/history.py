"""The bounded past of a run, as the detectors see it.

A window of compact rows (parallel columns of integers, one row per distinct call), one
of events, a sketch of the lines already seen, and a few last known values: about 4 KB
however long the run is, and nothing of it is text. `History.push` is pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loopguard_lg.digests import short, size
from loopguard_lg.editlog import Log
from loopguard_lg.progress import LITTLE, MUCH
from loopguard_lg.reading import read_turn
from loopguard_lg.steps import Compaction, Event, Human, Turn, clip
from loopguard_lg.testfiles import asks_for_tests
from loopguard_lg.tools import ToolPolicy
from loopguard_lg.weighing import Scale
from loopguard_lg.window import (
    CALLS,
    COMPACTION,
    HUMAN,
    REPORT,
    TEXT,
    Known,
    Mark,
    Rows,
    Seen,
    Turns,
    grow_rows,
    grow_turns,
    key_of,
)

__all__ = [
    "CALLS",
    "COMPACTION",
    "HUMAN",
    "REPORT",
    "TEXT",
    "History",
    "Known",
    "Mark",
    "Rows",
    "Seen",
    "Turns",
]


_NO_ROWS, _NO_TURNS = Rows([]), Turns([])


@dataclass(slots=True)
class History:
    """The past of a run.

    Attributes:
        i: Index of the newest event.
        rows: The newest calls.
        turns: The newest events.
        seen: The lines of results seen lately.
        known: Last known values.
        now: The calls of the newest turn; empty for other events.
        marks: The bits of `Mark` that any of them has, and those of the event.
        progress: The newest event moved the task.
        agent: Who acted last, by name.
        edited: Digest (see `editlog`) and path of each file edited by the newest turn.
    """

    i: int = -1
    rows: Rows = _NO_ROWS
    turns: Turns = _NO_TURNS
    seen: list[int] = field(default_factory=list)
    known: Known = field(default_factory=Known)
    now: tuple[Seen, ...] = ()
    marks: int = 0
    progress: bool = False
    agent: str = ""
    edited: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def load(cls, data: Mapping[str, Any] | None) -> History:
        """The history that `dump` made plain; an empty one for `None`."""
        if not data:
            return cls()
        rows, turns = Rows.load(data["rows"]), Turns.load(data["turns"])
        known = Known(*data["known"])
        return cls(data["i"], rows, turns, data["seen"], known, (), 0, data["progress"])

    def dump(self) -> dict[str, Any]:
        """Plain data, at most about 4.8 KB in msgpack. The lists are shared, not
        copied: nobody may change them.
        """
        return {
            "i": self.i,
            "rows": self.rows.data,
            "turns": self.turns.data,
            "seen": self.seen,
            "known": list(self.known),
            "progress": self.progress,
        }

    def push(
        self,
        event: Event,
        tools: Mapping[str, ToolPolicy] | None = None,
        tests: Sequence[str] = (),
    ) -> History:
        """The history after an event; `self` stays as it is.

        Args:
            event: What happened.
            tools: What the policy says of tools.
            tests: Globs of files that hold tests, beside those known by convention.
        """
        i = self.i + 1 if event.i is None else event.i
        if isinstance(event, Turn):
            return _push_turn(self, event, i, tools or {}, tests)
        kind, text = _other(event)
        row = [i, kind, 0, 0, _said(text), MUCH if kind != COMPACTION else LITTLE]
        return History(
            i=i,
            rows=self.rows,
            turns=grow_turns(self.turns, row),
            seen=self.seen,
            known=_told(self.known, event),
            marks=Mark.CUT if kind == COMPACTION else 0,
            progress=kind in (HUMAN, REPORT),
            agent=self.agent,
        )

    @property
    def kind(self) -> int:
        """What the newest event was; -1 before the first."""
        return self.turns.newest("kind", -1)

    def last(self, kind: int) -> int:
        """The index of the newest event of a kind, -1 if none is remembered."""
        kinds = self.turns.kind
        for k in range(len(kinds) - 1, -1, -1):
            if kinds[k] == kind:
                return self.turns.i[k]
        return -1

    def back(self, turns: int) -> int:
        """The index of the first of the newest `turns` turns with calls."""
        left = turns
        kinds = self.turns.kind
        for k in range(len(kinds) - 1, -1, -1):
            left -= kinds[k] == CALLS
            if not left:
                return self.turns.i[k]
        return -1

    def since(self, start: int) -> range:
        """The positions of the calls from the turn with index `start` on."""
        return range(bisect_left(self.rows.i, start), len(self.rows.i))

    def where(self, column: str, value: int, start: int) -> list[int]:
        """The positions of the calls from `start` on with this value in a column."""
        values = getattr(self.rows, column)
        return [k for k in self.since(start) if values[k] == value]

    def agents(self, turns: list[int]) -> set[int]:
        """Who acted in these turns."""
        known = dict(zip(self.turns.i, self.turns.agent, strict=True))
        return {known[i] for i in turns if i in known}

    def news(self, after: int, *, errors: bool = False) -> int:
        """How many turns after the one at index `after` brought something new.

        Args:
            after: An index.
            errors: Count those with an error never seen as well.
        """
        rows = self.rows
        return len(
            {
                rows.i[k]
                for k in self.since(after + 1)
                if rows.gain[k] == MUCH
                or errors
                and rows.gain[k] == LITTLE
                and rows.marks[k] & Mark.FAILED
            }
        )


def _told(known: Known, event: Event) -> Known:
    """The last known values after an event that is no turn."""
    if isinstance(event, Human):
        return known._replace(asked=int(asks_for_tests(event.text)))
    if not isinstance(event, Compaction):
        return known
    return known._replace(context=event.tokens or 0, output=0, added=0)


def _other(event: Event) -> tuple[int, str]:
    """Kind and text of an event that is no turn."""
    if isinstance(event, Human):
        return HUMAN, event.text
    return (COMPACTION if isinstance(event, Compaction) else REPORT), ""


def _said(text: str) -> int:
    """Digest of what was said, whatever its case and white space; 0 for nothing."""
    words = " ".join(clip(text).casefold().split())
    return short(words.encode("utf-8", "surrogatepass")) if words else 0


def _push_turn(
    past: History,
    turn: Turn,
    i: int,
    tools: Mapping[str, ToolPolicy],
    tests: Sequence[str],
) -> History:
    """The history after a model reply."""
    t = turn.t or past.known.t
    gap = t - past.known.t
    scale = Scale(past)
    now = read_turn(past, turn, gap, scale, tools, tests)
    agent = key_of(turn.agent) & 0xFFFF
    said = _said(turn.text)
    if now:
        gain, what, marks = _batch(now)
        if marks & Mark.HANDED and all(seen.role == "handoff" for seen in now):
            gain = max(gain, scale.report(turn.text))
        kind, rows = CALLS, grow_rows(past.rows, now, i)
        marks |= Mark.CALLED if gain else Mark.CALLED | Mark.STALE
    else:
        gain, what, marks = scale.talk(turn.text), said, Mark.SAYS
        kind, rows = TEXT, past.rows
    known = _note_turn(past.known, turn, t, gap, scale)
    edited: Mapping[int, str] = {}
    if scale.edits or turn.touched:
        log = Log(known.edits, known.lines)
        log.add(scale.edits, turn, i)
        known, edited = known._replace(edits=log.edits, lines=log.lines), log.now
        marks |= Mark.EDITED if edited else 0
    turns = grow_turns(past.turns, [i, kind, what, agent, said, gain])
    much, name = gain == MUCH, turn.agent
    return History(i, rows, turns, scale.seen, known, now, marks, much, name, edited)


def _batch(now: tuple[Seen, ...]) -> tuple[int, int, int]:
    """What calls have added at most, their digest as a multiset, and all their bits."""
    gain = what = marks = 0
    for seen in now:
        gain = max(gain, seen.gain)
        what += seen.call * 31 + seen.result
        marks |= seen.marks
        if seen.state:
            marks |= Mark.STATED
        if seen.role == "handoff":
            marks |= Mark.HANDED
    return gain, what & 0xFFFFFFFF, marks


def _note_turn(known: Known, turn: Turn, t: float, gap: float, scale: Scale) -> Known:
    """The last known values after a turn."""
    tokens = turn.tokens.input if turn.tokens else 0
    output = sum(map(size, turn.steps))
    return Known(
        t,
        gap,
        tokens or known.context,
        known.output + output,
        output,
        0 if turn.steps else _chant(turn.text),
        scale.done,
        scale.checks,
        known.edits,
        known.lines,
        scale.spots,
        known.asked,
        scale.suites.files,
        scale.suites.ran,
    )


def _chant(text: str) -> int:
    """How often a text says its most frequent line or sentence."""
    if len(text) < 200:
        return 0
    lines = [line.strip() for line in clip(text).replace(". ", "\n").split("\n")]
    told = [line for line in lines if len(line) > 12 and line.count("|") < 2]
    if len(told) < 6:
        return 0
    common = max(set(told), key=told.count)
    times = told.count(common)
    return times if times * 2 > len(told) else 0

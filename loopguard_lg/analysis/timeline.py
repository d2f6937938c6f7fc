"""One run as a timeline: what happened, call by call, and what the guard saw in it.

Pure data, for whatever draws it: `timeline_picture` lays it out for SVG and PNG,
`timeline_terminal` shows it in a terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from string import ascii_uppercase
from typing import Any, Literal, TypeAlias

import orjson

from loopguard_lg.analysis.replay import judged
from loopguard_lg.digests import call_digest
from loopguard_lg.engine import Verdict
from loopguard_lg.findings import Finding
from loopguard_lg.history import History
from loopguard_lg.policy import Policy
from loopguard_lg.redaction import masked
from loopguard_lg.steps import Compaction, Event, Human, Step, Turn
from loopguard_lg.traces.model import Trajectory

MOST = 200
"""Events that a timeline shows; of a longer run the middle is left out."""

_TAIL = 60
"""How many of them are the last ones."""

_ARGS, _RESULT = 160, 300
"""Characters of arguments and results that are shown of a call."""

Kind: TypeAlias = Literal["calls", "text", "user", "compaction", "progress", "gap"]
"""What an event was; `gap` stands for those that are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One call.

    Attributes:
        call: Its identity; equal for calls that do the same.
        tool: Its tool.
        args: Its arguments, as text.
        result: What came back, clipped.
        failed: It failed, as far as the recording says so.
        blocked: The guard answered instead.
        cached: It was answered from the guard's cache.
        letter: Its name in this run, where it was made more than once.
    """

    call: int
    tool: str
    args: str
    result: str
    failed: bool = False
    blocked: bool = False
    cached: bool = False
    letter: str = ""

    @property
    def label(self) -> str:
        """The call on one line."""
        return f"{self.tool}({self.args})"

    @property
    def marks(self) -> tuple[str, ...]:
        """What is special about it."""
        marks = {"failed": self.failed, "blocked": self.blocked, "cached": self.cached}
        return tuple(name for name, holds in marks.items() if holds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One event.

    Attributes:
        i: Where it stands in the recording.
        kind: What it was.
        agent: Who acted.
        text: What was said.
        cells: The calls, a parallel batch in order.
        moved: It moved the task.
        action: What the guard did, or would have: `reflect`, `escalate` or `exit`.
        why: What it did that for.
        tokens: Of the model call, where known.
        cost: US dollars, where known.
    """

    i: int
    kind: Kind
    agent: str = ""
    text: str = ""
    cells: tuple[Cell, ...] = ()
    moved: bool = False
    action: str = ""
    why: str = ""
    tokens: int = 0
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One loop that was seen: its columns, and what it is.

    `first` and `last` are positions in `Timeline.columns`.
    """

    first: int
    last: int
    kind: str
    count: int
    detail: str

    def within(self, start: int, end: int) -> bool:
        """Is a part of it among the columns from `start` to before `end`?"""
        return self.last >= start and self.first < end


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A run for a person to look at.

    Attributes:
        id: Its name.
        about: Where it is from, which model, what was asked; what is known of it.
        columns: What happened.
        loops: The loops seen in it, by their first column.
        repeated: The calls made more than once by letter, with how often.
        recorded: The guard's actions are those of the recording, not of the replay.
    """

    id: str
    about: tuple[str, ...]
    columns: tuple[Column, ...]
    loops: tuple[Loop, ...]
    repeated: Mapping[str, tuple[Cell, int]]
    recorded: bool

    @property
    def spent(self) -> str:
        """Tokens and cost of all of it, where they are known."""
        tokens = sum(column.tokens for column in self.columns)
        costs = [c.cost for c in self.columns if c.cost is not None]
        known = [f"{tokens:,} tokens"] if tokens else []
        return ", ".join([*known, *([f"${sum(costs):.4f}"] if costs else [])])

    @property
    def summary(self) -> str:
        """What there is to see, in a sentence or two."""
        calls = sum(len(column.cells) for column in self.columns)
        moved = sum(column.moved for column in self.columns)
        seen = "; ".join(f"{loop.kind}: {loop.detail}" for loop in self.loops[:3])
        return (
            f"{len(self.columns)} events with {calls} calls, of which {moved} events "
            f"moved the task. {seen or 'No loop was seen'}."
        )


def timeline(policy: Policy, run: Trajectory) -> Timeline:
    """What happened in a run, and what the guard makes of it under a policy."""
    noted = _noted(run)
    columns: list[Column] = []
    seen: list[tuple[int, Finding]] = []
    over = False  # the replayed guard has left; live, there would be no more
    for event, verdict, memory in judged(policy, run):
        at = len(columns)
        seen += [(at, finding) for finding in verdict.findings]
        moved = History.load(memory["history"]).progress
        column = replace(_column(policy, event, verdict.i), moved=moved)
        if not over:
            column = _acted(column, verdict, noted)
        over = over or (column.action == "exit" and not noted)
        columns.append(column)
    columns, places = _cut(columns)
    named, repeated = _named(columns)
    return Timeline(
        id=masked(run.id),
        about=tuple(clipped(t, 200) for t in (run.source, run.model, run.task) if t),
        columns=tuple(named),
        loops=tuple(_loops(seen, columns, places)),
        repeated=repeated,
        recorded=bool(noted),
    )


def clipped(text: str, most: int) -> str:
    """Text on one line, without secrets, of at most `most` characters; the last is `…`
    where something is cut.
    """
    # Not all of a huge text is looked at; the rest counts as something cut off.
    line = " ".join(masked(text[: most * 4]).split())
    whole = len(line) <= most and not text[most * 4 :].strip()
    return line if whole else line[: most - 1] + "…"


def told(column: Column, cell: Cell | None = None) -> str:
    """An event, or one call of it, in words."""
    who = f"step {column.i}, {column.agent or 'nobody'}"
    what = {"user": "the person speaks", "text": "says", "gap": "left out"}
    parts = [f"{who}: {what.get(column.kind, column.kind)}"]
    if cell is not None:
        letter = f"{cell.letter} = " if cell.letter else ""
        marks = f" [{', '.join(cell.marks)}]" if cell.marks else ""
        parts = [f"{who}: {letter}{cell.label}{marks}", f"gives: {cell.result}"]
    elif column.text:
        parts.append(column.text)
    if column.moved:
        parts.append("moves the task")
    if column.action:
        parts.append(f"{column.action}: {column.why}")
    return "\n".join(parts)


def _column(policy: Policy, event: Event, i: int) -> Column:
    if isinstance(event, Human):
        return Column(i=i, kind="user", agent="user", text=clipped(event.text, _RESULT))
    if isinstance(event, Compaction):
        return Column(i=i, kind="compaction", agent=event.agent)
    if not isinstance(event, Turn):
        return Column(i=i, kind="progress", text=clipped(event.note, _RESULT))
    return Column(
        i=i,
        kind="calls" if event.steps else "text",
        agent=event.agent,
        text=clipped(event.text, _RESULT),
        cells=tuple(_cell(policy, step) for step in event.steps),
        tokens=event.tokens.total if event.tokens else 0,
        cost=event.cost,
    )


def _cell(policy: Policy, step: Step) -> Cell:
    args = orjson.dumps(dict(step.args), default=str).decode()
    return Cell(
        call=call_digest(step.tool, step.args, policy.tools),
        tool=clipped(step.tool, 60),
        args=clipped(args, _ARGS),
        result=clipped(step.result, _RESULT) or "(nothing)",
        failed=bool(step.error),
        blocked=step.blocked,
        cached=step.cached,
    )


_ACTIONS = {
    "reflected": "reflect",
    "escalated": "escalate",
    "asked": "exit",
    "exited": "exit",
}


def _noted(run: Trajectory) -> dict[int, tuple[str, str]]:
    """What the guard did in a recorded run, by the step that it answered."""
    return {
        step["i"]: (_ACTIONS[step["name"]], clipped(str(step.get("text")), 200))
        for step in run.steps
        if step.get("event") == "intervention" and step.get("name") in _ACTIONS
    }


def _acted(
    column: Column, verdict: Verdict, noted: Mapping[int, tuple[str, str]]
) -> Column:
    if noted:
        action, why = noted.get(column.i, ("", ""))
        return replace(column, action=action, why=why)
    if verdict.action == "continue":
        return column
    detail = verdict.finding.detail if verdict.finding else ""
    why = str(verdict.exceeded) if verdict.exceeded else detail
    return replace(column, action=verdict.action, why=why)


def _cut(columns: list[Column]) -> tuple[list[Column], dict[int, int]]:
    """The columns that are shown, and where each stands now."""
    over = len(columns) - MOST
    if over <= 0:
        return columns, {at: at for at in range(len(columns))}
    head = MOST - _TAIL - 1
    gap = Column(i=columns[head].i, kind="gap", text=f"{over + 1} events")
    kept = [*range(head), *range(len(columns) - _TAIL, len(columns))]
    places = {at: at if at < head else at - over for at in kept}
    return [*columns[:head], gap, *columns[-_TAIL:]], places


def _named(
    columns: Sequence[Column],
) -> tuple[list[Column], dict[str, tuple[Cell, int]]]:
    """The columns with letters for the calls that were made again, and those calls."""
    cells = [cell for column in columns for cell in column.cells]
    times = Counter(cell.call for cell in cells)
    often = [call for call, n in times.most_common() if n > 1]
    letters = dict(zip(often, _letters(), strict=False))
    first = {cell.call: cell for cell in reversed(cells)}

    def lettered(cell: Cell) -> Cell:
        return replace(cell, letter=letters.get(cell.call, ""))

    named = [replace(c, cells=tuple(map(lettered, c.cells))) for c in columns]
    return named, {letters[c]: (first[c], times[c]) for c in often}


def _letters() -> Iterator[str]:
    """A, B, ... Z, A1, B1, ..."""
    more = (f"{letter}{n}" for n in count(1) for letter in ascii_uppercase)
    return chain(ascii_uppercase, more)


def _loops(
    seen: Iterable[tuple[int, Finding]],
    columns: Sequence[Column],
    places: Mapping[int, int],
) -> list[Loop]:
    """Each loop once, from its first step to where it was seen last."""
    at_step = {column.i: at for at, column in enumerate(columns)}
    found: dict[tuple[Any, ...], Loop] = {}
    for place, finding in seen:
        key = finding.kind, finding.key
        last = places.get(place)
        if last is None:
            continue
        first = at_step.get(finding.steps[0] if finding.steps else -1, last)
        old = found.get(key)
        found[key] = Loop(
            first=min(old.first, first) if old else first,
            last=last,
            kind=finding.kind,
            count=max(old.count, finding.count) if old else finding.count,
            detail=finding.detail,
        )
    return sorted(found.values(), key=lambda loop: (loop.first, loop.last))

"""The same call with the same result: `Repeat`, and nearly the same: `NearRepeat`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopguard_lg.detectors.base import (
    distinct,
    ending,
    fence,
    idle,
    last_change,
    name_of,
    require,
    watched,
)
from loopguard_lg.detectors.cycles import in_cycle
from loopguard_lg.findings import Finding
from loopguard_lg.history import COMPACTION, History, Mark, Seen

_SKIPPED = frozenset(("wait", "plan", "exit"))
_VOID = Mark.FORMAL | Mark.HANDOFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """The same tool with the same arguments and the same result.

    Attributes:
        times: So often makes a finding.
        window: Within so many turns with calls.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "repeat"
    times: int = 3
    window: int = 10
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, times=2, window=self.times)

    def observe(self, history: History) -> Finding | None:
        """The repetition to which the newest turn adds one more."""
        for seen in watched(history, self.kind):
            if history.rows.call.count(seen.call) >= self.times:
                found = self._judge(history, seen)
                if found:
                    return found
        return None

    def _judge(self, history: History, seen: Seen) -> Finding | None:
        """Is the repetition of this call a loop?"""
        if seen.role in _SKIPPED or seen.marks & _VOID == _VOID:
            return None
        turns = occurrences(history, seen, history.back(self.window))
        need = patience(seen, self.times)
        if len(turns) < need or idle(history, turns) or in_cycle(history):
            return None
        return Finding(
            kind=self.kind,
            steps=tuple(turns),
            count=len(turns),
            threshold=need,
            detail=f"{name_of(seen)} was called {len(turns)} times with the same "
            f"arguments and {ending(seen)}",
            key=seen.call,
            tool=seen.tool,
            holds=(seen.call,),
        )


def patience(seen: Seen, times: int) -> int:
    """How often a call may be made in vain: polls, outages and gestures oftener."""
    if seen.marks & Mark.TRANSIENT:
        return times + 2
    if seen.marks & Mark.GESTURE and seen.marks & Mark.FORMAL:
        return times * 2
    return times + (seen.role == "poll" or bool(seen.marks & Mark.PENDING))


def occurrences(history: History, seen: Seen, since: int) -> list[int]:
    """The turns in which the call brought this result, with no change between.

    Waited polls don't count; after a compaction one reading more is free.
    """
    rows = history.rows
    start = max(since, fence(history) + 1, last_change(history, seen))
    turns = []
    for k, call in enumerate(rows.call):
        if call != seen.call or rows.i[k] < start:
            continue
        marks = rows.marks[k]
        if marks & Mark.BLOCKED or rows.result[k] == seen.result:
            if not (marks & Mark.WAITED and seen.role in ("poll", "read")):
                turns.append(rows.i[k])
        else:
            turns.clear()
    turns = distinct(turns)
    compacted = history.last(COMPACTION)
    if turns and turns[0] < compacted < turns[-1]:
        turns = turns[1:]
    return turns


@dataclass(frozen=True, slots=True, kw_only=True)
class NearRepeat:
    """The same call but for case, white space, times and ids, with the same result; or
    reads that drift over lines already read.

    Attributes:
        times: So often makes a finding.
        window: Within so many turns with calls.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "near_repeat"
    times: int = 4
    window: int = 12
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, times=2, window=self.times)

    def observe(self, history: History) -> Finding | None:
        """The repetition to which the newest turn adds one more."""
        for seen in watched(history, self.kind):
            found = None
            if seen.role in _SKIPPED or seen.marks & _VOID == _VOID:
                continue
            if history.rows.near.count(seen.near) >= self.times:
                found = self._same(history, seen)
            elif seen.marks & Mark.DRIFT:
                found = self._drift(history, seen)
            if found:
                return found
        return None

    def _same(self, history: History, seen: Seen) -> Finding | None:
        """Nearly the same call with the same result."""
        rows = history.rows
        start = self._start(history, seen)
        turns = distinct(
            [
                rows.i[k]
                for k, near in enumerate(rows.near)
                if near == seen.near
                and rows.i[k] >= start
                and rows.result[k] == seen.result
                and not (rows.marks[k] & Mark.WAITED and seen.role == "poll")
            ]
        )
        detail = f"{name_of(seen)} was called {len(turns)} times with nearly the same "
        return self._found(
            history, seen, turns, f"{detail}arguments and {ending(seen)}"
        )

    def _drift(self, history: History, seen: Seen) -> Finding | None:
        """Ranges of one file that were read before."""
        rows = history.rows
        start = self._start(history, seen)
        path = seen.row(0)[6]
        turns = distinct(
            [
                rows.i[k]
                for k, mark in enumerate(rows.marks)
                if mark & Mark.DRIFT and rows.path[k] == path and rows.i[k] >= start
            ]
        )
        detail = f"{name_of(seen)} read lines of one file {len(turns)} times that had "
        return self._found(history, seen, turns, f"{detail}been read before")

    def _start(self, history: History, seen: Seen) -> int:
        """The index from which evidence counts."""
        return max(
            history.back(self.window), fence(history) + 1, last_change(history, seen)
        )

    def _found(
        self, history: History, seen: Seen, turns: list[int], detail: str
    ) -> Finding | None:
        """A finding, if that often is too often."""
        need = patience(seen, self.times)
        if len(turns) < need or idle(history, turns):
            return None
        return Finding(
            kind=self.kind,
            steps=tuple(turns),
            count=len(turns),
            threshold=need,
            detail=detail,
            key=seen.near,
            tool=seen.tool,
            holds=(seen.call,),
        )

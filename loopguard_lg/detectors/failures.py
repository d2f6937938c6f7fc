"""Failures that come again: `RecurringError`, `Invalid`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopguard_lg.detectors.base import (
    distinct,
    idle,
    last_change,
    name_of,
    require,
    watched,
)
from loopguard_lg.findings import Finding
from loopguard_lg.history import HUMAN, History, Mark, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurringError:
    """The same error from different calls.

    Attributes:
        times: So often makes a finding where the calls are alike; one more where they
            are not, or where only the kind of error is the same.
        window: Within so many turns with calls.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "recurring_error"
    times: int = 3
    window: int = 12
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, times=2, window=self.times)

    def observe(self, history: History) -> Finding | None:
        """The series of errors to which the newest turn adds one."""
        for seen in watched(history, self.kind):
            if seen.error and seen.ok is None and not seen.marks & Mark.INVALID:
                found = self._judge(history, seen)
                if found:
                    return found
        return None

    def _judge(self, history: History, seen: Seen) -> Finding | None:
        """Is this error one of a series?"""
        rows = history.rows
        if rows.kin.count(seen.kin) < self.times:
            return None
        start = history.back(self.window)
        if seen.role == "other":
            start = max(start, last_change(history, seen))
        turns: list[int] = []
        calls: list[int] = []
        same = 0
        for k, kin in enumerate(rows.kin):
            if rows.i[k] >= start and kin == seen.kin and rows.error[k]:
                turns.append(rows.i[k])
                calls.append(rows.near[k])
                same += rows.error[k] == seen.error
        turns = distinct(turns)
        need = self.times + (2 if seen.marks & Mark.TRANSIENT else 0)
        need += len(set(calls)) == len(calls)
        need += same < need
        need += bool(turns) and turns[0] < history.last(HUMAN)
        if len(turns) < need or idle(history, turns):
            return None
        return Finding(
            kind=self.kind,
            steps=tuple(turns),
            count=len(turns),
            threshold=need,
            detail=f"{name_of(seen)} failed {len(turns)} times with the same error, "
            "whatever its arguments",
            key=seen.kin,
            tool=seen.tool,
            holds=(seen.call,),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """Tools that don't exist, arguments that never validate, output that never parses.

    Attributes:
        times: So often makes a finding; a valid call of the same tool resets.
        window: Within so many turns with calls.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "invalid"
    times: int = 3
    window: int = 8
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, times=2, window=self.times)

    def observe(self, history: History) -> Finding | None:
        """The series of invalid calls to which the newest turn adds one."""
        bad = [s for s in watched(history, self.kind) if s.marks & Mark.INVALID]
        if not bad:
            return None
        seen = bad[-1]
        rows = history.rows
        start = max(history.back(self.window), history.last(HUMAN) + 1)
        tool = seen.row(0)[9]
        turns: list[int] = []
        for k, marks in enumerate(rows.marks):
            if rows.i[k] < start:
                continue
            if marks & Mark.INVALID:
                turns.append(rows.i[k])
            elif rows.tool[k] == tool:
                turns.clear()
        turns = distinct(turns)
        if len(turns) < self.times:
            return None
        return Finding(
            kind=self.kind,
            steps=tuple(turns),
            count=len(turns),
            threshold=self.times,
            detail=f"{len(turns)} calls in a row could not be carried out (no such "
            f"tool or wrong arguments), the last one {name_of(seen)}",
            key=tool,
            tool=seen.tool,
            holds=(seen.call,),
        )

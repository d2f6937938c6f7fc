"""Failures that come again: `RecurringError`, `Invalid`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopguard_lg.detectors.base import (
    edited_between,
    fence,
    idle,
    last_change,
    name_of,
    report,
    require,
    turns_of,
    watched,
    widen,
)
from loopguard_lg.findings import Finding
from loopguard_lg.history import History, Mark, Seen

_OTHERS = Mark.INVALID | Mark.TRANSIENT
"""Errors that are somebody else's: outages draw on the budgets of time and money."""

_INVALID = 4
"""Invented names come and go within one series of invalid calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurringError:
    """The same error from different calls.

    Attributes:
        times: So often makes a finding where one of the calls was made twice; once more
            where all differ, once more where only the kind of error is the same, and
            once more where a person spoke in between.
        window: Within so many turns with calls; left at its default it grows with
            `times`.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "recurring_error"
    hears: ClassVar[int] = Mark.FAILED
    times: int = 3
    window: int = 12
    shadow: bool = False

    def __post_init__(self) -> None:
        widen(self)
        require(self, times=2, window=self.times)

    def observe(self, history: History) -> Finding | None:
        """The series of errors to which the newest turn adds one."""
        for seen in watched(history, self.kind):
            if not seen.error or seen.ok is not None or seen.marks & _OTHERS:
                continue
            if history.rows.kin.count(seen.kin) >= self.times:
                found = self._judge(history, seen)
                if found:
                    return found
        return None

    def _judge(self, history: History, seen: Seen) -> Finding | None:
        """Is this error one of a series?"""
        rows = history.rows
        start = history.back(self.window)
        if seen.role in ("other", "write"):
            start = max(start, last_change(history, seen))
        found = [k for k in history.where("kin", seen.kin, start) if rows.error[k]]
        turns = turns_of(history, found)
        if idle(history, turns):
            return None
        return report(
            self,
            turns,
            self._need(history, seen, found),
            f"{name_of(seen)} failed {{n}} times with the same error, whatever its "
            "arguments",
            key=seen.kin,
            seen=seen,
            holds=(seen.call,),
            files=edited_between(history, found),
        )

    def _need(self, history: History, seen: Seen, found: list[int]) -> int:
        """How many errors are too many: the weaker the evidence, the more."""
        rows = history.rows
        need = self.times + (len({rows.near[k] for k in found}) == len(found))
        need += sum(rows.error[k] == seen.error for k in found) < need
        return need + (rows.i[found[0]] < fence(history))


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """Tools that don't exist, arguments that never validate, output that never parses.

    Attributes:
        times: So often makes a finding; a valid call of the same tool resets.
        window: Within so many turns with calls; left at its default it grows with
            `times`.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "invalid"
    hears: ClassVar[int] = Mark.INVALID
    times: int = 3
    window: int = 8
    shadow: bool = False

    def __post_init__(self) -> None:
        widen(self)
        require(self, times=2, window=self.times)

    def observe(self, history: History) -> Finding | None:
        """The series of invalid calls to which the newest turn adds one."""
        bad = [s for s in watched(history, self.kind) if s.marks & Mark.INVALID]
        return self._judge(history, bad[-1]) if bad else None

    def _judge(self, history: History, seen: Seen) -> Finding | None:
        """Is this one of a series?"""
        rows = history.rows
        start = max(history.back(self.window), fence(history) + 1)
        tool = rows.tool[-1]
        found: list[int] = []
        for k, marks in enumerate(rows.marks):
            if rows.i[k] >= start and marks & Mark.INVALID:
                found.append(k)
            elif rows.tool[k] == tool:
                found.clear()
        return report(
            self,
            turns_of(history, found),
            self.times,
            "{n} calls in a row could not be carried out (no such tool or wrong "
            f"arguments), the last one {name_of(seen)}",
            key=_INVALID,
            seen=seen,
            holds=(seen.call,),
        )

"""Sequences that come again: `Oscillation` of calls and states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopguard_lg.detectors.base import (
    fence,
    name_of,
    report,
    require,
    turns_of,
    watched,
)
from loopguard_lg.findings import Finding
from loopguard_lg.history import CALLS, History, Mark, Seen
from loopguard_lg.progress import MUCH

_PERIODS = range(2, 7)


def _sequence(history: History) -> tuple[list[int], list[int]]:
    """Indices and digests of the turns with calls since a person spoke."""
    turns = history.turns
    start = fence(history)
    picked = [
        k for k, kind in enumerate(turns.kind) if kind == CALLS and turns.i[k] > start
    ]
    return [turns.i[k] for k in picked], [turns.what[k] for k in picked]


def in_cycle(history: History) -> bool:
    """Do two or three turns alternate? Then the loop is more than a repeat of one call,
    and `Oscillation` names it when it has its laps.
    """
    what = _sequence(history)[1]
    return any(
        len(what) > period
        and what[-period:] == what[-2 * period : -period]
        and len(set(what[-period:])) > 1
        for period in (2, 3)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Oscillation:
    """Two to six turns in turn (A, B, A, B), or states that come back again and again.

    Attributes:
        laps: So many laps make a finding.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "oscillation"
    hears: ClassVar[int] = Mark.AGAIN | Mark.STATED
    laps: int = 3
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, laps=2)

    def observe(self, history: History) -> Finding | None:
        """The cycle to which the newest turn adds one more step."""
        calls = watched(history, self.kind)
        if not calls or len(calls) < len(history.now):
            return None
        if history.marks & Mark.AGAIN:
            what = history.turns.what
            found = self._calls(history) if what.count(what[-1]) >= self.laps else None
            if found:
                return found
        for seen in calls:
            if seen.state and history.rows.state.count(seen.state) >= self.laps:
                return self._states(history, seen)
        return None

    def _calls(self, history: History) -> Finding | None:
        """A cycle of calls with their results."""
        at, what = _sequence(history)
        for period in _PERIODS:
            span = period * self.laps
            lap = what[-period:]
            if len(set(lap)) > 1 and what[-span:] == lap * self.laps:
                if _excused(history, at[-span], at[-period]):
                    return None
                return self._cycle(history, at[-_length(what, period) :], period)
        return None

    def _cycle(self, history: History, at: list[int], period: int) -> Finding:
        """The finding of a cycle of calls that took the turns `at`."""
        rows = history.rows
        held = [rows.call[k] for k, i in enumerate(rows.i) if i >= at[-period]]
        seen = history.now[-1]
        return Finding(
            kind=self.kind,
            steps=(at[0], *at[period:]),
            count=len(at) // period,
            threshold=self.laps,
            detail=f"the same {period} steps came {len(at) // period} times in turn "
            f"with unchanged results, the last one {name_of(seen)}",
            key=min(held),
            tool=seen.tool,
            holds=tuple(dict.fromkeys(held)),
        )

    def _states(self, history: History, seen: Seen) -> Finding | None:
        """A state of one place that was reached, left and reached again."""
        rows = history.rows
        visits: list[int] = []
        left = True
        for k in history.where("path", seen.place, fence(history) + 1):
            if rows.state[k] == seen.state and left:
                visits.append(k)
            left = rows.state[k] not in (0, seen.state) or left and not rows.state[k]
        turns = turns_of(history, visits)
        if not turns or turns[-1] != history.i:
            return None
        return report(
            self,
            turns,
            self.laps,
            f"{name_of(seen)} brought a former state back {{n}} times",
            key=seen.state,
            seen=seen,
            holds=(seen.call,),
        )


def _length(what: list[int], period: int) -> int:
    """Over how many of the newest turns a cycle of this period goes."""
    span = period
    while span < len(what) and what[-span - 1] == what[period - span - 1]:
        span += 1
    return span


def _excused(history: History, first: int, last: int) -> bool:
    """Is a cycle polling with waits, or did its last lap bring news?"""
    rows = history.rows
    inside = [rows.marks[k] for k, i in enumerate(rows.i) if i >= first]
    looks = Mark.POLL | Mark.READ | Mark.PENDING
    if any(m & Mark.WAITED for m in inside) and any(m & looks for m in inside):
        return True
    return any(rows.gain[k] == MUCH for k, i in enumerate(rows.i) if i >= last)

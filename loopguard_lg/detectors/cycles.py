"""Sequences that come again: `Oscillation` of calls and states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopguard_lg.detectors.base import distinct, fence, name_of, require
from loopguard_lg.findings import Finding
from loopguard_lg.history import CALLS, History, Mark
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
    """Are the newest two laps of some cycle equal? Then the loop is more than a repeat
    of one call, and `Oscillation` names it when it has its laps.
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
    laps: int = 3
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, laps=2)

    def observe(self, history: History) -> Finding | None:
        """The cycle to which the newest turn adds one more step."""
        if not history.now or any(self.kind in seen.off for seen in history.now):
            return None
        return self._calls(history) or self._states(history)

    def _calls(self, history: History) -> Finding | None:
        """A cycle of calls with their results."""
        turns = history.turns
        if turns.what.count(turns.what[-1]) < self.laps:
            return None
        at, what = _sequence(history)
        for period in _PERIODS:
            span = period * self.laps
            lap = what[-period:]
            if len(what) < span or len(set(lap)) < 2 or what[-span:] != lap * self.laps:
                continue
            if _excused(history, at[-span], at[-period]):
                return None
            while what[-span - 1 : -span] == what[-span + period - 1 :][:1]:
                span += 1
            return self._found(history, at[-span:], period, span // period, tuple(lap))
        return None

    def _found(
        self,
        history: History,
        at: list[int],
        period: int,
        laps: int,
        lap: tuple[int, ...],
    ) -> Finding:
        """The finding of a cycle of calls."""
        rows = history.rows
        held = [rows.call[k] for k, i in enumerate(rows.i) if i >= at[-period]]
        seen = history.now[-1]
        return Finding(
            kind=self.kind,
            steps=tuple(at[:1] + at[period:]),
            count=laps,
            threshold=self.laps,
            detail=f"the same {period} steps came {laps} times in turn with unchanged "
            f"results, the last one {name_of(seen)}",
            key=min(lap),
            tool=seen.tool,
            holds=tuple(dict.fromkeys(held)),
        )

    def _states(self, history: History) -> Finding | None:
        """A state of one file that was reached, left and reached again."""
        rows = history.rows
        for seen in history.now:
            if not seen.state or rows.state.count(seen.state) < self.laps:
                continue
            path = seen.row(0)[6]
            start = fence(history)
            visits: list[int] = []
            left = True
            for k, state in enumerate(rows.state):
                if rows.i[k] <= start or not state or rows.path[k] != path:
                    continue
                if state == seen.state and left:
                    visits.append(rows.i[k])
                left = state != seen.state
            visits = distinct(visits)
            if len(visits) >= self.laps and visits[-1] == history.i:
                return Finding(
                    kind=self.kind,
                    steps=tuple(visits),
                    count=len(visits),
                    threshold=self.laps,
                    detail=f"{name_of(seen)} brought {seen.path[:80] or 'the state'} back "
                    f"to a former state {len(visits)} times",
                    key=seen.state,
                    tool=seen.tool,
                    holds=(seen.call,),
                )
        return None


def _excused(history: History, first: int, last: int) -> bool:
    """Is a cycle polling with waits, or did it bring news after its first lap?"""
    rows = history.rows
    inside = [k for k, i in enumerate(rows.i) if i >= first]
    waits = any(rows.marks[k] & Mark.WAITED for k in inside)
    polls = any(rows.marks[k] & (Mark.POLL | Mark.READ | Mark.PENDING) for k in inside)
    late = [k for k in inside if rows.i[k] >= last]
    return (waits and polls) or any(rows.gain[k] == MUCH for k in late)

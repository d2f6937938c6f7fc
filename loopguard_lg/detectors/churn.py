"""Busy without learning: `Churn`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopguard_lg.detectors.base import (
    distinct,
    fence,
    idle,
    last_change,
    name_of,
    require,
)
from loopguard_lg.detectors.cycles import in_cycle
from loopguard_lg.digests import likeness
from loopguard_lg.findings import Finding
from loopguard_lg.history import CALLS, History, Mark, Seen
from loopguard_lg.progress import MUCH, NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn:
    """Different calls, and nothing new learned from any of them.

    The results decide; likeness of the wording only supports.

    Attributes:
        steps: So many turns without anything new make a finding.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "churn"
    steps: int = 5
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, steps=2)

    def observe(self, history: History) -> Finding | None:
        """The stretch of stale turns to which the newest turn adds one."""
        if not history.now or any(self.kind in seen.off for seen in history.now):
            return None
        if history.turns.gain[-1] != NOTHING or in_cycle(history):
            return None
        return self._stale(history) or self._variants(history)

    def _stale(self, history: History) -> Finding | None:
        """Turns without anything new since the last news."""
        turns = history.turns
        start = fence(history)
        stale: list[int] = []
        for k in range(len(turns.i) - 1, -1, -1):
            if turns.i[k] <= start or turns.gain[k] == MUCH:
                break
            if turns.kind[k] == CALLS and turns.gain[k] == NOTHING:
                stale.insert(0, turns.i[k])
        if len(stale) < self.steps or _only_waiting(history, stale[0]):
            return None
        seen = history.now[-1]
        return self._found(
            stale,
            seen,
            f"{len(stale)} steps brought nothing that was not known before, the last "
            f"one {name_of(seen)}",
        )

    def _variants(self, history: History) -> Finding | None:
        """Variants of one call that all end in the same way."""
        seen = history.now[-1]
        rows = history.rows
        need = self.steps + 1 if seen.marks & Mark.EMPTY else self.steps - 1
        if rows.result.count(seen.result) < need or seen.marks & Mark.FORMAL:
            return None
        start = max(fence(history) + 1, last_change(history, seen))
        found = [
            k
            for k, result in enumerate(rows.result)
            if result == seen.result
            and rows.i[k] >= start
            and likeness(rows.words[k], seen.words) >= 0.6
            and not rows.marks[k] & Mark.WAITED
        ]
        alike = distinct([rows.i[k] for k in found])
        if len(alike) < need or idle(history, alike):
            return None
        return self._found(
            alike,
            seen,
            f"{name_of(seen)} was called {len(alike)} times in other words, each time "
            "with the same result",
        )

    def _found(self, steps: list[int], seen: Seen, detail: str) -> Finding:
        """The finding."""
        return Finding(
            kind=self.kind,
            steps=tuple(steps),
            count=len(steps),
            threshold=self.steps,
            detail=detail,
            key=seen.row(0)[9],
            tool=seen.tool,
            again=3,
        )


def _only_waiting(history: History, since: int) -> bool:
    """Is the stretch one of polls with waits between?"""
    rows = history.rows
    marks = [rows.marks[k] for k, i in enumerate(rows.i) if i >= since]
    return any(mark & Mark.WAITED for mark in marks)

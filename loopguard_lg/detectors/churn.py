"""Busy without learning: `Churn`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopguard_lg.detectors.base import (
    fence,
    idle,
    last_change,
    name_of,
    report,
    require,
    tries,
    turns_of,
    watched,
)
from loopguard_lg.detectors.cycles import in_cycle
from loopguard_lg.findings import Finding
from loopguard_lg.history import CALLS, History, Mark, Seen
from loopguard_lg.progress import MUCH, NOTHING
from loopguard_lg.sketches import likeness

_KEY = 3
"""Tools come and go within one stretch of churn."""
_LIKE = 0.6
"""Shared words from which on two calls count as variants of each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn:
    """Different calls, and nothing new learned from any of them.

    The results decide; likeness of the wording only supports.

    Attributes:
        steps: So many turns without anything new make a finding. Of variants of one
            call with one result it takes one less, if that is empty one more.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "churn"
    hears: ClassVar[int] = Mark.STALE
    steps: int = 5
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, steps=3)

    def observe(self, history: History) -> Finding | None:
        """The stretch of stale turns to which the newest turn adds one."""
        if not history.now or history.turns.newest("gain") != NOTHING:
            return None
        calls = watched(history, self.kind)
        if len(calls) < len(history.now) or in_cycle(history):
            return None
        return self._stale(history, calls[-1]) or self._variants(history, calls[-1])

    def _stale(self, history: History, seen: Seen) -> Finding | None:
        """Turns without anything new since the last news, or the last new change."""
        turns, rows = history.turns, history.rows
        changes = (
            rows.i[k]
            for k in history.since(0)
            if rows.marks[k] & Mark.CHANGED and rows.gain[k] != NOTHING
        )
        start = max(fence(history), *changes, -1)
        stale: list[int] = []
        for k in range(len(turns.i) - 1, -1, -1):
            if turns.i[k] <= start or turns.gain[k] == MUCH:
                break
            if turns.kind[k] == CALLS and turns.gain[k] == NOTHING:
                stale.insert(0, turns.i[k])
        if _waits(history, stale[0]):
            return None
        detail = "{n} steps brought nothing that was not known before, the last one "
        return self._found(history, stale, self.steps, f"{detail}{name_of(seen)}", seen)

    def _variants(self, history: History, seen: Seen) -> Finding | None:
        """Variants of one call that all end in the same way."""
        rows = history.rows
        need = self.steps + (1 if seen.marks & Mark.EMPTY else -1)
        if rows.result.count(seen.result) < need or seen.marks & Mark.FORMAL:
            return None
        start = max(fence(history) + 1, last_change(history, seen))
        same = history.where("result", seen.result, start)
        alike = [k for k in same if _varies(history, k, seen)]
        turns = turns_of(history, alike)
        if len({rows.near[k] for k in alike}) < 2 or idle(history, turns):
            return None
        detail = "was called {n} times in other words, each time with the same result"
        return self._found(history, turns, need, f"{name_of(seen)} {detail}", seen)

    def _found(
        self, history: History, turns: list[int], need: int, detail: str, seen: Seen
    ) -> Finding | None:
        if tries(history, turns) < need:
            return None
        return report(self, turns, need, detail, key=_KEY, seen=seen, again=3)


def _varies(history: History, k: int, seen: Seen) -> bool:
    """Is a call a variant of `seen`? It is none after a wait, nor where the same is
    asked of another item, with a short answer each time.
    """
    rows = history.rows
    if likeness(rows.words[k], seen.words) < _LIKE or rows.marks[k] & Mark.WAITED:
        return False
    return not seen.shape or rows.shape[k] != seen.shape or rows.near[k] == seen.near


def _waits(history: History, since: int) -> bool:
    """Is the stretch one of polls with waits between?"""
    rows = history.rows
    return any(rows.marks[k] & Mark.WAITED for k, i in enumerate(rows.i) if i >= since)

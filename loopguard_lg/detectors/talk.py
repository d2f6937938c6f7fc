"""Talk instead of work: `Planner` and `Chanting`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopguard_lg.detectors.base import fence, require
from loopguard_lg.findings import Finding
from loopguard_lg.history import CALLS, TEXT, History, Mark
from loopguard_lg.progress import MUCH, NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Plans written again and again, or replies that say nothing new, with no action
    between.

    Attributes:
        times: So many in a row make a finding.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "planner"
    hears: ClassVar[int] = Mark.SAYS | Mark.PLAN
    times: int = 3
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, times=2)

    def observe(self, history: History) -> Finding | None:
        """The row of plans to which the newest turn adds one."""
        if history.kind == TEXT:
            return self._restated(history)
        planned = history.now and history.rows.newest("marks") & Mark.PLAN
        return self._written(history) if planned else None

    def _restated(self, history: History) -> Finding | None:
        """Replies of one agent that say nothing new, with no call between."""
        turns = history.turns
        stale: list[int] = []
        for k in range(len(turns.i) - 1, -1, -1):
            if turns.kind[k] != TEXT or turns.agent[k] != turns.agent[-1]:
                break
            if turns.gain[k] == NOTHING and turns.text[k]:
                stale.insert(0, turns.i[k])
        if len(stale) < self.times or stale[-1] != history.i:
            return None
        return self._found(
            history, stale, f"{len(stale)} replies said nothing new and did nothing"
        )

    def _written(self, history: History) -> Finding | None:
        """Plans written in a row."""
        turns = history.turns
        found: list[int] = []
        for k in range(len(turns.i) - 1, -1, -1):
            if turns.agent[k] != turns.agent[-1] or not _only_plans(history, k):
                break
            found.insert(0, turns.i[k])
        if len(found) < self.times:
            return None
        return self._found(
            history,
            found,
            f"the plan was written {len(found)} times in a row and nothing was done "
            "between",
        )

    def _found(self, history: History, steps: list[int], detail: str) -> Finding:
        return Finding(
            kind=self.kind,
            steps=tuple(steps),
            count=len(steps),
            threshold=self.times,
            detail=detail,
            key=history.turns.agent[-1],
        )


def _only_plans(history: History, k: int) -> bool:
    """Is this turn nothing but planning that moved nothing?"""
    turns, rows = history.turns, history.rows
    if turns.kind[k] == TEXT:
        return True
    if turns.kind[k] != CALLS or turns.gain[k] == MUCH:
        return False
    marks = [rows.marks[n] for n, i in enumerate(rows.i) if i == turns.i[k]]
    return bool(marks) and all(mark & Mark.PLAN for mark in marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chanting:
    """The same text again and again, between replies or inside one; empty replies.

    Attributes:
        times: So often makes a finding; once more where a person spoke in between, and
            three times as often inside one reply.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "chanting"
    hears: ClassVar[int] = Mark.SAYS
    times: int = 3
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, times=2)

    def observe(self, history: History) -> Finding | None:
        """The chant to which the newest reply adds one more."""
        if history.kind != TEXT:
            return None
        turns = history.turns
        if history.known.chant >= 3 * self.times:
            return self._found(history, [turns.i[-1]], history.known.chant, 1)
        if turns.text.count(turns.text[-1]) < self.times:
            return None
        said = self._said(history)
        need = self.times + (said[0] < fence(history))
        return self._found(history, said, len(said), need)

    def _said(self, history: History) -> list[int]:
        """The replies with this text since others spoke or something was done."""
        turns = history.turns
        found: list[int] = []
        for k in range(len(turns.i) - 1, -1, -1):
            if turns.kind[k] == CALLS:
                break
            if turns.kind[k] != TEXT:
                continue
            if turns.text[k] == turns.text[-1] and turns.agent[k] == turns.agent[-1]:
                found.insert(0, turns.i[k])
            elif turns.agent[k] != turns.agent[-1] and turns.text[k]:
                break
        return found

    def _found(
        self, history: History, steps: list[int], count: int, need: int
    ) -> Finding | None:
        if len(steps) < need:
            return None
        text = history.turns.text[-1]
        what = "the same text was said" if text else "the reply was empty"
        return Finding(
            kind=self.kind,
            steps=tuple(steps),
            count=count,
            threshold=self.times,
            detail=f"{what} {count} times",
            key=text,
        )

"""Edits that lead nowhere: `FailingEdits`, `Tampering`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopguard_lg.detectors.base import (
    distinct,
    fence,
    idle,
    name_of,
    require,
    watched,
)
from loopguard_lg.findings import Finding
from loopguard_lg.history import History, Mark, Seen
from loopguard_lg.progress import MUCH

_BROKEN = Mark.FAILED | Mark.RED


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingEdits:
    """Edits of one file each followed by a failing check, or edits that never apply.

    A pass, fewer failures than ever, or anything new learned in between resets.

    Attributes:
        times: So many make a finding.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "failing_edits"
    times: int = 3
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, times=2)

    def observe(self, history: History) -> Finding | None:
        """The series of edits to which the newest turn adds a failure."""
        for seen in watched(history, self.kind):
            found = None
            if seen.role == "write" and seen.ok is None and seen.error and seen.path:
                found = self._rejected(history, seen)
            elif seen.marks & Mark.RED:
                found = self._red(history, seen)
            if found:
                return found
        return None

    def _rejected(self, history: History, seen: Seen) -> Finding | None:
        """Edits of one file that were refused, none applied between."""
        rows = history.rows
        path = seen.row(0)[6]
        start = fence(history)
        turns: list[int] = []
        for k, marks in enumerate(rows.marks):
            if rows.i[k] <= start or rows.path[k] != path or not marks & Mark.WRITE:
                continue
            if marks & Mark.FAILED and not marks & Mark.RED:
                turns.append(rows.i[k])
            else:
                turns.clear()
        turns = distinct(turns)
        if len(turns) < self.times or idle(history, turns):
            return None
        return self._found(
            seen, turns, f"{len(turns)} edits of {_file(seen)} were refused"
        )

    def _red(self, history: History, seen: Seen) -> Finding | None:
        """Failing checks with an edit before each, and no fewer failures."""
        rows = history.rows
        start = fence(history)
        red: list[int] = []
        known: set[int] = set()
        edited = False
        for k, marks in enumerate(rows.marks):
            if rows.i[k] <= start:
                continue
            written = marks & Mark.WRITE and seen.ok is False
            if marks & Mark.PASSED or rows.gain[k] == MUCH and not written:
                red.clear()
                edited = False
            if marks & Mark.WRITE and marks & Mark.CHANGED:
                edited = True
            if marks & Mark.RED and edited:
                if rows.kin[k] not in known:
                    known.add(rows.kin[k])
                    red.clear()
                red.append(rows.i[k])
                edited = False
        red = distinct(red)
        if len(red) < self.times or red[-1] != history.i:
            return None
        return self._found(
            seen,
            red,
            f"{len(red)} edits in a row left the check {name_of(seen)} failing",
        )

    def _found(self, seen: Seen, turns: list[int], detail: str) -> Finding:
        """The finding."""
        return Finding(
            kind=self.kind,
            steps=tuple(turns),
            count=len(turns),
            threshold=self.times,
            detail=detail,
            key=seen.row(0)[6],
            tool=seen.tool,
        )


def _file(seen: Seen) -> str:
    """A file's name for a sentence."""
    return f"`{seen.path[-80:]}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tampering:
    """After a failing check: a test made weaker, or only tests edited and then green.

    Attributes:
        times: So many weakened tests make a finding.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "tampering"
    times: int = 1
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, times=1)

    def observe(self, history: History) -> Finding | None:
        """The weakening of tests to which the newest turn adds something."""
        for seen in watched(history, self.kind):
            if seen.marks & Mark.WEAKENS and seen.marks & _BROKEN != Mark.FAILED:
                found = self._weakened(history, seen)
            elif seen.ok is True and seen.role == "check":
                found = self._greened(history, seen)
            else:
                continue
            if found:
                return found
        return None

    def _weakened(self, history: History, seen: Seen) -> Finding | None:
        """Weakened tests since the last check that failed."""
        rows = history.rows
        red = _last_red(history, history.i)
        turns = distinct(
            [
                rows.i[k]
                for k, marks in enumerate(rows.marks)
                if marks & Mark.WEAKENS
                and marks & _BROKEN != Mark.FAILED
                and rows.i[k] > red
            ]
        )
        if red < 0 or len(turns) < self.times:
            return None
        where = f" in {_file(seen)}" if seen.path else ""
        return self._found(seen, turns, f"a failing test was made weaker{where}")

    def _greened(self, history: History, seen: Seen) -> Finding | None:
        """A pass after edits to tests alone."""
        rows = history.rows
        red = _last_red(history, history.i)
        if red < 0:
            return None
        edits = [
            k
            for k, marks in enumerate(rows.marks)
            if rows.i[k] > red and marks & Mark.WRITE and marks & Mark.CHANGED
        ]
        passed = any(
            rows.marks[k] & Mark.PASSED and red < i < history.i
            for k, i in enumerate(rows.i)
        )
        if passed or not edits or not all(rows.marks[k] & Mark.TESTS for k in edits):
            return None
        turns = distinct([*(rows.i[k] for k in edits), history.i])
        return self._found(seen, turns, "the check passes after edits to tests alone")

    def _found(self, seen: Seen, turns: list[int], detail: str) -> Finding:
        """The finding."""
        return Finding(
            kind=self.kind,
            steps=tuple(turns),
            count=len(turns),
            threshold=self.times,
            detail=detail,
            key=seen.row(0)[6],
            tool=seen.tool,
        )


def _last_red(history: History, before: int) -> int:
    """The turn of the newest check that failed before a turn, -1 without one."""
    rows = history.rows
    return max(
        (i for k, i in enumerate(rows.i) if rows.marks[k] & Mark.RED and i < before),
        default=-1,
    )

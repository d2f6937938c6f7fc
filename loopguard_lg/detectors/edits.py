"""Edits that lead nowhere: `FailingEdits`, `Tampering`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from loopguard_lg.detectors.base import (
    edited_between,
    fence,
    file_of,
    idle,
    name_of,
    report,
    require,
    turns_of,
    watched,
)
from loopguard_lg.errors import PolicyError
from loopguard_lg.findings import Finding
from loopguard_lg.history import History, Mark, Seen
from loopguard_lg.progress import MUCH

_BROKEN = Mark.FAILED | Mark.RED
_EDIT = Mark.WRITE | Mark.CHANGED
_TESTED = Mark.WEAKENS | Mark.PASSED


def _refused(marks: int) -> bool:
    """Did the call itself fail, not only the check that it runs?"""
    return marks & _BROKEN == Mark.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingEdits:
    """Edits each followed by a failing check, or edits of one file that never apply.

    A pass, another failure than those known or one at another place, fewer failures
    than ever, or anything new learned in between resets.

    Attributes:
        times: So many make a finding.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "failing_edits"
    hears: ClassVar[int] = _BROKEN
    times: int = 3
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, times=2)

    def observe(self, history: History) -> Finding | None:
        """The series of edits to which the newest turn adds a failure."""
        for seen in watched(history, self.kind):
            found = None
            if seen.marks & Mark.RED:
                found = self._red(history, seen)
            elif seen.role == "write" and seen.path and _refused(seen.marks):
                found = self._unapplied(history, seen)
            if found:
                return found
        return None

    def _unapplied(self, history: History, seen: Seen) -> Finding | None:
        """Edits of one file that were refused, none applied between."""
        rows = history.rows
        found: list[int] = []
        for k in history.where("path", seen.place, fence(history) + 1):
            if _refused(rows.marks[k]) and rows.marks[k] & Mark.WRITE:
                found.append(k)
            elif rows.marks[k] & Mark.WRITE:
                found.clear()
        turns = turns_of(history, found)
        if idle(history, turns):
            return None
        detail = f"{{n}} edits of {file_of(seen)} were refused"
        place = seen.place
        files = (place,)
        return report(
            self, turns, self.times, detail, key=place, seen=seen, files=files
        )

    def _red(self, history: History, seen: Seen) -> Finding | None:
        """Failing checks with an edit before each, and no failure but known ones."""
        rows = history.rows
        red: list[int] = []
        known: set[int] = set()
        edited = False
        for k in history.since(fence(history) + 1):
            marks = rows.marks[k]
            if _moves(marks, rows.gain[k], seen):
                red.clear()
                edited = False
            if marks & _EDIT == _EDIT:
                edited = True
            if edited and marks & Mark.RED:
                if rows.kin[k] not in known or marks & Mark.MOVED:
                    red.clear()
                known.add(rows.kin[k])
                red.append(k)
                edited = False
        turns = turns_of(history, red)
        if not turns or turns[-1] != history.i:
            return None
        detail = f"{{n}} edits in a row left {name_of(seen)} failing in a known way"
        files = edited_between(history, red)
        return report(
            self, turns, self.times, detail, key=seen.place, seen=seen, files=files
        )


def _moves(marks: int, gain: int, seen: Seen) -> bool:
    """Does a call take the work on? A pass does, and news; that an edit made a new file
    is news for a program that is run, but not for a test.
    """
    written = marks & Mark.WRITE and seen.ok is False
    return bool(marks & Mark.PASSED) or gain == MUCH and not written


@dataclass(frozen=True, slots=True, kw_only=True)
class Tampering:
    """After a failing check: a test made weaker, or only tests edited and then green.

    Edits to tests alone are none of it where a person has asked for them.

    Attributes:
        times: So many weakened tests make a finding.
        files: Globs of files that hold tests, beside those known by convention.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "tampering"
    hears: ClassVar[int] = _TESTED
    times: int = 1
    files: tuple[str, ...] = ()
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, times=1)
        globs: Any = self.files
        if isinstance(globs, str) or not all(isinstance(glob, str) for glob in globs):
            raise PolicyError(
                f"Tampering(files={globs!r}): files must be a list of globs, like "
                "['checks/*.py']"
            )
        object.__setattr__(self, "files", tuple(globs))

    def observe(self, history: History) -> Finding | None:
        """The weakening of tests to which the newest turn adds something."""
        for seen in watched(history, self.kind):
            found = None
            if seen.marks & Mark.WEAKENS and not _refused(seen.marks):
                found = self._weakened(history, seen)
            if not found and seen.ok is True and seen.role == "check":
                found = self._greened(history, seen)
            if found:
                return found
        return None

    def _weakened(self, history: History, seen: Seen) -> Finding | None:
        """Weakened tests since the last check that failed."""
        marks = history.rows.marks
        red = _last_red(history)
        if red < 0:
            return None
        found = [
            k
            for k in history.since(red + 1)
            if marks[k] & Mark.WEAKENS and not _refused(marks[k])
        ]
        detail = "a failing test was made weaker"
        if seen.path:
            detail = f"{detail} in {file_of(seen)}"
        elif seen.ok and found and marks[found[-1]] & Mark.TESTS:
            detail = "the check passes, and runs fewer tests than when it failed"
        return self._found(history, seen, found, detail)

    def _greened(self, history: History, seen: Seen) -> Finding | None:
        """A pass after edits to tests alone."""
        if history.known.asked:
            return None
        marks = history.rows.marks
        red = _last_red(history)
        after = history.since(red + 1) if red >= 0 else range(0)
        edits = [k for k in after if marks[k] & _EDIT == _EDIT]
        passes = [k for k in after if marks[k] & Mark.PASSED]
        if not edits or not all(marks[k] & Mark.TESTS for k in edits):
            return None
        if len(turns_of(history, passes)) > 1:
            return None
        detail = "the check passes after edits to tests alone"
        return self._found(history, seen, [*edits, *passes], detail)

    def _found(
        self, history: History, seen: Seen, found: list[int], detail: str
    ) -> Finding | None:
        turns = turns_of(history, found)
        return report(self, turns, self.times, detail, key=seen.place, seen=seen)


def _last_red(history: History) -> int:
    """The turn of the newest check that failed before this turn, -1 without one."""
    rows = history.rows
    reds = (
        i
        for i, marks in zip(rows.i, rows.marks, strict=True)
        if marks & Mark.RED and i < history.i
    )
    return max(reds, default=-1)

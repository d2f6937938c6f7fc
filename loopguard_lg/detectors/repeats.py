"""The same call with the same result: `Repeat`, and nearly the same: `NearRepeat`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopguard_lg.detectors.base import (
    ending,
    fence,
    idle,
    last_change,
    name_of,
    report,
    require,
    tries,
    turns_of,
    watched,
    widen,
)
from loopguard_lg.detectors.cycles import in_cycle
from loopguard_lg.findings import Finding
from loopguard_lg.history import COMPACTION, History, Mark, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """The same tool with the same arguments and the same result.

    Attributes:
        times: So often makes a finding.
        window: Within so many turns with calls; left at its default it grows with
            `times`.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "repeat"
    hears: ClassVar[int] = Mark.AGAIN
    times: int = 3
    window: int = 10
    shadow: bool = False

    def __post_init__(self) -> None:
        widen(self)
        require(self, times=2, window=self.times)

    def observe(self, history: History) -> Finding | None:
        """The repetition to which the newest turn adds one more."""
        for seen in watched(history, self.kind):
            if history.rows.call.count(seen.call) >= self.times and _counts(seen):
                found = self._judge(history, seen)
                if found:
                    return found
        return None

    def _judge(self, history: History, seen: Seen) -> Finding | None:
        """Is the repetition of this call a loop?"""
        turns = _occurrences(history, seen, history.back(self.window))
        if idle(history, turns, errors=not seen.error) or in_cycle(history):
            return None
        if tries(history, turns) < self.times:
            return None
        return report(
            self,
            turns,
            _patience(seen, self.times),
            f"{name_of(seen)} was called {{n}} times with the same arguments and "
            f"{ending(history, seen)}",
            key=seen.call,
            seen=seen,
            holds=(seen.call,),
        )


def _counts(seen: Seen) -> bool:
    """Is this a call whose repetition says anything? Waits, plans and the receipts of
    hand-overs are none.
    """
    void = Mark.FORMAL | Mark.HANDOFF
    return seen.role not in ("wait", "plan", "exit") and seen.marks & void != void


def _patience(seen: Seen, times: int) -> int:
    """How often a call may be made in vain: polls, outages and gestures oftener."""
    if seen.marks & Mark.TRANSIENT:
        return times + 2
    if seen.marks & Mark.GESTURE and seen.marks & Mark.FORMAL:
        return times * 2
    return times + (seen.role == "poll" or bool(seen.marks & Mark.PENDING))


def _waited(marks: int) -> bool:
    """Did a call look again after a wait?"""
    return bool(marks & Mark.WAITED) and not marks & Mark.WRITE


def _occurrences(history: History, seen: Seen, since: int) -> list[int]:
    """The turns in which the call brought this result, with no change between.

    Waited polls don't count; after a compaction one reading more is free.
    """
    rows = history.rows
    start = max(since, fence(history) + 1, last_change(history, seen))
    found: list[int] = []
    result = 0
    for k in history.where("call", seen.call, start):
        blocked = rows.marks[k] & Mark.BLOCKED
        if not blocked and rows.result[k] != result:
            found.clear()
            result = rows.result[k]
        if not _waited(rows.marks[k]):
            found.append(k)
    turns = turns_of(history, found)
    compacted = history.last(COMPACTION)
    return turns[1:] if turns and turns[0] < compacted < turns[-1] else turns


@dataclass(frozen=True, slots=True, kw_only=True)
class NearRepeat:
    """The same call but for case, white space, times and ids, with the same result; or
    reads that drift over lines already read.

    Attributes:
        times: So often makes a finding.
        window: Within so many turns with calls; left at its default it grows with
            `times`.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "near_repeat"
    hears: ClassVar[int] = Mark.AGAIN | Mark.DRIFT
    times: int = 4
    window: int = 12
    shadow: bool = False

    def __post_init__(self) -> None:
        widen(self)
        require(self, times=2, window=self.times)

    def observe(self, history: History) -> Finding | None:
        """The repetition to which the newest turn adds one more."""
        near = history.rows.near
        for seen in watched(history, self.kind):
            if not _counts(seen):
                continue
            found = None
            if near.count(seen.near) >= self.times:
                found = self._same(history, seen)
            elif seen.marks & Mark.DRIFT:
                found = self._drift(history, seen)
            if found:
                return found
        return None

    def _same(self, history: History, seen: Seen) -> Finding | None:
        """Nearly the same call with the same result; a check that went another way in
        between is one that is not sure yet.
        """
        rows = history.rows
        found: list[int] = []
        for k in history.where("near", seen.near, self._start(history, seen)):
            if rows.result[k] != seen.result:
                found = [] if seen.ok is not None else found
            elif not _waited(rows.marks[k]):
                found.append(k)
        detail = f"{name_of(seen)} was called {{n}} times with nearly the same "
        return self._found(
            history, seen, found, f"{detail}arguments and {ending(history, seen)}"
        )

    def _drift(self, history: History, seen: Seen) -> Finding | None:
        """Ranges of one file that were read before."""
        rows = history.rows
        found = [
            k
            for k in history.where("path", seen.place, self._start(history, seen))
            if rows.marks[k] & Mark.DRIFT
        ]
        detail = (
            f"{name_of(seen)} read lines of one file {{n}} times that had been read"
        )
        return self._found(history, seen, found, f"{detail} before")

    def _start(self, history: History, seen: Seen) -> int:
        """The index from which evidence counts."""
        return max(
            history.back(self.window), fence(history) + 1, last_change(history, seen)
        )

    def _found(
        self, history: History, seen: Seen, found: list[int], detail: str
    ) -> Finding | None:
        """A finding, if that often is too often."""
        turns = turns_of(history, found)
        if tries(history, turns) < self.times:
            return None
        if idle(history, turns, errors=not seen.error):
            return None
        return report(
            self,
            turns,
            _patience(seen, self.times),
            detail,
            key=seen.near,
            seen=seen,
            holds=(seen.call,),
        )

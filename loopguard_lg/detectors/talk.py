"""Talk instead of work: `Planner`, `PingPong`, `Chanting`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopguard_lg.detectors.base import distinct, fence, name_of, require
from loopguard_lg.digests import likeness
from loopguard_lg.findings import Finding
from loopguard_lg.history import CALLS, HUMAN, TEXT, History, Mark
from loopguard_lg.progress import MUCH, NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Plans written again and again, or one's intentions repeated, with no action
    between.

    Attributes:
        times: So many in a row make a finding.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "planner"
    times: int = 3
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, times=2)

    def observe(self, history: History) -> Finding | None:
        """The row of plans to which the newest turn adds one."""
        turns = history.turns
        if not turns.i or turns.kind[-1] not in (CALLS, TEXT):
            return None
        if turns.kind[-1] == TEXT:
            return self._restated(history)
        return self._written(history)

    def _restated(self, history: History) -> Finding | None:
        """Replies by one agent that say nothing new, with no call between."""
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
        start = fence(history)
        found: list[int] = []
        for k in range(len(turns.i) - 1, -1, -1):
            if turns.i[k] <= start or not _plans(history, k):
                break
            if turns.agent[k] != turns.agent[-1]:
                break
            found.insert(0, turns.i[k])
        written = sum(
            1 for k, i in enumerate(turns.i) if i in found and turns.kind[k] == CALLS
        )
        if len(found) < self.times or not written:
            return None
        return self._found(
            history,
            found,
            f"the plan was written {len(found)} times in a row and nothing was done "
            "between",
        )

    def _found(self, history: History, steps: list[int], detail: str) -> Finding:
        """The finding."""
        return Finding(
            kind=self.kind,
            steps=tuple(steps),
            count=len(steps),
            threshold=self.times,
            detail=detail,
            key=history.turns.agent[-1],
        )


def _plans(history: History, k: int) -> bool:
    """Is this turn nothing but planning that moved nothing?"""
    turns = history.turns
    if turns.gain[k] == MUCH:
        return False
    if turns.kind[k] == TEXT:
        return True
    if turns.kind[k] != CALLS:
        return False
    rows = history.rows
    marks = [rows.marks[n] for n, i in enumerate(rows.i) if i == turns.i[k]]
    return bool(marks) and all(mark & Mark.PLAN for mark in marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class PingPong:
    """Two who hand the same thing to and fro, or say the same to each other.

    Attributes:
        laps: So many laps make a finding where words repeat; twice as many where only
            the hand-offs do.
        depth: So many hand-offs with no work between make a finding, whoever they go to.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "ping_pong"
    laps: int = 2
    depth: int = 6
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, laps=2, depth=2)

    def observe(self, history: History) -> Finding | None:
        """The exchange to which the newest turn adds one more."""
        if not history.turns.i:
            return None
        return self._handoffs(history) or self._answers(history) or self._words(history)

    def _handoffs(self, history: History) -> Finding | None:
        """Hand-offs with no work between."""
        if not any(seen.role == "handoff" for seen in history.now):
            return None
        turns, rows = history.turns, history.rows
        start = fence(history)
        bare = {
            i
            for k, i in enumerate(rows.i)
            if rows.marks[k] & Mark.HANDOFF and rows.marks[k] & Mark.FORMAL
        }
        found: list[int] = []
        for k in range(len(turns.i) - 1, -1, -1):
            if turns.i[k] <= start or turns.kind[k] == CALLS and turns.i[k] not in bare:
                break
            if turns.kind[k] == CALLS:
                found.insert(0, k)
        agents = [turns.agent[k] for k in found]
        if len(found) < 2 * self.laps or agents[-2:] != agents[-4:-2]:
            return None
        return self._count(history, found, agents)

    def _count(
        self, history: History, found: list[int], agents: list[int]
    ) -> Finding | None:
        """Are these hand-offs too many? Sooner where words or arguments repeat."""
        turns = history.turns
        pair = set(agents[-2:])
        run = 0
        for agent in reversed(agents):
            run += 1
            if agent not in pair:
                break
        run = min(run, len(found))
        same = [
            k for k in found if turns.text[k] and turns.text.count(turns.text[k]) > 1
        ]
        repeated = len(same) >= self.laps or _same_words(history, found)
        need = 2 * self.laps if repeated else 4 * self.laps
        if run < need:
            return None
        return Finding(
            kind=self.kind,
            steps=tuple(turns.i[k] for k in found[-run:]),
            count=run // 2,
            threshold=need // 2,
            detail=f"two agents handed over to each other {run} times and nothing was "
            "done between",
            key=min(pair),
        )

    def _answers(self, history: History) -> Finding | None:
        """Hand-overs in like words whose answers all begin the same."""
        rows = history.rows
        need = 2 * self.laps
        for seen in history.now:
            if (
                seen.role != "handoff"
                or rows.kin.count(seen.kin) < need
                or not seen.kin
            ):
                continue
            turns = distinct(
                [
                    rows.i[k]
                    for k, kin in enumerate(rows.kin)
                    if kin == seen.kin
                    and rows.i[k] > fence(history)
                    and likeness(rows.words[k], seen.words) >= 0.4
                ]
            )
            if len(turns) >= need:
                return Finding(
                    kind=self.kind,
                    steps=tuple(turns),
                    count=len(turns),
                    threshold=need,
                    detail=f"{name_of(seen)} handed over {len(turns)} times in like "
                    "words and the answers began the same",
                    key=seen.kin,
                    tool=seen.tool,
                )
        return None

    def _words(self, history: History) -> Finding | None:
        """Two speakers who repeat themselves to each other."""
        turns = history.turns
        if turns.kind[-1] not in (TEXT, HUMAN):
            return None
        talk = [k for k, kind in enumerate(turns.kind) if kind in (TEXT, HUMAN)]
        texts = [turns.text[k] for k in talk]
        span = 2 * (self.laps + 1)
        tail = texts[-span:]
        if len(tail) < span or not all(tail):
            return None
        if tail != tail[:2] * (span // 2) or tail[0] == tail[1]:
            return None
        speakers = [turns.agent[k] for k in talk[-span:]]
        if speakers[0] == speakers[1]:
            return None
        return Finding(
            kind=self.kind,
            steps=tuple(turns.i[k] for k in talk[-span:]),
            count=span // 2,
            threshold=self.laps,
            detail=f"two speakers said the same to each other {span // 2} times",
            key=min(tail),
        )


def _same_words(history: History, found: list[int]) -> bool:
    """Do hand-offs of one direction come with the same words?"""
    turns, rows = history.turns, history.rows
    calls = {i: rows.call[k] for k, i in enumerate(rows.i)}
    spoken = {turns.i[k]: turns.text[k] for k in found}
    last = [calls.get(turns.i[k]) for k in found[-4:]]
    quiet = [k for k in found[-2:] if not spoken[turns.i[k]]]
    return bool(quiet) and len(last) == 4 and last[:2] == last[2:] and len(quiet) == 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Chanting:
    """The same text again and again, between replies or inside one; empty replies.

    Attributes:
        times: So often makes a finding; inside one reply three times as often.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "chanting"
    times: int = 3
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, times=2)

    def observe(self, history: History) -> Finding | None:
        """The chant to which the newest reply adds one more."""
        turns = history.turns
        if not turns.i or turns.kind[-1] != TEXT:
            return None
        if history.known.chant >= 3 * self.times:
            return self._found(history, [turns.i[-1]], history.known.chant)
        text, agent = turns.text[-1], turns.agent[-1]
        start = fence(history)
        found: list[int] = []
        for k in range(len(turns.i) - 1, -1, -1):
            if turns.i[k] <= start or turns.kind[k] == CALLS and turns.gain[k] == MUCH:
                break
            if turns.agent[k] != agent:
                if turns.kind[k] == TEXT and turns.text[k]:
                    break
                continue
            if turns.kind[k] == TEXT and turns.text[k] == text:
                found.insert(0, turns.i[k])
        if len(found) < self.times:
            return None
        return self._found(history, found, len(found))

    def _found(self, history: History, steps: list[int], count: int) -> Finding:
        """The finding."""
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

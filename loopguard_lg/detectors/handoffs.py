"""The same thing handed to and fro: `PingPong`."""

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
from loopguard_lg.history import CALLS, HUMAN, TEXT, History, Mark, Seen
from loopguard_lg.progress import MUCH, NOTHING
from loopguard_lg.sketches import likeness


@dataclass(frozen=True, slots=True, kw_only=True)
class PingPong:
    """Two who hand the same thing to and fro, or say the same to each other.

    Attributes:
        laps: So many laps make a finding where words repeat; twice as many where only
            the hand-overs do, and where one of the two is the person.
        depth: So many hand-overs with no work between make a finding, whoever they go
            to.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "ping_pong"
    hears: ClassVar[int] = Mark.SAYS | Mark.HANDED
    laps: int = 2
    depth: int = 6
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, laps=2, depth=2)

    def observe(self, history: History) -> Finding | None:
        """The exchange to which the newest turn adds one more."""
        if not history.now:
            return self._talk(history)
        for seen in watched(history, self.kind):
            if seen.role == "handoff":
                return self._bare(history, seen) or self._answers(history, seen)
        return None

    def _bare(self, history: History, seen: Seen) -> Finding | None:
        """Hand-overs with no work between."""
        found = _handovers(history)
        agents = [history.turns.agent[k] for k in found]
        run = _alternating(agents)
        if run >= 2 * self.laps * (1 if _repeats_words(history, found) else 2):
            return self._found(
                history,
                found[-run:],
                f"two agents handed over to each other {run} times",
            )
        if len(found) >= self.depth and len(set(agents)) > 2:
            return self._found(
                history, found, f"the task was handed over {len(found)} times in a row"
            )
        return None

    def _found(self, history: History, found: list[int], detail: str) -> Finding:
        """A finding about hand-overs; `found`: positions of their turns."""
        turns = history.turns
        return Finding(
            kind=self.kind,
            steps=tuple(turns.i[k] for k in found),
            count=len(found) // 2,
            threshold=self.laps,
            detail=f"{detail} and nothing was done between",
            key=min(turns.agent[k] for k in found),
        )

    def _answers(self, history: History, seen: Seen) -> Finding | None:
        """Hand-overs in like words whose answers all begin the same."""
        words = history.rows.words
        if not seen.kin or history.rows.kin.count(seen.kin) < 2 * self.laps:
            return None
        alike = (
            k
            for k in history.where("kin", seen.kin, fence(history) + 1)
            if likeness(words[k], seen.words) >= 0.4
        )
        return report(
            self,
            turns_of(history, alike),
            2 * self.laps,
            f"{name_of(seen)} was called {{n}} times in like words and the answers "
            "began the same",
            key=seen.kin,
            seen=seen,
        )

    def _talk(self, history: History) -> Finding | None:
        """Two speakers in turn who say the same, or nothing new, to each other."""
        turns = history.turns
        span = 2 * (self.laps + 1)
        if HUMAN in turns.kind[-span:]:
            span = 4 * self.laps
        kinds = turns.kind[-span:]
        if len(kinds) < span or not set(kinds) <= {TEXT, HUMAN}:
            return None
        pair = list(zip(turns.agent[-span:], kinds, strict=True))
        texts = turns.text[-span:]
        if pair != pair[:2] * (span // 2) or pair[0] == pair[1] or not all(texts):
            return None
        stale = turns.gain[-2 * self.laps :] == [NOTHING] * 2 * self.laps
        if texts != texts[:2] * (span // 2) and not stale:
            return None
        return Finding(
            kind=self.kind,
            steps=tuple(turns.i[-span:]),
            count=span // 2,
            threshold=self.laps,
            detail=f"two speakers said the same to each other {span // 2} times",
            key=min(texts[:2]),
        )


def _handovers(history: History) -> list[int]:
    """Positions of the newest turns with calls, as far back as they only hand over."""
    turns, rows = history.turns, history.rows
    bare = Mark.HANDOFF | Mark.FORMAL
    works = {i for k, i in enumerate(rows.i) if rows.marks[k] & bare != bare}
    start = fence(history)
    found: list[int] = []
    for k in range(len(turns.i) - 1, -1, -1):
        if turns.i[k] <= start or turns.i[k] in works or turns.gain[k] == MUCH:
            break
        if turns.kind[k] == CALLS:
            found.insert(0, k)
    return found


def _alternating(agents: list[int]) -> int:
    """How many of the newest hand-overs came from two agents in turn."""
    run = min(len(agents), 2)
    if run < 2 or agents[-1] == agents[-2]:
        return 0
    while run < len(agents) and agents[-run - 1] == agents[-run + 1]:
        run += 1
    return run


def _repeats_words(history: History, found: list[int]) -> bool:
    """Does the newest lap of hand-overs say what the one before said?"""
    turns, rows = history.turns, history.rows
    calls = dict(zip(rows.i, rows.call, strict=True))
    said = [(turns.text[k], calls.get(turns.i[k])) for k in found[-4:]]
    return len(said) == 4 and said[:2] == said[2:]

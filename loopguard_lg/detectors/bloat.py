"""Context that only grows: `Bloat`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopguard_lg.detectors.base import fence, require
from loopguard_lg.findings import Finding
from loopguard_lg.history import CALLS, COMPACTION, History


@dataclass(frozen=True, slots=True, kw_only=True)
class Bloat:
    """A context too large, too much tool output, or compactions that don't help.

    Attributes:
        tokens: Input tokens of one model call that are too many.
        chars: Characters of all tool results together that are too many.
        compactions: So many with at most one turn of calls between make a finding.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "bloat"
    tokens: int = 400_000
    chars: int = 1_000_000
    compactions: int = 3
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, tokens=1, chars=1, compactions=2)

    def observe(self, history: History) -> Finding | None:
        """The growth to which the newest event adds."""
        if not history.turns.i:
            return None
        if history.kind == COMPACTION:
            return self._thrash(history)
        if not history.now:
            return None
        known = history.known
        if known.context > self.tokens:
            return self._found(
                (history.i,), known.context, self.tokens, "tokens in the context"
            )
        if known.output > self.chars:
            return self._found(
                (history.i,), known.output, self.chars, "characters of tool output"
            )
        return None

    def _thrash(self, history: History) -> Finding | None:
        """Compactions right after each other."""
        turns = history.turns
        start = fence(history)
        found: list[int] = []
        between = 0
        for k in range(len(turns.i) - 1, -1, -1):
            if turns.i[k] <= start or between > 1:
                break
            if turns.kind[k] == COMPACTION:
                found.insert(0, turns.i[k])
                between = 0
            else:
                between += turns.kind[k] == CALLS
        if len(found) < self.compactions:
            return None
        return Finding(
            kind=self.kind,
            steps=tuple(found),
            count=len(found),
            threshold=self.compactions,
            detail=f"the context was compacted {len(found)} times and no work was done "
            "between",
            key=2,
        )

    def _found(
        self, steps: tuple[int, ...], count: int, limit: int, what: str
    ) -> Finding:
        """A finding of size."""
        return Finding(
            kind=self.kind,
            steps=steps,
            count=count,
            threshold=limit,
            detail=f"{count:,} {what}",
            key=1,
            again=10,
        )

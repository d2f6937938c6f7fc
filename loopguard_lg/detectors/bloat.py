"""Context that only grows: `Bloat`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopguard_lg.detectors.base import fence, report, require
from loopguard_lg.findings import Finding
from loopguard_lg.history import CALLS, COMPACTION, History, Mark
from loopguard_lg.progress import MUCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Bloat:
    """A context that is about to be compacted or too large, too much tool output, or
    compactions that don't help.

    Attributes:
        tokens: Input tokens of one model call that are too many.
        output: Bytes of tool results since the last compaction that are too many; told
            when they are passed, and each time as many have been added.
        compaction_at: Input tokens at which the app compacts, if that is known
            (`adapters.compaction.compaction_at` reads it off a summarization
            middleware); told from nine tenths of them on.
        compactions: So many with at most one turn of calls between make a finding.
        shadow: Only tell.
    """

    kind: ClassVar[str] = "bloat"
    hears: ClassVar[int] = Mark.CALLED | Mark.CUT
    tokens: int = 400_000
    output: int = 1_000_000
    compaction_at: int | None = None
    compactions: int = 3
    shadow: bool = False

    def __post_init__(self) -> None:
        require(self, tokens=1, output=1, compactions=2)
        if self.compaction_at is not None:
            require(self, compaction_at=1)

    def observe(self, history: History) -> Finding | None:
        """The growth to which the newest event adds."""
        if history.now:
            return self._size(history)
        return self._thrash(history) if history.kind == COMPACTION else None

    def _size(self, history: History) -> Finding | None:
        """Sizes beyond their limits."""
        known = history.known
        if known.context > self.tokens:
            detail = f"{known.context:,} context tokens are more than {self.tokens:,}"
            return self._found(history, known.context, self.tokens, detail)
        due = self.compaction_at
        near = due - due // 10 if due is not None else self.tokens
        if due is not None and known.context >= near:
            detail = f"the context is about to be compacted: {known.context:,} tokens"
            return self._found(history, known.context, near, f"{detail} of {due:,}")
        before = known.output - known.added
        if known.output // self.output > before // self.output:
            detail = (
                f"{known.output:,} bytes of tool output since the last compaction are "
                f"more than {self.output:,}"
            )
            return self._found(history, known.output, self.output, detail)
        return None

    def _found(self, history: History, count: int, limit: int, detail: str) -> Finding:
        return Finding(
            kind=self.kind,
            steps=(history.i,),
            count=count,
            threshold=limit,
            detail=detail,
            key=1,
            again=10,
        )

    def _thrash(self, history: History) -> Finding | None:
        """Compactions right after each other, with nothing learned between."""
        turns = history.turns
        start = fence(history)
        found: list[int] = []
        between = 0
        for k in range(len(turns.i) - 1, -1, -1):
            if turns.i[k] <= start or between > 1 or turns.gain[k] == MUCH:
                break
            if turns.kind[k] == COMPACTION:
                found.insert(0, turns.i[k])
                between = 0
            else:
                between += turns.kind[k] == CALLS
        detail = "the context was compacted {n} times and no work was done between"
        return report(self, found, self.compactions, detail, key=2)

"""What a detector saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

GAVE_UP = "gave_up"
"""The kind of what is no loop: the agent itself says that it can't go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Repetition without progress, with its evidence.

    Attributes:
        kind: Which detector: `repeat`, `churn`, ...
        steps: The turns that make up the loop, oldest first; the first one may still
            have been honest.
        count: How often it happened.
        threshold: From which count on it is a finding.
        detail: One sentence for a person.
        key: Digest of what is repeated; the same loop keeps its key.
        tool: The tool concerned, where it is one.
        holds: Digests of the calls that make the loop; they are blocked if they come
            again after a reflection.
        files: Digests of the files that were edited in circles; edits of them are
            blocked after a reflection.
        again: Fresh turns of evidence after an intervention that make a new trigger.
    """

    kind: str
    steps: tuple[int, ...]
    count: int
    threshold: int
    detail: str
    key: int = 0
    tool: str = ""
    holds: tuple[int, ...] = ()
    files: tuple[int, ...] = ()
    again: int = 1

    @property
    def onset(self) -> int:
        """The first turn that went in circles: the first one again."""
        return self.steps[min(1, len(self.steps) - 1)] if self.steps else 0

    def as_dict(self) -> dict[str, Any]:
        """The finding as the command line prints it."""
        return {
            "kind": self.kind,
            "step": self.steps[-1] if self.steps else None,
            "count": self.count,
            "threshold": self.threshold,
            "detail": self.detail,
            "steps": list(self.steps),
        }

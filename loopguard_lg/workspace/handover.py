"""What a person, or a fresh run, needs in order to go on: the hand-over document.

It is made of an exit report, which every ended run has, or of the report of a run that
goes on. Texts of tools and models are data: short, on one line, in code marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from loopguard_lg import prompts
from loopguard_lg.quoting import defused, flat
from loopguard_lg.redaction import masked


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """Where a run stands.

    Attributes:
        goal: What the person asked for.
        reason: Why the run ended, or is handed over.
        done: Writes that were made, with their receipts.
        open: Items of the plan that are not ticked off.
        tried: Calls that brought nothing, with how often.
        ruled_out: Calls that are known to lead nowhere, with why.
        facts: What is known.
        files: Files that were written.
        checkpoint: The last good point: `message` in the thread, `snapshot` of the
            files; either may be missing.
        unproven: What was claimed and not shown.
        partial: The agent's newest words.
    """

    goal: str = ""
    reason: str = ""
    done: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    ruled_out: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    checkpoint: Mapping[str, str]
    unproven: tuple[str, ...] = ()
    partial: str = ""

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Handover:
        """The hand-over of an exit report; what it does not know stays empty."""
        snapshot = (report.get("workspace") or {}).get("snapshot")
        point = {"message": report.get("good"), "snapshot": snapshot}
        lists = {
            field.name: tuple(
                map(str, report.get(_NAMES.get(field.name, field.name), ()))
            )
            for field in fields(cls)
            if field.default == ()
        }
        return cls(
            goal=str(report.get("goal") or ""),
            reason=str(report.get("detail") or ""),
            partial=str(report.get("partial") or ""),
            checkpoint={name: str(at) for name, at in point.items() if at},
            **lists,
        )

    def data(self) -> dict[str, Any]:
        """The document as plain data."""
        found = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}

    def markdown(self) -> str:
        """The document for people; parts about which nothing is known are left out."""
        point = [f"{name} {at}" for name, at in self.checkpoint.items()]
        parts = [
            "# Hand-over",
            _part("Goal", [self.goal]),
            _part("Why it stopped", [self.reason]),
            _part("Claimed, not shown", self.unproven),
            _part("Done", self.done),
            _part("Open", self.open),
            _part("Ruled out", self.ruled_out),
            _part("Tried in vain", self.tried),
            _part("Known", self.facts),
            _part("Files touched", self.files),
            _part("Last good checkpoint", point),
            _part("Newest words of the agent", [self.partial]),
        ]
        return "\n\n".join(filter(None, parts)) + "\n"

    def fresh_start(self) -> str:
        """The first message of a run that goes on from here with an empty context."""
        return prompts.fresh_start(self.goal, self.markdown())


_NAMES = {"done": "writes"}
"""Where a report calls a part otherwise."""


def _part(title: str, entries: Iterable[str]) -> str:
    lines = [f"- {_code(entry)}" for entry in entries if entry.strip()]
    return "\n".join([f"## {title}", "", *lines]) if lines else ""


def _code(text: str) -> str:
    """A text as a code span, whatever is in it: back ticks, controls, secrets."""
    line = masked(defused(flat(text)))
    longest = max(map(len, re.findall("`+", line)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if line[:1] == "`" or line[-1:] == "`" else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"

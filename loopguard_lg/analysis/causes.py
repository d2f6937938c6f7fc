"""Why runs go in circles: the root causes a person can name, and how often each is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopguard_lg.analysis.labels import Labels

CAUSES = {
    "uninformative_error": "a tool's error does not say what to do",
    "empty_result": "an empty result is not told from a failure",
    "truncated_result": "a result was cut, and nothing says so",
    "overlapping_tools": "two tools do about the same, and the agent can't choose",
    "missing_tool": "the tool that the task needs is not there",
    "broken_tool": "the tool or its server does not work",
    "context_overflow": "what was known fell out of the context",
    "impossible_task": "the task can't be done, and nobody said so",
    "unclear_task": "the task leaves open what would be right",
    "no_exit": "there is no way to give up or to ask",
    "weak_model": "the model does not draw the conclusion that is in front of it",
    "other": "something else: say it in the reason",
}
"""The root causes by name, with what each means."""

UNKNOWN = "(not said)"


def breakdown(labels: Labels) -> list[dict[str, Any]]:
    """How many of the labelled loops have each root cause, the most frequent first.

    Each row has `name`, `kind` and `runs`, as the other tables of a report. Empty where
    no label names a cause.
    """
    loops = [label for label in labels.values() if label.loop is True]
    if not any(label.cause for label in loops):
        return []
    counts = Counter((label.cause or UNKNOWN, label.kind or "other") for label in loops)
    return [
        {"name": name, "kind": kind, "runs": runs}
        for (name, kind), runs in counts.most_common()
    ]

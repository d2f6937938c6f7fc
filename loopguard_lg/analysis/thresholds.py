"""Which thresholds of detectors agree best with labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loopguard_lg.analysis.labels import Label
from loopguard_lg.analysis.replay import check
from loopguard_lg.analysis.score import Confusion
from loopguard_lg.detectors import Detector
from loopguard_lg.policy import Policy
from loopguard_lg.traces.model import Trajectory

KNOBS = {
    "repeat": "times",
    "near_repeat": "times",
    "recurring_error": "times",
    "churn": "steps",
    "oscillation": "laps",
    "failing_edits": "times",
    "planner": "times",
}
"""The thresholds that are tried, by kind of detector."""

ENOUGH = 20
"""Labelled loops, and labelled honest runs, below which nothing is changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A threshold that does better than the policy's own.

    Attributes:
        kind: The detector.
        knob: Its setting.
        was: The policy's value.
        value: The better one.
        before: How the policy's verdicts agreed with the labels.
        after: How they do with the better value.
    """

    kind: str
    knob: str
    was: int
    value: int
    before: Confusion
    after: Confusion

    def as_dict(self) -> dict[str, Any]:
        """The choice for a machine to read."""
        known = {"kind": self.kind, "knob": self.knob, "was": self.was}
        sides = {"before": self.before.as_dict(), "after": self.after.as_dict()}
        return {**known, "value": self.value, **sides}


def choose(
    policy: Policy, runs: Sequence[tuple[Trajectory, Label]]
) -> tuple[Choice, ...]:
    """Thresholds with a better F1 on labelled runs, one detector after the other.

    A value is taken only if it makes no more false trips than the one before; each is
    weighed with those that were chosen before it. They are chosen on these labels and
    not checked on others: expect a little less.

    Args:
        policy: Where to start from.
        runs: Runs with labels; `unclear` ones are left out.
    """
    clear = [(run, bool(at.loop)) for run, at in runs if at.loop != "unclear"]
    loops = sum(loop for _, loop in clear)
    if min(loops, len(clear) - loops) < ENOUGH:
        return ()
    found = []
    best = _confusion(policy, clear)
    for spec in policy.detectors:
        for value in _values(spec):
            changed = with_threshold(policy, spec.kind, value)
            other = _confusion(changed, clear)
            if _better(other, best):
                knob = KNOBS[spec.kind]
                was = getattr(spec, knob)
                found.append(
                    Choice(
                        kind=spec.kind, knob=knob, was=was, value=value,
                        before=best, after=other,
                    )
                )  # fmt: skip
                policy, best = changed, other
    latest = {choice.kind: choice for choice in found}
    return tuple(latest.values())


def with_threshold(policy: Policy, kind: str, value: int) -> Policy:
    """The policy with another threshold of one detector."""
    changes: Mapping[str, Any] = {KNOBS[kind]: value}
    detectors = [
        replace(spec, **changes) if spec.kind == kind else spec  # type: ignore[type-var]
        for spec in policy.detectors
    ]
    return policy.replace(detectors=detectors)


def _values(spec: Detector) -> Iterator[int]:
    """Values around the detector's own; two is the fewest that repeats."""
    knob = KNOBS.get(spec.kind)
    if knob is not None:
        own = getattr(spec, knob)
        yield from (v for v in (own - 1, own + 1, own + 2) if v >= 2)


def _confusion(policy: Policy, runs: Sequence[tuple[Trajectory, bool]]) -> Confusion:
    counts = Confusion()
    for run, loop in runs:
        counts.add(loop, check(policy, run).tripped)
    return counts


def _better(one: Confusion, other: Confusion) -> bool:
    return one.fp <= other.fp and (one.f1 or 0) > (other.f1 or 0)

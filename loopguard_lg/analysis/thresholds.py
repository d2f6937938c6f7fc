"""Which thresholds of detectors agree best with labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loopguard_lg.analysis.labels import Label
from loopguard_lg.analysis.replay import check
from loopguard_lg.analysis.score import Confusion
from loopguard_lg.analysis.told import Told
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

_FEWEST = 2
"""Times that repeat; a lower threshold would trip on the first."""

ENOUGH = 20
"""Labelled loops, and labelled honest runs, below which nothing is changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Told):
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
    clear = [(run, at.loops) for run, at in runs if at.loops is not None]
    loops = sum(loop for _, loop in clear)
    if min(loops, len(clear) - loops) < ENOUGH:
        return ()
    found = []
    now = _confusion(policy, clear)
    for kind in [spec.kind for spec in policy.detectors if spec.kind in KNOBS]:
        choice = _best(policy, kind, now, clear)
        if choice.value != choice.was:
            policy = with_threshold(policy, kind, choice.value)
            now = choice.after
            found.append(choice)
    return tuple(found)


def _best(
    policy: Policy, kind: str, now: Confusion, runs: Sequence[tuple[Trajectory, bool]]
) -> Choice:
    """The best threshold of one detector, which may be its own."""
    spec = next(spec for spec in policy.detectors if spec.kind == kind)
    was = value = getattr(spec, KNOBS[kind])
    best = now
    # Near the policy's own: a far one that wins on some labels rarely does on others.
    for other in (n for n in (was - 1, was + 1, was + 2) if n >= _FEWEST):
        found = _confusion(with_threshold(policy, kind, other), runs)
        if _better(found, best):
            value, best = other, found
    about = {"kind": kind, "knob": KNOBS[kind]}
    return Choice(**about, was=was, value=value, before=now, after=best)


def with_threshold(policy: Policy, kind: str, value: int) -> Policy:
    """The policy with another threshold of one detector."""
    changes: Mapping[str, Any] = {KNOBS[kind]: value}
    detectors = [
        replace(spec, **changes) if spec.kind == kind else spec  # type: ignore[type-var]
        for spec in policy.detectors
    ]
    return policy.replace(detectors=detectors)


def _confusion(policy: Policy, runs: Sequence[tuple[Trajectory, bool]]) -> Confusion:
    counts = Confusion()
    for run, loop in runs:
        counts.add(loop, check(policy, run).tripped)
    return counts


def _better(one: Confusion, other: Confusion) -> bool:
    return one.fp <= other.fp and (one.f1 or 0) > (other.f1 or 0)

"""Regression tests for runs: does the guard see a loop in what happened?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage

from loopguard_lg.adapters.transcript import events_of
from loopguard_lg.analysis.replay import Outcome, check
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Event
from loopguard_lg.testing.recorded_runs import runs_below
from loopguard_lg.traces.model import Trajectory, from_dict

Runs: TypeAlias = (
    str
    | os.PathLike[str]
    | Trajectory
    | Mapping[str, Any]
    | Iterable[Event]
    | Iterable[BaseMessage]
)
"""A file or folder of trajectories or of recorded traffic, a trajectory (also as the
JSON object), the result of an agent (its `messages`), a list of messages, or the events
themselves."""


def assert_no_loop(runs: Runs, policy: Policy | None = None) -> None:
    """Assert that the guard would not have acted in any of the runs.

    Args:
        runs: What happened.
        policy: The settings; the default policy if `None`.

    Raises:
        AssertionError: It would have; with the kind, the step and the evidence.
    """
    for outcome in _outcomes(runs, policy):
        assert not outcome.tripped, f"{outcome.id} goes in circles: {_seen(outcome)}"


def assert_trips(
    runs: Runs,
    *,
    kind: str | None = None,
    by: int | None = None,
    policy: Policy | None = None,
) -> None:
    """Assert that the guard would have acted in every one of the runs.

    Args:
        runs: What happened.
        kind: The kind of finding that it first acts on (`repeat`, ..., `budget`).
        by: It acts at this step or earlier.
        policy: The settings; the default policy if `None`.

    Raises:
        AssertionError: It would not have, or on something else, or later.
    """
    for outcome in _outcomes(runs, policy):
        assert outcome.step is not None, f"{outcome.id} never trips"
        trip = f"{outcome.id} trips on {_seen(outcome)}"
        assert kind in (None, outcome.kind), f"{trip}; expected {kind}"
        late = by is not None and outcome.step > by
        assert not late, f"{trip}; expected by step {by}"


def assert_loop_rate(
    runs: Runs, *, at_most: float, policy: Policy | None = None
) -> None:
    """Assert that no more than a share of the runs goes in circles.

    Args:
        runs: What happened: also a folder of recordings, of runs or of model traffic.
        at_most: The share, from 0 to 1.
        policy: The settings; the default policy without a budget if `None`.

    Raises:
        AssertionError: More do; with each of them.
    """
    outcomes = _outcomes(runs, policy or Policy(budget=()))
    loops = [outcome for outcome in outcomes if outcome.tripped]
    told = "\n".join(f"  {loop.id}: {_seen(loop)}" for loop in loops)
    share = len(loops) / len(outcomes)
    head = (
        f"{len(loops)} of {len(outcomes)} runs go in circles, more than {at_most:.1%}"
    )
    assert share <= at_most, f"{head}:\n{told}"


def _seen(outcome: Outcome) -> str:
    return f"{outcome.kind} at step {outcome.step}: {outcome.detail}"


def _outcomes(runs: Runs, policy: Policy | None) -> list[Outcome]:
    chosen = policy or Policy()
    outcomes = [check(chosen, run) for run in _trajectories(runs)]
    assert outcomes, "there is no run to look at"
    return outcomes


def _trajectories(runs: Runs) -> Iterator[Trajectory]:
    if isinstance(runs, str | os.PathLike):
        yield from runs_below(runs)
    elif isinstance(runs, Trajectory):
        yield runs
    elif isinstance(runs, Mapping) and "steps" in runs:
        yield from_dict(runs)
    else:
        parts = runs["messages"] if isinstance(runs, Mapping) else runs
        yield Trajectory(id="the run", events=tuple(events_of(parts)))

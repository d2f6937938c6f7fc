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
from loopguard_lg.traces.model import Trajectory, from_dict
from loopguard_lg.traces.readers import read

Runs: TypeAlias = (
    str
    | os.PathLike[str]
    | Trajectory
    | Mapping[str, Any]
    | Iterable[Event]
    | Iterable[BaseMessage]
)
"""A file of trajectories, a trajectory (also as the JSON object), the result of an
agent (its `messages`), a list of messages, or the events themselves."""


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
    by_step: int | None = None,
    policy: Policy | None = None,
) -> None:
    """Assert that the guard would have acted in every one of the runs.

    Args:
        runs: What happened.
        kind: The kind of finding that it first acts on (`repeat`, ..., `budget`).
        by_step: It acts at this step or earlier.
        policy: The settings; the default policy if `None`.

    Raises:
        AssertionError: It would not have, or on something else, or later.
    """
    for outcome in _outcomes(runs, policy):
        assert outcome.step is not None, f"{outcome.id} never trips"
        trip = f"{outcome.id} trips on {_seen(outcome)}"
        assert kind in (None, outcome.kind), f"{trip}; expected {kind}"
        late = by_step is not None and outcome.step > by_step
        assert not late, f"{trip}; expected by step {by_step}"


def _seen(outcome: Outcome) -> str:
    return f"{outcome.kind} at step {outcome.step}: {outcome.detail}"


def _outcomes(runs: Runs, policy: Policy | None) -> list[Outcome]:
    chosen = policy or Policy()
    outcomes = [check(chosen, run) for run in _trajectories(runs)]
    assert outcomes, "there is no run to look at"
    return outcomes


def _trajectories(runs: Runs) -> Iterator[Trajectory]:
    if isinstance(runs, str | os.PathLike):
        for run in read(os.fspath(runs)):
            if isinstance(run, Exception):
                raise run
            yield run
    elif isinstance(runs, Trajectory):
        yield runs
    elif isinstance(runs, Mapping) and "steps" in runs:
        yield from_dict(runs)
    else:
        parts = runs["messages"] if isinstance(runs, Mapping) else runs
        yield Trajectory(id="the run", events=tuple(events_of(parts)))

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
import pytest

from loopguard_lg import Budget, Finding, Policy, Repeat
from loopguard_lg.analysis.replay import BATCH, Outcome, check, map_runs
from loopguard_lg.errors import TraceFormatError
from loopguard_lg.traces.model import Trajectory, from_dict
from loopguard_lg.traces.readers import Line

POLICY = Policy(detectors=(Repeat(),), budget=())


def run(*results: str, name: str = "r", first: int = 0) -> dict[str, Any]:
    """A run that asks the same thing each time and is given `results`."""
    steps = [
        {
            "i": first + at,
            "agent": "main",
            "calls": [{"tool": "search", "args": {"q": "x"}, "result": result}],
        }
        for at, result in enumerate(results)
    ]
    return {"id": name, "source": "here", "success": False, "steps": steps}


def loop(name: str = "r", first: int = 0) -> Trajectory:
    """A run that goes in circles."""
    return from_dict(run(*["none"] * 6, name=name, first=first))


def test_a_loop_trips_where_the_guard_would_have_acted() -> None:
    """The outcome names the step, the kind, the count and the words for it."""
    outcome = check(POLICY, loop())

    assert (outcome.kind, outcome.step, outcome.count) == ("repeat", 2, 3)
    assert "search" in (outcome.detail or "")


def test_steps_are_those_of_the_recording() -> None:
    """A recording that starts at another position keeps its numbers."""
    assert check(POLICY, loop(first=100)).step == 102


def test_work_does_not_trip() -> None:
    """The same call with new results is no loop."""
    outcome = check(POLICY, from_dict(run("found one", "found two", "something else")))

    assert not outcome.tripped
    assert outcome.as_dict()["kind"] is None


def test_a_loop_is_listed_once() -> None:
    """The same loop that goes on is one finding, where it was first seen."""
    (finding,) = check(POLICY, loop()).findings

    assert (finding.kind, finding.steps[-1]) == ("repeat", 2)


def test_a_budget_trips_when_the_policy_has_one() -> None:
    """A run that a budget would have ended counts, as kind `budget`."""
    outcome = check(POLICY.replace(budget=Budget(steps=2)), loop())

    assert (outcome.kind, outcome.step, outcome.count) == ("budget", 1, None)


def test_the_printed_form_has_the_contract_s_keys() -> None:
    """A machine finds what the format promises."""
    finding = Finding(kind="k", steps=(1, 2), count=2, threshold=2, detail="d", key=9)
    outcome = Outcome(
        id="x", step=2, kind="k", count=2, detail="d", findings=(finding,)
    )

    assert outcome.as_dict() == {
        "id": "x",
        "tripped": True,
        "kind": "k",
        "step": 2,
        "count": 2,
        "detail": "d",
        "findings": [finding.as_dict()],
    }


@pytest.mark.parametrize("jobs", [1, 2])
def test_outcomes_come_in_order_however_many_share_the_work(jobs: int) -> None:
    """Order and errors are the same in one process and in several."""
    source: list[Line | TraceFormatError] = [
        Line("f", n, orjson.dumps(run(*["none"] * (n % 5), name=str(n))))
        for n in range(BATCH * 3)
    ]
    source[70] = Line("f", 70, b"{")

    outcomes = list(map_runs(partial(check, POLICY), source, jobs))

    assert isinstance(outcomes[70], TraceFormatError)
    names = [o.id for o in outcomes if isinstance(o, Outcome)]
    assert names == [str(n) for n in range(BATCH * 3) if n != 70]
    assert {o.tripped for o in outcomes if isinstance(o, Outcome)} == {True, False}


def test_nothing_in_is_nothing_out() -> None:
    """An empty source has no outcomes."""
    assert list(map_runs(partial(check, POLICY), [])) == []

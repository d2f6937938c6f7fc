"""The public API as users write it; checked by mypy and pyright, never run.

A line with `type: ignore` is a wrong use that both have to refuse.
"""

from __future__ import annotations

from typing import Any, assert_type

from loopguard_lg import (
    AskUser,
    Budget,
    Churn,
    Escalate,
    FailingEdits,
    Finding,
    GiveUp,
    GuardedToolNode,
    Human,
    Ladder,
    LoopGuardCallback,
    LoopGuardMiddleware,
    Oscillation,
    Policy,
    Recorder,
    Reflect,
    Repeat,
    Step,
    ToolPolicy,
    Turn,
    Usage,
    Verdict,
    decide,
    errors,
    fork_from_last_good,
    guarded,
)
from loopguard_lg.analysis.replay import check
from loopguard_lg.errors import TraceFormatError
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import read


def tests_passing(turn: Turn) -> bool:
    """A progress signal of the user's own."""
    return any("passed" in step.result for step in turn.steps)


@guarded
def a_part_keeps_its_type(text: str) -> int:
    """A decorated function is called as before."""
    return len(text)


@guarded(Policy(), observers=print)
async def a_run_keeps_its_type(text: str) -> str:
    """So is one with a policy."""
    return text


def other_ways_in(graph: Any) -> None:
    """What needs no middleware."""
    assert_type(a_part_keeps_its_type("x"), int)
    a_part_keeps_its_type(3)  # type: ignore[arg-type]
    GuardedToolNode([], Policy(), name="calls", messages_key="chat")
    assert_type(LoopGuardCallback(halt=True).policy, Policy)
    Escalate(restore=["todos"])
    Escalate(restore=3)  # type: ignore[arg-type]
    fork_from_last_good(graph, {"configurable": {"thread_id": "t"}})


def the_defaults_need_nothing() -> None:
    """Safe defaults."""
    assert_type(LoopGuardMiddleware().policy, Policy)


def a_preset_takes_settings() -> Policy:
    """One knob at a time."""
    budget = Budget(steps=60, usd=2.0, seconds=900, per_tool={"search": 5})
    return Policy.preset("coding", stronger_model="openai:gpt-5.5", budget=budget)


def everything_can_be_set(policy: Policy) -> Policy:
    """Composed from parts."""
    return policy.replace(
        detectors=[
            Repeat(times=3, window=10),
            Oscillation(laps=3),
            Churn(steps=5),
            FailingEdits(times=3),
        ],
        ladder=Ladder(Reflect(), Escalate(turns=5), AskUser(fallback=GiveUp())),
        tools={"check_ci": ToolPolicy(role="poll")},
        progress=[tests_passing],
    )


def the_engine_is_a_function(policy: Policy) -> None:
    """Memory goes in and comes out as plain data."""
    step = Step(tool="search", args={"q": "x"}, result="none")
    verdict, memory = decide(policy, None, Turn(agent="main", steps=(step,)))
    assert_type(verdict, Verdict)
    assert_type(memory, dict[str, Any])
    assert_type(verdict.finding, Finding | None)
    decide(policy, memory, Human(text="go on"))


def recordings_are_read_and_written(policy: Policy) -> None:
    """A line that can't be read is a value, so that it can't be forgotten."""
    for run in read("runs.jsonl"):
        assert_type(run, Trajectory | TraceFormatError)
        if isinstance(run, Trajectory):
            assert_type(check(policy, run).step, int | None)
    with Recorder("runs.jsonl", source="here") as recorder:
        LoopGuardMiddleware(policy, observers=[recorder])
        recorder.end("thread", success=True)


def errors_carry_data() -> None:
    """What went wrong is in attributes."""
    try:
        everything_can_be_set(Policy())
    except errors.PolicyError as error:
        raise SystemExit(str(error)) from error
    except errors.TraceFormatError as error:
        assert_type(error.line, int)


def wrong_uses_are_refused(policy: Policy) -> None:
    """Each of these lines is an error, in both checkers."""
    LoopGuardMiddleware("coding")  # type: ignore[arg-type]
    LoopGuardMiddleware(policy, "name")  # type: ignore[call-arg]
    Budget(60)  # type: ignore[call-arg]
    Budget(steps="60")  # type: ignore[arg-type]
    Budget(scope="day")  # type: ignore[arg-type]
    Ladder("reflect")  # type: ignore[arg-type]
    ToolPolicy(role="browse")  # type: ignore[arg-type]
    Step("search")  # type: ignore[call-arg]
    decide(policy, None, "hello")  # type: ignore[arg-type]
    Usage(steps=1).steps = 2  # type: ignore[misc]

"""A model that gives up makes way for the stronger one first, and ends the run then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool

from loopguard_lg import Budget, Policy, Recorder
from loopguard_lg.analysis.replay import verdicts
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.traces.readers import read as recordings
from tests.middleware.runs import (
    TOOLS,
    Way,
    ask,
    guarded,
    laddered,
    last,
    results,
    same,
)

GIVES_UP = call("give_up", reason="there is no such file")


def weak(*then: Any) -> ScriptedModel:
    """A model that looks once and gives up."""
    return ScriptedModel(replies=[call("read", path="a"), GIVES_UP, *then])


def reason(state: dict[str, Any]) -> str:
    """Why a run was ended."""
    return str(state["loopguard_exit"]["reason"])


def test_the_stronger_model_goes_on(way: Way) -> None:
    """It is asked next, is told why, and does not see the turn that gave up."""
    model, strong = weak(), ScriptedModel(replies=["in the attic"])

    state = way(guarded(model, laddered(strong)), ask(), None)

    (request,) = strong.requests
    assert last(state).text == "in the attic"
    assert "the agent gave up: there is no such file" in request.text
    assert len(results(request.messages)) == 1
    assert state.get("loopguard_exit") is None


def test_what_gives_up_after_that_ends_the_run(way: Way) -> None:
    """The stronger model's own giving up, or the weak one's later, is the end."""
    strong = ScriptedModel(replies=[call("read", path="b")])

    state = way(guarded(weak(GIVES_UP), laddered(strong)), ask(), None)

    assert reason(state) == "gave_up"
    assert len(strong.requests) == 1


def test_it_ends_the_run_where_no_other_model_is_left(way: Way) -> None:
    """An escalation to the same model would only ask the one again that gave up."""
    state = way(guarded(weak(), laddered()), ask(), None)

    assert reason(state) == "gave_up"
    assert "there is no such file" in last(state).text


def test_giving_up_is_nothing_that_was_tried() -> None:
    """However often, it stands in the report as the reason alone."""
    strong = ScriptedModel(replies=[GIVES_UP])

    state = guarded(weak(), laddered(strong)).invoke(ask())

    assert reason(state) == "gave_up"
    assert state["loopguard_exit"]["tried"] == []


def test_giving_up_twice_in_the_first_turn_is_early_too() -> None:
    """A batch of nothing else has tried nothing."""
    model = ScriptedModel(replies=[[GIVES_UP, GIVES_UP], "it is a file"])

    state = guarded(model).invoke(ask())

    assert last(state).text == "it is a file"
    assert all(found.text.startswith("Not yet") for found in results(state["messages"]))


def test_a_budget_that_is_out_comes_first() -> None:
    """No stronger model is called on top of it."""
    strong = ScriptedModel(default="found")
    policy = laddered(strong).replace(budget=Budget(model_calls=2))

    state = guarded(weak(), policy).invoke(ask())

    assert reason(state) == "gave_up"
    assert not strong.requests


def test_a_tool_of_the_same_name_is_the_apps_own() -> None:
    """What it does is the app's business, not the ladder's."""

    @tool
    def give_up(reason: str) -> str:
        """Write down why this can't be done."""
        return f"noted: {reason}"

    strong = ScriptedModel(default="found")
    agent = guarded(weak("it is not there"), laddered(strong), tools=[*TOOLS, give_up])

    assert last(agent.invoke(ask())).text == "it is not there"
    assert not strong.requests


def test_a_replay_hands_over_at_the_same_turn(tmp_path: Path) -> None:
    """The recording says what the tool is for, so nothing else is needed."""
    strong = ScriptedModel(replies=[*same(2), "found"])
    policy = laddered(strong)
    with Recorder(tmp_path / "runs.jsonl") as recorder:
        guarded(weak(), policy, observers=[recorder]).invoke(ask())
    (run,) = recordings(str(tmp_path / "runs.jsonl"))

    actions = [verdict.action for _, verdict in verdicts(policy, run)]

    assert actions == ["continue", "continue", "escalate", *["continue"] * 3]


@pytest.mark.parametrize("off", [Policy(observe_only=True), Policy(leave_tools=())])
def test_nothing_is_handed_over_where_the_guard_has_no_such_tool(off: Policy) -> None:
    """Watching alone, or without the tool, a call of it is one of an unknown tool."""
    model = ScriptedModel(replies=[GIVES_UP, "done"])

    assert last(guarded(model, off).invoke(ask())).text == "done"

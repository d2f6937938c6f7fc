from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode
from tenacity import stop_after_attempt, wait_fixed

from loopguard_lg import Budget, LoopGuardMiddleware, Policy, ToolPolicy, guard_graph
from loopguard_lg.acts import polling
from loopguard_lg.acts.calls import Made
from loopguard_lg.errors import PolicyError
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph import graphs
from tests.middleware.runs import THREAD, TOOLS, Way, ask, executed, last, results

slept: list[float] = []


@tool
def check_ci(run: str) -> str:
    """Ask how far a build is."""
    executed.append(f"poll {run}")
    return "done" if len(executed) > 6 else "still running"


@tool
def job_status(job: str) -> str:
    """Ask how far a job is."""
    executed.append(f"status {job}")
    return "still running"


@tool
def wait(minutes: int) -> str:
    """Let time pass."""
    return "waited"


async def asleep(seconds: float) -> None:
    """Let no time pass, on an event loop."""
    slept.append(seconds)


NO_TIME: Any = {"sleep": slept.append, "asleep": asleep, "clock": lambda: 0.0}
POLL = call("check_ci", run="7")
ALL = [*TOOLS, check_ci, job_status, wait]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    slept.clear()


def declared(**settings: Any) -> Policy:
    """A policy that knows the poll."""
    return Policy(tools={"check_ci": ToolPolicy(role="poll", **settings)})


def agent(model: ScriptedModel, policy: Policy | None = None) -> Any:
    """An agent for which no time passes."""
    guard = LoopGuardMiddleware(policy, **NO_TIME)
    return create_agent(model, ALL, middleware=[guard])


def patient() -> ScriptedModel:
    """A model that polls until the build is done."""

    def reply(messages: list[BaseMessage]) -> Any:
        return "built" if messages[-1].text == "done" else POLL

    return ScriptedModel(default=reply)


def test_repeated_polls_are_slowed_and_not_flagged(way: Way) -> None:
    """The agent gets to the end of the build at the pace of the policy."""
    state = way(agent(patient(), declared(wait=wait_fixed(30))), ask(), THREAD)

    assert last(state).text == "built"
    assert slept == [30] * 6


def test_without_the_policy_the_agent_is_taken_for_looping() -> None:
    """A name that sounds like a poll is slowed, but no licence to poll for ever."""
    state = agent(patient()).invoke(ask(), THREAD)

    assert "I stopped" in last(state).text
    assert sum(slept) < 30


def test_the_tool_node_of_a_graph_slows_polls_alone(way: Way) -> None:
    """A read beside the poll has its result in its place."""
    batch = [POLL, call("read", path="a")]
    model = ScriptedModel(replies=[POLL, batch, "end"])
    builder = graphs.react(model, tools=ToolNode(ALL))
    policy = declared(wait=wait_fixed(30))
    graph = guard_graph(builder, policy, model="agent", tools="tools", **NO_TIME)
    state = graphs.run(way, graph.compile())

    assert slept == [30]
    assert executed == ["poll 7", "read a", "poll 7"]
    names = [result.name for result in results(state["messages"])]
    assert names == ["check_ci", "check_ci", "read"]


def test_a_poll_by_name_is_slowed_gently() -> None:
    """Where nothing is declared the pauses grow from one second."""
    polls = [call("job_status", job="1")] * 3
    agent(ScriptedModel(replies=[*polls, "end"])).invoke(ask(), THREAD)

    assert slept == [1, 2]


def test_what_is_no_poll_and_a_first_poll_are_not_slowed() -> None:
    """Reads, writes, and polls of different things go on at once."""
    calls = [call("job_status", job=str(n)) for n in range(4)]
    model = ScriptedModel(replies=[*calls, *[call("read", path="a")] * 2, "end"])
    agent(model).invoke(ask(), THREAD)

    assert slept == []


@pytest.mark.parametrize(
    "between", [call("write", path="b", text="x"), call("wait", minutes=5)]
)
def test_work_or_a_wait_between_two_polls_is_a_pause(between: Any) -> None:
    """Then the poll is a first one again."""
    model = ScriptedModel(replies=[POLL, between, POLL, "end"])
    agent(model, declared(wait=wait_fixed(30))).invoke(ask(), THREAD)

    assert slept == []


def test_after_the_stop_the_agent_is_told_what_to_do(way: Way) -> None:
    """The poll is not made: wait, end the turn, or hand over."""

    def reply(messages: list[BaseMessage]) -> Any:
        return "still running" if "end your turn" in messages[-1].text else POLL

    policy = declared(wait=wait_fixed(30), stop=stop_after_attempt(3))
    state = way(agent(ScriptedModel(default=reply), policy), ask(), THREAD)

    assert last(state).text == "still running"
    assert executed == ["poll 7"] * 3
    assert "wait with `wait`" in results(state["messages"])[-1].text


def test_a_pause_that_would_pass_the_budget_is_not_begun() -> None:
    """The agent is told to come to an end instead."""
    policy = declared(wait=wait_fixed(30)).replace(budget=Budget(seconds=20))
    model = ScriptedModel(replies=[POLL, POLL, "end"])
    state = agent(model, policy).invoke(ask(), THREAD)

    assert slept == []
    assert "Not executed" in results(state["messages"])[-1].text


def test_a_strategy_of_another_shape_is_refused() -> None:
    """A wrong setting says which, and what to give."""
    with pytest.raises(PolicyError, match="wait='3': give seconds, or a wait strategy"):
        ToolPolicy(wait="3")  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="stop=0: give a number of times, or a stop"):
        ToolPolicy(stop=0)


def test_numbers_stand_for_the_usual_strategies(way: Way) -> None:
    """Seconds between polls, and how many there may be: a file can say so."""
    model = ScriptedModel(replies=[POLL, POLL, POLL, "end"])
    state = way(agent(model, declared(wait=7, stop=2)), ask(), THREAD)

    assert slept == [7]
    assert "was polled 2 times" in results(state["messages"])[-1].text


makes = st.builds(
    Made,
    policy=st.just(ToolPolicy(role="poll")),
    digest=st.integers(0, 9),
    role=st.sampled_from(["poll", "poll", "poll", "read", "write", "wait"]),
    executed=st.booleans(),
    waited=st.floats(0, 60),
)


@given(batches=st.lists(st.lists(makes, max_size=3), max_size=30))
def test_polls_are_bounded_and_pauses_never_negative(batches: Any) -> None:
    """Whatever happens in between."""
    polls: polling.Polls = []
    for batch in batches:
        polls = polling.after(polls, batch)
        for one in batch:
            assert polling.pause(polls, one) >= 0

    assert len(polls) <= 3 * polling.ENTRIES

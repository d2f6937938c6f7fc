"""A node of tools that runs again: after an answer, or as it was retried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, interrupt

from loopguard_lg import GuardedToolNode, Policy, ToolPolicy
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph.graphs import Reporting, guarded, react
from tests.middleware.runs import THREAD, Way, ainvoke, ask, executed, invoke, results

NAMES = ("pay", "pay_by", "send", "sign")
ONCE = {name: ToolPolicy(role="write", once=True) for name in NAMES}


@tool
def pay(amount: int) -> str:
    """Pay somebody."""
    executed.append(f"pay {amount}")
    return f"paid {amount}"


@tool
def pay_by(amount: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
    """Pay somebody, by a command."""
    executed.append(f"pay {amount}")
    said = ToolMessage(f"paid {amount}", tool_call_id=tool_call_id)
    return Command(update={"messages": [said]})


@tool
async def send(text: str) -> str:
    """Send something, which takes its time to be confirmed."""
    executed.append(f"send {text}")
    for _ in range(50):
        await asyncio.sleep(0)
    return f"sent {text}"


@tool
def boss(question: str) -> str:
    """Ask the boss."""
    return f"the boss says {interrupt(question)}"


@tool
def sign(paper: str) -> str:
    """Sign a paper, if a person allows it."""
    answer = interrupt(paper)
    executed.append(f"sign {paper}")
    return f"signed {paper}: {answer}"


@tool
def flaky(times: int) -> str:
    """Fail so many times."""
    executed.append("flaky")
    if executed.count("flaky") <= times:
        raise ConnectionError("no route")
    return "there"


ALL = [pay, pay_by, send, boss, sign, flaky]
Make = Callable[..., Any]


def by_node(replies: list[Any], policy: Policy, saver: Any = None, **node: Any) -> Any:
    """A hand-written graph with the guarded node."""
    builder = react(ScriptedModel(replies=replies))
    del builder.nodes["tools"]
    builder.add_node("tools", GuardedToolNode(ALL, policy), **node)
    return builder.compile(checkpointer=saver or InMemorySaver())


def by_graph(replies: list[Any], policy: Policy, **node: Any) -> Any:
    """A guarded graph with the plain node."""
    builder = react(ScriptedModel(replies=replies))
    del builder.nodes["tools"]
    builder.add_node("tools", ToolNode(ALL), **node)
    return guarded(builder, policy, checkpointer=InMemorySaver())


@pytest.fixture(params=[by_node, by_graph])
def make(request: pytest.FixtureRequest) -> Make:
    """Each surface whose node executes several calls."""
    found: Make = request.param
    return found


def said(state: dict[str, Any]) -> list[str]:
    """The texts of the results."""
    return [message.text for message in results(state["messages"])]


@pytest.mark.parametrize("way", [invoke, ainvoke])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("name", ["pay", "pay_by"])
def test_what_is_done_once_is_not_done_again_after_an_answer(
    make: Make, way: Way, durability: Any, name: str
) -> None:
    """The result that it had before the question is the one that it has."""
    batch = [call(name, amount=1), call("boss", question="?"), call(name, amount=2)]
    graph = make([batch, "done"], Policy(tools=ONCE))
    kept = graph.with_config(durability=durability)

    way(kept, ask(), THREAD)
    state = way(kept, Command(resume="yes"), THREAD)

    assert sorted(executed) == ["pay 1", "pay 2"]
    assert said(state) == ["paid 1", "the boss says yes", "paid 2"]


def test_what_is_done_once_comes_to_its_end_beside_a_question(make: Make) -> None:
    """On an event loop a node leaves calls behind; the result of this one is seen."""
    batch = [call("send", text="a"), call("boss", question="?")]
    graph = make([batch, "done"], Policy(tools=ONCE))

    ainvoke(graph, ask(), THREAD)
    state = ainvoke(graph, Command(resume="yes"), THREAD)

    assert executed == ["send a"]
    assert said(state)[0] == "sent a"


@pytest.mark.parametrize("way", [invoke, ainvoke])
def test_what_is_done_once_is_not_done_again_by_a_retried_node(
    make: Make, way: Way
) -> None:
    """A call beside it that raises makes LangGraph run the node again."""
    retry = RetryPolicy(initial_interval=0.01, retry_on=ConnectionError)
    batch = [call("pay", amount=1), call("flaky", times=2)]
    graph = make([batch, "done"], Policy(tools=ONCE), retry_policy=retry)

    state = way(graph, ask(), THREAD)

    assert executed.count("pay 1") == 1
    assert said(state) == ["paid 1", "there"]


def test_each_answer_finds_the_call_that_asked(make: Make) -> None:
    """Also where one that is made once asks by itself: its result is not kept then."""
    batch = [call("boss", question="?"), call("sign", paper="p"), call("pay", amount=1)]
    graph = make([batch, "done"], Policy(tools=ONCE))

    state = graph.invoke(ask(), THREAD)
    while asked := state.get("__interrupt__"):
        answer = {"?": "fine", "p": "with pleasure"}[asked[0].value]
        state = graph.invoke(Command(resume=answer), THREAD)

    assert said(state)[::2] == ["the boss says fine", "paid 1"]
    assert said(state)[1] == "signed p: with pleasure"


def test_a_call_that_was_refused_by_the_tool_may_be_made_again(make: Make) -> None:
    """Only what has worked is kept: an error may pass."""
    policy = Policy(tools={"flaky": ToolPolicy(role="write", once=True)})
    batch = [call("flaky", times=1), call("boss", question="?")]
    graph = make([batch, batch, "done"], policy.replace(tool_errors="return"))

    graph.invoke(ask(), THREAD)
    graph.invoke(Command(resume="yes"), THREAD)
    state = graph.invoke(Command(resume="yes"), THREAD)

    assert executed.count("flaky") == 2
    assert said(state)[-1] == "the boss says yes"


def test_a_batch_that_ran_again_is_told_and_counted_once() -> None:
    """The question in it made the node run twice."""
    told: list[Any] = []
    batch = [call("pay", amount=1), call("boss", question="?")]
    builder = react(ScriptedModel(replies=[batch, "done"]), tools=ToolNode(ALL))
    graph = guarded(builder, observers=told.append, checkpointer=InMemorySaver())

    graph.invoke(ask(), THREAD)
    graph.invoke(Command(resume="yes"), THREAD)

    memory = graph.get_state(THREAD).values["loopguard"]
    assert memory["used"]["run"]["tool_calls"] == 2
    assert [len(e.event.steps) for e in told if hasattr(e.event, "steps")] == [2, 0]


def test_of_a_batch_only_the_call_that_raised_has_failed(make: Make) -> None:
    """With `tool_errors="return"` the others keep their results."""
    batch = [call("pay", amount=1), call("flaky", times=1), call("pay", amount=2)]
    graph = make([batch, "done"], Policy(tool_errors="return"))

    state = graph.invoke(ask(), THREAD)

    assert [m.status for m in results(state["messages"])] == [
        "success",
        "error",
        "success",
    ]
    assert said(state)[::2] == ["paid 1", "paid 2"]


class Counting(Reporting):
    """A state that counts rounds, without a reducer."""

    rounds: int


@pytest.mark.parametrize(
    "policy",
    [
        Policy(tool_errors="return"),
        Policy(tools=ONCE),
        Policy(tools={"look": ToolPolicy(retry=True)}),
    ],
)
def test_a_node_of_your_own_may_write_other_keys(policy: Policy, way: Way) -> None:
    """However many times it runs for one batch: the last value counts."""

    def tools(state: Counting) -> Any:
        calls = state["messages"][-1].tool_calls
        found = [ToolMessage("ok", tool_call_id=one["id"]) for one in calls]
        return {"messages": found, "rounds": state.get("rounds", 0) + 1}

    batch = [call("look", path="a"), call("pay", amount=1), call("read", path="b")]
    model = ScriptedModel(replies=[batch, "done"])
    graph = guarded(react(model, Counting, tools), policy)

    state = way(graph, ask(), {})
    assert state["rounds"] == 1
    assert said(state) == ["ok"] * 3

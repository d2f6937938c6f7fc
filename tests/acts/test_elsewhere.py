"""At most once, cache and pace where the guard keeps no memory of its own, and beside
calls that fail.
"""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send
from langgraph_swarm import create_swarm

from loopguard_lg import (
    GuardedToolNode,
    LoopGuardMiddleware,
    Policy,
    ToolPolicy,
    guard_graph,
)
from loopguard_lg.adapters.handoffs import handoff_tool
from loopguard_lg.adapters.messages import mark_of
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.testing.histories import validate_history
from tests.graph.graphs import react, run
from tests.middleware.runs import THREAD, Way, ask, invoke, results

sent: list[str] = []
"""What was really mailed, paid with which key, or looked at."""


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    """Begin with nothing sent."""
    sent.clear()


@tool
def mail(to: str) -> str:
    """Send a mail."""
    sent.append(to)
    return f"sent to {to}"


@tool
def pay(amount: int, request_id: str = "") -> str:
    """Pay an amount."""
    sent.append(request_id)
    return f"paid {amount}"


@tool
def look(at: str) -> str:
    """Look at something."""
    sent.append(at)
    return f"{at} is still pending"


@tool
def broken(x: str) -> str:
    """Do what never works."""
    raise RuntimeError("boom")


TOOLS = [mail, pay, look, broken]
ONCE = ToolPolicy(role="write", once=True)
POLICY = Policy(
    tools={
        "mail": ONCE,
        "pay": ToolPolicy(role="write", once=True, idempotency_key="request_id"),
    },
    tool_errors="return",
)


def in_node(model: ScriptedModel, policy: Policy = POLICY, **settings: Any) -> Any:
    """The usual graph with a guarded tool node."""
    return react(model, tools=GuardedToolNode(TOOLS, policy, **settings)).compile()


def test_a_write_beside_a_call_that_fails_is_made_once(way: Way) -> None:
    """In a graph, an error of another call does not hide that it has worked."""
    replies = [[call("mail", to="a"), call("broken", x="1")], call("mail", to="a")]
    builder = react(ScriptedModel(replies=[*replies, "done"]), tools=ToolNode(TOOLS))
    graph = guard_graph(builder, POLICY, model="agent", tools="tools").compile()

    told = [m.text for m in results(run(way, graph)["messages"])]

    assert sent == ["a"]
    assert told[0] == "sent to a"
    assert "failed" in told[1]


def test_results_stand_in_the_order_of_the_calls() -> None:
    """Whatever was executed apart, answered by the guard, or refused."""
    batch = [
        call("look", at="a"),
        call("mail", to="a"),
        call("mail", to="a"),
        call("look", at="b"),
        call("mail", to="b"),
        call("unknown", x=1),
    ]
    builder = react(ScriptedModel(replies=[batch, "done"]), tools=ToolNode(TOOLS))
    graph = guard_graph(builder, POLICY, model="agent", tools="tools").compile()

    messages = run(invoke, graph)["messages"]

    validate_history(messages[:-1])
    assert sorted(sent) == ["a", "a", "b", "b"]


def test_calls_that_share_an_id_keep_their_results() -> None:
    """The mail that was sent is known to be sent, and only that."""
    batch = [call("mail", "same", to="a"), call("look", "same", at="b")]
    replies = [batch, call("mail", to="a"), "done"]
    builder = react(
        ScriptedModel(replies=replies, validate=False), tools=ToolNode(TOOLS)
    )
    graph = guard_graph(builder, POLICY, model="agent", tools="tools").compile()

    told = [m.text for m in results(run(invoke, graph)["messages"])]

    assert told[0] == "sent to a"
    assert sorted(sent) == ["a", "b"]


def test_a_guarded_tool_node_makes_a_write_once(way: Way) -> None:
    """What has worked is read off the messages of the run."""
    model = ScriptedModel(replies=[call("mail", to="a")] * 2 + ["done"])

    state = run(way, in_node(model))

    assert sent == ["a"]
    assert "Done before" in results(state["messages"])[1].text


def test_a_guarded_tool_node_makes_a_write_again_for_a_new_word() -> None:
    """A person who says something new may want it twice."""
    model = ScriptedModel(replies=[call("mail", to="a"), "done"] * 2)
    graph = in_node(model)
    first = run(invoke, graph)

    run(invoke, graph, {"messages": [*first["messages"], ("user", "and again")]})

    assert sent == ["a", "a"]


def test_a_guarded_tool_node_has_a_key_for_each_run() -> None:
    """The same payment of another run is another payment."""
    for _ in range(2):
        run(invoke, in_node(ScriptedModel(replies=[call("pay", amount=1), "done"])))

    assert len(set(sent)) == 2
    assert all(sent)


def test_a_call_by_itself_keeps_the_key_that_it_came_with() -> None:
    """Without a run there is nothing that tells it from another one like it."""
    args = {"amount": 1, "request_id": "mine"}
    bare = {"name": "pay", "args": args, "id": "1", "type": "tool_call"}
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("tools", GuardedToolNode(TOOLS, POLICY))
    builder.add_conditional_edges(START, lambda _: [Send("tools", [bare])], ["tools"])

    builder.compile().invoke(ask())

    assert sent == ["mine"]


def test_a_guarded_tool_node_polls_at_a_pace() -> None:
    """The second poll waits, and the one after the last is not made."""
    slept: list[float] = []
    polls = Policy(tools={"look": ToolPolicy(role="poll", wait=30, stop=2)})
    model = ScriptedModel(replies=[call("look", at="ci")] * 3 + ["done"])

    run(invoke, in_node(model, polls, sleep=slept.append))

    assert sent == ["ci", "ci"]
    assert slept == [30]


def test_agents_of_a_swarm_make_a_write_once_between_them() -> None:
    """Who is handed the conversation knows what the others have done."""
    script = {
        "alice": [
            call("mail", to="a"),
            _to("bob", "tax"),
            call("mail", to="a"),
            "done",
        ],
        "bob": [call("mail", to="a"), _to("alice", "the rest of the order")],
    }
    agents = [
        create_agent(
            ScriptedModel(replies=script[name]),
            [mail, handoff_tool(other)],
            middleware=[LoopGuardMiddleware(POLICY, name=f"guard_of_{name}")],
            name=name,
        )
        for name, other in (("alice", "bob"), ("bob", "alice"))
    ]

    create_swarm(agents, default_active_agent="alice").compile().invoke(ask(), THREAD)

    assert sent == ["a"]


def _to(agent: str, task: str) -> Any:
    return call(f"transfer_to_{agent}", task=task, done_when="it is known")


class Chat(MessagesState):
    """A state whose messages have another name."""

    chat: Annotated[list[Any], add_messages]


@tool
def noting(x: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Write to the state."""
    return Command(update={"chat": [ToolMessage("noted", tool_call_id=tool_call_id)]})


def test_a_command_is_measured_under_the_name_of_the_messages() -> None:
    """What a tool took is noted whatever the key of the messages is."""
    asked = AIMessage(
        "", tool_calls=[{"name": "noting", "args": {"x": "1"}, "id": "1"}]
    )
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Chat)
    builder.add_node("tools", GuardedToolNode([noting], messages_key="chat"))
    builder.set_entry_point("tools")

    state = builder.compile().invoke({"chat": [("user", "go"), asked]})

    assert "seconds" in mark_of(state["chat"][-1])

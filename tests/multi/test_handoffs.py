from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command
from langgraph_swarm import create_swarm

from loopguard_lg import (
    Budget,
    GuardedToolNode,
    LoopGuardMiddleware,
    Policy,
    ToolPolicy,
    guard_graph,
)
from loopguard_lg.adapters.handoffs import handoff_tool
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.testing.histories import assert_valid_history
from tests.graph.graphs import react
from tests.middleware.runs import THREAD, TOOLS, Way, ask, executed, guarded, last

TEAM = ("alice", "bob", "carol")


def to(name: str, task: str, **more: str) -> Any:
    """A hand-over with its contract."""
    more = {"done_when": "the sum is known", **more}
    return call(f"transfer_to_{name}", task=task, **more)


def swarm(**replies: list[Any]) -> Any:
    """Three guarded agents, each of which may hand over to the others."""
    agents = [
        create_agent(
            ScriptedModel(replies=replies.get(name, ())),
            [*TOOLS, *(handoff_tool(other) for other in TEAM if other != name)],
            middleware=[LoopGuardMiddleware(name=f"guard_of_{name}")],
            name=name,
        )
        for name in TEAM
    ]
    built = create_swarm(agents, default_active_agent="alice")
    return built.compile(checkpointer=InMemorySaver())


@tool
def delegate(task: str) -> str:
    """Hand a task over."""
    executed.append(f"delegate {task}")
    return f"{task} is done"


def told(state: dict[str, Any], text: str) -> list[ToolMessage]:
    """The tool results that hold a text."""
    tools = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    return [m for m in tools if text in m.text]


def test_a_contract_reaches_the_agent_that_takes_over(way: Way) -> None:
    """It reads what is to be done and when it is; the state has it as data."""
    app = swarm(alice=[to("bob", "add it up")], bob=["42"])

    state = way(app, ask(), THREAD)

    (handed,) = told(state, "Handed over to bob: add it up")
    contract = handed.response_metadata["loopguard"]["handoff"]
    assert "Done when: the sum is known" in handed.text
    assert (contract["by"], contract["owner"]) == ("alice", "bob")
    assert last(state).text == "42"


def test_an_answer_already_given_is_handed_back(way: Way) -> None:
    """Asking a third agent for the same brings the answer, and no new work."""
    app = swarm(
        alice=[to("bob", "add up order 17"), to("carol", "add up order 17"), "done"],
        bob=[["it is 42", to("alice", "report the sum")]],
    )

    state = way(app, ask(), THREAD)

    assert told(state, "Answered before by `bob`: it is 42")
    assert last(state).text == "done"


def test_a_second_owner_is_asked_to_justify(way: Way) -> None:
    """An owned subtask is passed on with a reason only."""
    app = swarm(
        alice=[to("bob", "add up order 17")],
        bob=[
            to("carol", "add up order 17"),
            to("carol", "add up order 17", because="she has the receipts"),
        ],
        carol=["42"],
    )

    state = way(app, ask(), THREAD)

    (held,) = told(state, "`bob` has this subtask")
    assert held.status == "error"
    assert last(state).text == "42"


def test_a_subtask_may_be_returned(way: Way) -> None:
    """Its owner gives it back to who handed it over."""
    app = swarm(
        alice=[to("bob", "add up order 17"), "I do it myself"],
        bob=[to("alice", "add up order 17")],
    )

    state = way(app, ask(), THREAD)

    assert not told(state, "Not handed over")
    assert last(state).text == "I do it myself"


def test_contracts_of_an_earlier_run_are_over(way: Way) -> None:
    """A new word of a person may want the same again."""
    app = swarm(alice=[to("bob", "add up order 17")], bob=["42", "43"])
    way(app, ask(), THREAD)

    state = way(app, ask("again"), THREAD)

    assert last(state).text == "43"


@pytest.mark.parametrize("order", [0, 1], ids=["first", "last"])
def test_hand_overs_of_a_batch_are_counted_one_by_one(order: int, way: Way) -> None:
    """The second one of a batch is refused where the budget has room for one."""
    batch = [call("delegate", task=word) for word in "ab"]
    batch.insert(2 * order, call("read", path="x"))
    model = ScriptedModel(replies=[batch, "found"])
    agent = guarded(model, Policy(budget=Budget(handoffs=1)), tools=[delegate, *TOOLS])

    way(agent, ask(), THREAD)

    assert sorted(executed) == ["delegate a", "read x"]


@tool
def to_bob(
    state: Annotated[Any, InjectedState],
    tool_call_id: Annotated[str, InjectedToolCallId],
) -> Any:
    """Hand over to bob."""
    said = ToolMessage("over to bob", tool_call_id=tool_call_id)
    update = {"messages": [*state["messages"], said]}
    return Command(graph=Command.PARENT, goto="bob", update=update)


@pytest.mark.parametrize("by", ["graph", "graph, one call apart", "node"])
def test_a_hand_over_takes_the_results_beside_it_along(by: str) -> None:
    """A node that executes the whole batch gives them to the parent, in order."""
    batch = [call("search", query="q"), call("to_bob"), call("read", path="a")]
    node = GuardedToolNode if by == "node" else ToolNode
    alice = react(ScriptedModel([batch]), MessagesState, node([*TOOLS, to_bob]))
    if by != "node":
        apart = {"search": ToolPolicy(once=True)} if "apart" in by else {}
        alice = guard_graph(alice, Policy(tools=apart), model="agent", tools="tools")
    team: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    team.add_node("alice", alice.compile(), destinations=("bob",))
    team.add_node("bob", lambda _: {"messages": [("ai", "done")]})
    team.add_edge(START, "alice")

    messages = team.compile().invoke(ask())["messages"]

    assert_valid_history(messages, request=False)
    assert [m.text.split()[0] for m in messages[2:5]] == [
        "document",
        "over",
        "contents",
    ]

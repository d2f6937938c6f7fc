"""Other kinds of states, and other ways to execute calls."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

import pytest
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send
from pydantic import BaseModel

from loopguard_lg import guard_graph
from loopguard_lg.adapters import leave
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.testing.histories import validate_history
from tests.graph.graphs import (
    PATHS,
    Reporting,
    Shared,
    agent_of,
    by_hand,
    guarded,
    limited,
    on,
    react,
    run,
    stubborn,
    visited,
    was_held,
)
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    executed,
    laddered,
    last,
    results,
    same,
)


class Typed(TypedDict):
    talk: Annotated[list[AnyMessage], add_messages]


class Appended(TypedDict):
    talk: Annotated[list[BaseMessage], operator.add]


class Model(BaseModel):
    talk: Annotated[list[AnyMessage], add_messages]


@dataclass
class Data:
    talk: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)


def talk_of(state: Any) -> list[BaseMessage]:
    """The messages of any of these states."""
    found: list[BaseMessage] = state["talk"] if isinstance(state, dict) else state.talk
    return found


@pytest.mark.parametrize("schema", [Typed, Appended, Model, Data])
def test_any_kind_of_state_can_be_guarded(way: Way, schema: type[Any]) -> None:
    """Nodes get the state as they declare it, whatever key the messages are under."""
    model = stubborn()

    def agent(state: Any) -> Any:
        assert schema in (Typed, Appended) or isinstance(state, schema)
        return {"talk": [model.invoke(talk_of(state))]}

    def to(state: Any) -> str:
        return "tools" if talk_of(state)[-1].tool_calls else END  # type: ignore[attr-defined]

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(schema)
    builder.add_node("agent", agent)
    builder.add_node("tools", ToolNode(TOOLS, messages_key="talk"))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", to, PATHS)
    builder.add_edge("tools", "agent")
    graph = guard_graph(
        builder, laddered(), model="agent", tools="tools", messages_key="talk"
    ).compile()

    state = way(graph, {"talk": [HumanMessage("find it")]}, THREAD)

    assert was_held(executed)
    assert last({"messages": talk_of(state)}).response_metadata["loopguard_exit"]


def test_a_node_may_return_the_state_itself(way: Way) -> None:
    """Objects of the schema are updates too, and whole lists do not double anything."""
    model = stubborn()

    def agent(state: Data) -> Data:
        return Data(talk=[*state.talk, model.invoke(state.talk)])

    def tools(state: Data) -> Data:
        found = by_hand({"messages": state.talk})["messages"]
        return Data(talk=[*state.talk, *found])

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Data)
    builder.add_node("agent", agent)
    builder.add_node("tools", tools)
    builder.add_edge(START, "agent")
    builder.add_conditional_edges(
        "agent", lambda state: on({"messages": state.talk}), PATHS
    )
    builder.add_edge("tools", "agent")
    graph = guard_graph(builder, model="agent", tools="tools", messages_key="talk")

    state = way(graph.compile(), {"talk": [HumanMessage("find it")]}, THREAD)

    assert was_held(executed)
    validate_history(state["talk"], request=False)


def dispatched(state: MessagesState) -> Any:
    """Each call in a task of its own."""
    calls = getattr(state["messages"][-1], "tool_calls", [])
    return [Send("tools", [call]) for call in calls] or END


def dispatching(model: ScriptedModel) -> StateGraph[Any, Any, Any, Any]:
    """The usual graph with `Send` to the tool node."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Reporting)
    builder.add_node("agent", agent_of(model))
    builder.add_node("tools", ToolNode(TOOLS))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", dispatched, ["tools", END])
    builder.add_edge("tools", "agent")
    return builder


def test_calls_that_are_sent_one_by_one_are_guarded(way: Way) -> None:
    """A budget and a hold work for tasks that see only their own call."""
    batch = [call("search", query="x"), call("search", query="x2")]
    model = ScriptedModel(replies=[batch], default=call("search", query="x"))

    state = run(way, guarded(dispatching(model), laddered()))

    validate_history(state["messages"], request=False)
    assert state["loopguard_exit"]["reason"] == "loop"
    assert was_held(executed[2:])


def test_a_budget_ends_in_the_middle_of_a_sent_batch(way: Way) -> None:
    """Siblings see the state from before the batch; their place tells them apart."""
    batch = [call("read", path=path) for path in "abcd"]
    model = ScriptedModel(replies=[batch])

    state = run(way, guarded(dispatching(model), limited(tool_calls=2)))

    assert sorted(executed) == ["read a", "read b"]
    assert [m.text.split()[0] for m in results(state["messages"])] == [
        *["contents"] * 2,
        *["Not"] * 2,
    ]


def edgeless(model: ScriptedModel) -> StateGraph[Any, Any, Any, Any]:
    """A graph whose nodes say by themselves where it goes."""
    ask_model = agent_of(model)

    def agent(state: MessagesState) -> Command[Literal["tools", "__end__"]]:
        update = ask_model(state)
        calls = update["messages"][0].tool_calls
        return Command(update=update, goto="tools" if calls else END)

    def tools(state: MessagesState) -> Command[Literal["agent"]]:
        return Command(update=by_hand(state), goto="agent")

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Reporting)
    builder.add_node("agent", agent)
    builder.add_node("tools", tools)
    builder.add_edge(START, "agent")
    return builder


def test_a_graph_of_commands_is_guarded_all_the_same(way: Way) -> None:
    """Every rung is reached where nodes return commands only."""
    model = stubborn()

    graph = guarded(edgeless(model))
    state = run(way, graph)

    lap = ["agent", "tools"]
    assert state["loopguard_exit"]["reason"] == "loop"
    assert was_held(executed)
    model.requests.clear()
    assert visited(graph)[:8] == [*lap * 3, "loopguard_reflect", "agent"]


@tool
def memo(text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
    """Note something down in the state."""
    noted = ToolMessage(f"noted {text}", tool_call_id=tool_call_id)
    return Command(update={"seen": [text], "messages": [noted]})


def test_tools_that_return_commands_keep_what_these_do(way: Way) -> None:
    """Their updates stay, and a refused call is answered in its place among them."""
    batch = [call("memo", text="a"), call("search", query="x"), call("memo", text="b")]
    model = ScriptedModel(replies=[*same(3), batch, "found"])
    builder = react(model, Shared, ToolNode([*TOOLS, memo]))

    state = run(way, guarded(builder))

    found = [m.text.split(":")[0] for m in results(state["messages"])][3:]
    assert found == ["noted a", "Not executed", "noted b"]
    assert state["seen"] == ["a", "b"]


def test_the_models_own_tools_for_leaving_work_in_a_tool_node(way: Way) -> None:
    """`ask_user` waits for a person, `give_up` ends the run."""
    batch = [call("read", path="a"), call("ask_user", question="which?")]
    model = ScriptedModel(replies=[batch, call("give_up", reason="no such file")])
    builder = react(model, tools=ToolNode([*TOOLS, *leave.TOOLS.values()]))
    graph = guarded(builder, checkpointer=InMemorySaver())

    run(way, graph)
    (pending,) = graph.get_state(THREAD).interrupts
    state = run(way, graph, Command(resume="that"))

    assert pending.value["question"] == "which?"
    assert executed == ["read a"]
    assert [m.text for m in results(state["messages"])][1] == "that"
    assert state["loopguard_exit"]["detail"] == "no such file"

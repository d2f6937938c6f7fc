"""Graphs written by hand, for the tests of `guard_graph`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from loopguard_lg import Budget, Policy, guard_graph
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import THREAD, TOOLS, Way, ask

BY_NAME = {tool.name: tool for tool in TOOLS}


class Reporting(MessagesState):
    """A state with room for the exit report."""

    loopguard_exit: dict[str, Any] | None


class Shared(Reporting):
    """A state to which several nodes add."""

    seen: Annotated[list[str], operator.add]


def agent_of(model: ScriptedModel) -> Callable[[MessagesState], dict[str, Any]]:
    """A node that asks the model."""
    bound = model.bind_tools(TOOLS)

    def agent(state: MessagesState) -> dict[str, Any]:
        return {"messages": [bound.invoke(state["messages"])]}

    return agent


def stubborn(end: str = "hint") -> ScriptedModel:
    """A model that makes the same fruitless call until it hears of `end`."""

    def reply(messages: list[BaseMessage]) -> Any:
        heard = any(end in m.text for m in messages if m.name != "loopguard")
        return "found" if heard else call("search", query="x")

    return ScriptedModel(default=reply)


def was_held(calls: list[str]) -> bool:
    """Whether the fruitless call was executed a few times only."""
    return set(calls) == {"search x"} and 3 <= len(calls) <= 6


def by_hand(state: MessagesState) -> dict[str, Any]:
    """A tool node as people write it."""
    reply = state["messages"][-1]
    assert isinstance(reply, AIMessage)
    return {
        "messages": [
            ToolMessage(
                BY_NAME[call["name"]].invoke(call["args"]), tool_call_id=call["id"]
            )
            for call in reply.tool_calls
        ]
    }


def on(state: MessagesState) -> str:
    """To the tools as long as there are calls."""
    return "tools" if state["messages"][-1].tool_calls else END  # type: ignore[union-attr]


PATHS = {"tools": "tools", END: END}


def react(
    model: ScriptedModel, state: type[Any] = Reporting, tools: Any = None, **node: Any
) -> StateGraph[Any, Any, Any, Any]:
    """The usual graph: a model's node and a tool node in turn."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(state)
    builder.add_node("agent", agent_of(model), **node)
    builder.add_node("tools", tools or ToolNode(TOOLS))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", on, PATHS)
    builder.add_edge("tools", "agent")
    return builder


def guarded(
    builder: StateGraph[Any, Any, Any, Any],
    policy: Policy | None = None,
    *,
    stronger: Any = None,
    observers: Any = (),
    clock: Callable[[], float] = lambda: 0.0,
    **compiled: Any,
) -> Any:
    """The graph with the guard in it, compiled."""
    built = guard_graph(
        builder,
        policy,
        model="agent",
        tools="tools",
        stronger=stronger,
        observers=observers,
        clock=clock,
    )
    return built.compile(**compiled)


def visited(graph: Any, given: Any = None, config: Any = THREAD) -> list[str]:
    """The nodes that ran, in the order of their starts.

    Those of one step end in any order, but start in that of the graph.
    """
    chunks = graph.stream(given or ask(), config, stream_mode="tasks")
    return [chunk["name"] for chunk in chunks if "input" in chunk]


def texts(messages: list[BaseMessage]) -> list[tuple[str, str, int]]:
    """What a history says, without ids and measurements."""
    return [(m.type, m.text, len(getattr(m, "tool_calls", ()))) for m in messages]


def limited(**limits: Any) -> Policy:
    """A policy with this budget."""
    return Policy(budget=Budget(**limits))


def run(way: Way, graph: Any, given: Any = None) -> dict[str, Any]:
    """Run a graph to its end, with a step limit that tests do not reach."""
    return way(graph, given or ask(), {**THREAD, "recursion_limit": 60})


class Clock:
    """A clock that only nodes move."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def takes(self, seconds: float, out: Any = None) -> Callable[[Any], Any]:
        """A node that takes this long and returns `out`."""

        def node(state: Any) -> Any:
            self.now += seconds
            return out

        return node

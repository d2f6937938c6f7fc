"""Graphs that use what else LangGraph has, each in circles for ever."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from langgraph.types import CachePolicy, Command, Overwrite, Send, interrupt
from pydantic import BaseModel, field_validator

from loopguard_lg import AskUser, Escalate, Ladder, Policy, Reflect
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.testing.histories import assert_valid_history
from tests.graph.graphs import guarded, react
from tests.graph.shapes import invoked
from tests.middleware.runs import THREAD, TOOLS, ask, executed

Builder = StateGraph[Any, Any, Any, Any]
CONFIG: Any = {**THREAD, "recursion_limit": 60}


def circling() -> ScriptedModel:
    """A model that makes the same call for ever; its requests are validated."""
    return ScriptedModel(default=call("search", query="x"))


def on(state: Any) -> str:
    """To the tools as long as there are calls."""
    messages = state["messages"] if isinstance(state, dict) else state.messages
    return "tools" if messages[-1].tool_calls else END


def loop(schema: Any, agent: Any, tools: Any = None, **node: Any) -> Builder:
    """The usual two nodes on a state of its own."""
    builder: Builder = StateGraph(schema)
    builder.add_node("agent", agent)
    builder.add_node("tools", tools or ToolNode(TOOLS), **node)
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", on, ["tools", END])
    builder.add_edge("tools", "agent")
    return builder


def plain(state: Any) -> Any:
    """A model's node that reads nothing but the messages."""
    return {"messages": [circling().invoke(state["messages"])]}


class Logged(MessagesState):
    log: Annotated[list[str], operator.add]


def deferred() -> Builder:
    """A node that waits for all others, beside the loop."""
    builder = loop(Logged, plain)
    builder.add_node("late", lambda _: {"log": ["late"]}, defer=True)
    builder.add_edge("tools", "late")
    return builder


def handled() -> Builder:
    """A tool that raises, and a handler that goes on."""

    @tool
    def search(query: str) -> str:
        """Search."""
        executed.append("search x")
        raise ValueError("no index")

    def handler(state: Any) -> Any:
        (asked,) = state["messages"][-1].tool_calls
        said = ToolMessage("handled", tool_call_id=asked["id"], status="error")
        return Command(goto="agent", update={"messages": [said]})

    node = ToolNode([search], handle_tool_errors=False)
    return loop(MessagesState, plain, node, error_handler=handler)


def commanding() -> Builder:
    """A model's node that sends its calls by a command, a condition with two ways."""

    def agent(state: MessagesState) -> Any:
        reply = circling().invoke(state["messages"])
        return Command(update={"messages": [reply]}, goto=sends(reply))

    def sends(reply: Any) -> Any:
        return [Send("tools", {"messages": [reply]})] if reply.tool_calls else END

    builder: Builder = StateGraph(MessagesState)
    builder.add_node("agent", agent, destinations=("tools", END))
    builder.add_node("tools", ToolNode(TOOLS))
    builder.add_node("aside", lambda _: None)
    builder.add_edge(START, "agent")
    both = ["aside", "agent"]
    builder.add_conditional_edges("tools", lambda _: both, both)
    return builder


class Checked(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages]
    laps: int = 0

    @field_validator("laps")
    @classmethod
    def few(cls, laps: int) -> int:
        if laps > 20:
            raise ValueError("too many laps")
        return laps


def validating() -> Builder:
    """A pydantic state with a validator."""

    def agent(state: Checked) -> Any:
        reply = circling().invoke(state.messages)
        return {"messages": [reply], "laps": state.laps + 1}

    return loop(Checked, agent)


class Added(TypedDict):
    messages: Annotated[list[Any], operator.add]


def nameless() -> Builder:
    """Messages without ids, added to a list."""
    return loop(Added, plain)


def overwriting() -> Builder:
    """A node in the loop that replaces the conversation."""

    def trim(state: MessagesState) -> Any:
        first, *rest = state["messages"]
        return {"messages": Overwrite([first, *rest[-2:]])}

    builder = loop(MessagesState, plain)
    builder.edges.discard(("tools", "agent"))
    builder.add_node("trim", trim)
    builder.add_edge("tools", "trim")
    builder.add_edge("trim", "agent")
    return builder


class Hint(TypedDict):
    hint: str


class Hinted(MessagesState):
    hint: str


def private() -> Builder:
    """A key that neither input nor output has, filled in from the run's context."""

    def agent(state: MessagesState, runtime: Runtime[Hint]) -> Any:
        return {**plain(state), "hint": (runtime.context or {"hint": ""})["hint"]}

    def side(state: Hint) -> None:
        assert "messages" not in state

    builder = loop(Hinted, agent)
    builder.edges.discard(("tools", "agent"))
    builder.add_node("side", side)
    builder.add_edge("tools", "side")
    builder.add_edge("side", "agent")
    return builder


BUILDERS = [deferred, handled, commanding, validating, nameless, overwriting, private]


def check(messages: list[Any]) -> None:
    """The loop has ended in time, by the guard, in a history that can be sent."""
    assert messages[-1].response_metadata["loopguard_exit"]["reason"] != ""
    assert 3 <= len(executed) <= 6
    assert_valid_history(messages, request=False)


@pytest.mark.parametrize("build", BUILDERS)
def test_the_loop_ends_in_time(build: Callable[[], Builder]) -> None:
    """Whatever else the graph does."""
    given = {"messages": [HumanMessage("find it")]}
    graph = guarded(build(), checkpointer=InMemorySaver())

    check(graph.invoke(given, CONFIG)["messages"])


def test_cached_nodes_are_still_found_to_go_in_circles() -> None:
    """A second thread is served from the cache, and ends like the first."""
    builder = react(circling(), MessagesState, cache_policy=CachePolicy())
    graph = guarded(builder, checkpointer=InMemorySaver(), cache=InMemoryCache())
    other: Any = {"configurable": {"thread_id": "other"}, "recursion_limit": 60}

    first = graph.invoke(ask(), CONFIG)["messages"]
    check(first)
    executed.clear()
    check(graph.invoke({"messages": first[:1]}, other)["messages"])


def test_a_node_that_is_an_async_generator_is_guarded() -> None:
    """Its updates count as those of any node."""

    async def agent(state: MessagesState) -> Any:
        yield {"messages": [await circling().ainvoke(state["messages"])]}

    graph = guarded(loop(MessagesState, agent))

    check(asyncio.run(graph.ainvoke(ask(), CONFIG))["messages"])


def test_questions_of_a_graph_two_levels_down_find_their_answers() -> None:
    """The app's own, and the guard's at the end."""

    def approve(_: MessagesState) -> None:
        interrupt("may it?")

    builder = loop(MessagesState, plain)
    builder.branches["agent"].clear()
    builder.add_node("approve", approve)
    paths = {"tools": "approve", END: END}
    builder.add_conditional_edges("agent", on, paths)
    builder.add_edge("approve", "tools")
    graph = guarded(builder, Policy(ladder=Ladder(Reflect(), Escalate(), AskUser())))
    for _ in range(2):
        outer: Builder = StateGraph(MessagesState)
        outer.add_node("inner", graph)
        outer.add_edge(START, "inner")
        graph = outer.compile(checkpointer=InMemorySaver())

    check(invoked(graph, ["stop"]))


def test_a_run_that_stops_at_every_breakpoint_ends_in_time() -> None:
    """Before the tools, and after the guard's own node."""
    graph = guarded(react(circling()), checkpointer=InMemorySaver())
    stops: Any = {
        "interrupt_before": ["tools"],
        "interrupt_after": ["loopguard_reflect"],
    }

    graph.invoke(ask(), CONFIG, **stops)
    while (state := graph.get_state(THREAD)).next:
        graph.invoke(None, CONFIG, **stops)

    check(state.values["messages"])


def test_a_crash_without_checkpoints_is_gone_on_from() -> None:
    """`durability="exit"` keeps what there was when the process was stopped."""
    crashes = iter([False, True])

    @tool
    def search(query: str) -> str:
        """Search."""
        if next(crashes, False):
            raise KeyboardInterrupt
        executed.append(query)
        return "no results"

    graph = guarded(
        loop(MessagesState, plain, ToolNode([search])), checkpointer=InMemorySaver()
    )
    with pytest.raises(KeyboardInterrupt):
        graph.invoke(ask(), CONFIG, durability="exit")

    check(graph.invoke(None, CONFIG, durability="exit")["messages"])

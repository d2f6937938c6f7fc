"""Graphs with settings of all kinds: guarded, they do what they did."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain_core.tools import tool
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeTimeoutError
from langgraph.graph import END, START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from langgraph.types import CachePolicy, Command, RetryPolicy, Send
from typing_extensions import TypedDict

from loopguard_lg import Escalate, GiveUp, Ladder, Policy, guard_graph
from loopguard_lg.adapters.graph import coverage
from loopguard_lg.errors import PolicyError
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph.graphs import (
    PATHS,
    Shared,
    agent_of,
    by_hand,
    guarded,
    limited,
    on,
    react,
    run,
    stubborn,
)
from tests.middleware.runs import THREAD, TOOLS, Way, ask, executed, last, same

Builder = StateGraph[Any, Any, Any, Any]


@dataclass
class Context:
    """What a run is given beside its state."""

    user: str


def replaced(builder: Builder, name: str, node: Any, **settings: Any) -> Builder:
    """The graph with another node under a name."""
    builder.nodes.pop(name)
    builder.add_node(name, node, **settings)
    return builder


def test_a_context_schema_stays() -> None:
    """Nodes get the context, and the schema is the graph's as before."""
    model, seen = ScriptedModel(replies=[*same(3), "found"]), []

    def agent(state: MessagesState, runtime: Runtime[Context]) -> dict[str, Any]:
        seen.append(runtime.context.user)
        return {"messages": [model.invoke(state["messages"])]}

    builder: Builder = StateGraph(MessagesState, context_schema=Context)
    builder.add_node("agent", agent)
    builder.add_node("tools", ToolNode(TOOLS))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", on, PATHS)
    builder.add_edge("tools", "agent")
    graph = guarded(builder)

    graph.invoke(ask(), context=Context("ann"))

    assert seen == ["ann"] * 4
    assert "user" in graph.get_context_jsonschema()["properties"]


class Topic(MessagesState):
    """Messages and one more key."""

    topic: str


class OnlyTopic(TypedDict):
    topic: str


class OnlyMessages(TypedDict):
    messages: Annotated[list[Any], add_messages]


def test_input_and_output_schemas_stay() -> None:
    """What goes in and what comes out is what it was, the guard's keys left out."""
    builder: Builder = StateGraph(
        Topic, input_schema=OnlyMessages, output_schema=OnlyTopic
    )
    builder.add_node("agent", lambda _: {"messages": [("ai", "x")], "topic": "it"})
    builder.add_node("tools", by_hand)
    builder.add_edge(START, "agent")
    graph = guarded(builder)

    assert graph.invoke(ask()) == {"topic": "it"}
    assert [*graph.get_output_jsonschema()["properties"]] == ["topic"]
    assert [*graph.get_input_jsonschema()["properties"]] == ["messages"]


def test_a_deferred_node_waits_for_the_longest_way(way: Way) -> None:
    """It runs once, after nodes that take more steps."""
    ran: list[str] = []
    builder = react(ScriptedModel(replies=["found"]), Shared)
    builder.add_node("late", lambda _: ran.append("late"), defer=True)
    for name in ("one", "two"):
        builder.add_node(name, lambda _, name=name: ran.append(name))
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    builder.add_edge(START, "late")
    builder.add_edge("two", "late")

    run(way, guarded(builder))

    assert ran == ["one", "two", "late"]


@pytest.mark.parametrize("name", ["agent", "tools", "beside"])
def test_a_node_that_takes_too_long_is_cut_by_its_own_timeout(name: str) -> None:
    """LangGraph's error goes through, whatever the node is to the guard."""

    async def hang(_: Any) -> None:
        await asyncio.Event().wait()

    builder = react(ScriptedModel(replies=[call("read", path="a")]))
    builder.add_node("beside", by_hand)
    builder.add_edge(START, "beside")
    replaced(builder, name, hang, timeout=0.01)
    if name != "beside":
        replaced(builder, "beside", lambda _: None)

    with pytest.raises(NodeTimeoutError, match=f"'{name}'"):
        asyncio.run(guarded(builder).ainvoke(ask()))


def test_a_tool_node_that_is_retried_counts_once(way: Way) -> None:
    """What a failed try has done is no step."""
    tries: list[int] = []

    def tools(state: MessagesState) -> dict[str, Any]:
        tries.append(1)
        if len(tries) % 2:
            raise ConnectionError("down")
        return by_hand(state)

    retry = RetryPolicy(initial_interval=0, jitter=False)
    replies = [call("read", path="a"), call("read", path="b"), "found"]
    builder = replaced(
        react(ScriptedModel(replies=replies)), "tools", tools, retry_policy=retry
    )
    graph = guarded(builder, checkpointer=InMemorySaver())

    run(way, graph)

    used = graph.get_state(THREAD).values["loopguard"]["used"]["run"]
    assert (len(tries), used["tool_calls"]) == (4, 2)


def test_a_model_that_is_cached_still_takes_part() -> None:
    """A reply from the cache is a reply: the loop of it is found."""
    builder = react(stubborn())
    node = agent_of(stubborn())
    policy = CachePolicy(key_func=lambda state: str(len(state["messages"])))
    graph = guarded(
        replaced(builder, "agent", node, cache_policy=policy), cache=InMemoryCache()
    )
    before = graph.invoke(ask(), {"recursion_limit": 60})
    again = graph.invoke(ask(), {"recursion_limit": 60})

    for state in (before, again):
        assert state["loopguard_exit"]["reason"] == "loop"


def test_what_is_sent_without_messages_arrives_as_it_was(way: Way) -> None:
    """A `Send` to a node with a schema of its own carries its argument alone."""

    class Item(TypedDict):
        n: int

    seen: list[Any] = []
    builder = react(ScriptedModel(replies=["found"]), Shared)
    builder.edges.discard((START, "agent"))
    builder.add_node("work", lambda item: seen.append(item), input_schema=Item)
    builder.add_conditional_edges(
        START, lambda _: [Send("work", {"n": n}) for n in range(3)], ["work"]
    )
    builder.add_edge("work", "agent")

    run(way, guarded(builder))

    assert sorted(item["n"] for item in seen) == [0, 1, 2]
    assert all([*item] == ["n"] for item in seen)


def test_a_subgraph_is_counted_and_may_leave_for_its_parent(way: Way) -> None:
    """A command to the parent goes where it went, and what was spent inside counts."""
    inner_model = ScriptedModel(default="well")

    def leave(state: MessagesState) -> Command[Any]:
        said = inner_model.invoke(state["messages"])
        update = {"messages": [("user", said.text)]}
        return Command(graph=Command.PARENT, goto="agent", update=update)

    inner: Builder = StateGraph(MessagesState)
    inner.add_node("leave", leave)
    inner.add_edge(START, "leave")
    builder = react(ScriptedModel(replies=[call("read", path="a"), "found"]))
    replaced(builder, "tools", ToolNode(TOOLS))
    builder.edges.discard(("tools", "agent"))
    builder.add_node("inner", inner.compile())
    builder.add_edge("tools", "inner")

    assert last(run(way, guarded(builder))).text == "found"
    state = run(way, guarded(builder_again(inner_model), limited(model_calls=4)))
    assert state["loopguard_exit"]["budget"] == "model_calls"


def builder_again(model: ScriptedModel) -> Builder:
    """A graph whose subgraph asks a model in each lap."""
    inner: Builder = StateGraph(MessagesState)
    inner.add_node(
        "ask", lambda state: {"messages": [("user", model.invoke("go").text)]}
    )
    inner.add_edge(START, "ask")
    builder = react(ScriptedModel(default=call("read", path="a")))
    builder.edges.discard(("tools", "agent"))
    builder.add_node("inner", inner.compile())
    builder.add_edge("tools", "inner")
    builder.add_edge("inner", "agent")
    return builder


def test_an_interrupt_before_a_guarded_node_is_kept() -> None:
    """`interrupt_before` and `interrupt_after` name the same nodes."""
    graph = guarded(
        react(ScriptedModel(replies=[call("read", path="a"), "found"])),
        checkpointer=InMemorySaver(),
        interrupt_before=["tools"],
    )
    graph.invoke(ask(), THREAD)
    waiting = graph.get_state(THREAD).next

    state = graph.invoke(None, THREAD)

    assert (waiting, executed, last(state).text) == (("tools",), ["read a"], "found")


class Plain(TypedDict):
    messages: list[Any]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"model": ["agent"]}, r"model=\['agent'\] is no node of the graph"),
        ({"tools": 3}, "tools=3: give the name of a node, or a list of names"),
        ({"policy": Ladder(GiveUp())}, "Policy"),
    ],
)
def test_a_wrong_argument_is_named(settings: Any, says: str) -> None:
    """Whatever its type is."""
    given: dict[str, Any] = {"model": "agent", "tools": "tools", **settings}

    with pytest.raises(PolicyError, match=says):
        guard_graph(react(stubborn()), **given)


def test_messages_that_a_write_replaces_are_refused() -> None:
    """The guard's own results would wipe the conversation out."""
    builder: Builder = StateGraph(Plain)
    builder.add_node("agent", lambda _: None)
    builder.add_node("tools", lambda _: None)
    builder.add_edge(START, "agent")

    with pytest.raises(PolicyError, match="it has no reducer"):
        guarded(builder)


def test_a_key_to_put_back_that_is_not_there_is_named() -> None:
    """At the start, with the keys that there are."""
    policy = Policy(ladder=Ladder(Escalate(restore=["sen"]), GiveUp()))

    with pytest.raises(PolicyError, match=r"restore='sen'.*Did you mean 'seen'"):
        guarded(react(stubborn(), Shared), policy)


def test_a_model_that_reads_no_messages_is_stopped_all_the_same(way: Way) -> None:
    """It can't be told anything, which `coverage` says."""
    model = stubborn()
    builder: Builder = StateGraph(Topic)
    builder.add_node(
        "agent",
        lambda _: {"messages": [model.invoke("find it")]},
        input_schema=OnlyTopic,
    )
    builder.add_node("tools", ToolNode(TOOLS))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", on, {"tools": "tools", END: END})
    builder.add_edge("tools", "agent")
    graph = guarded(builder)

    assert last(run(way, graph)).response_metadata["loopguard_exit"]
    why = {entry["what"]: entry["why"] for entry in coverage(graph)["open"]}
    assert "can't be told anything" in why["agent"]


def test_several_tool_nodes_are_guarded_each(way: Way) -> None:
    """Whichever executes the call, it is held."""
    builder = react(stubborn())
    builder.branches["agent"].clear()
    builder.add_node("more", ToolNode(TOOLS))
    builder.add_edge("more", "agent")
    builder.add_conditional_edges(
        "agent",
        lambda s: (
            ["tools", "more"][len(s["messages"]) % 4 > 1]
            if s["messages"][-1].tool_calls
            else END
        ),
        ["tools", "more", END],
    )
    graph = guard_graph(builder, model="agent", tools=["tools", "more"]).compile()

    state = run(way, graph)

    assert state["loopguard_exit"]["kind"] == "repeat"
    assert 3 <= len(executed) <= 6


@pytest.mark.parametrize("settings", [{"handle_tool_errors": True}, {}])
def test_what_a_tool_spent_before_it_raised_is_not_lost(
    way: Way, settings: dict[str, Any]
) -> None:
    """Whether its node makes a result of the error, or is tried again."""
    inside, tries = ScriptedModel(default="well"), []

    @tool
    def ask_other(question: str) -> str:
        """Ask the other model."""
        tries.append(inside.invoke(question))
        if len(tries) == 1:
            raise ConnectionError("down")
        return "yes"

    replies = [call("ask_other", question=text) for text in "ab"]
    retry = RetryPolicy(initial_interval=0, jitter=False)
    node = ToolNode([ask_other], **settings)
    builder = react(ScriptedModel(replies=[*replies, "found"]))
    replaced(builder, "tools", node, retry_policy=retry)
    graph = guarded(builder, checkpointer=InMemorySaver())

    run(way, graph)

    used = graph.get_state(THREAD).values["loopguard"]["used"]["run"]
    assert used["model_calls"] == 3 + len(tries)

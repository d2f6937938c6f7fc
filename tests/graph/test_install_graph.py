"""What `guard_graph` keeps, draws, reports and refuses."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import CachePolicy, Command, RetryPolicy, interrupt

from loopguard_lg import AskUser, Policy, guard_graph
from loopguard_lg.adapters.graph import coverage
from loopguard_lg.errors import PolicyError
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph.graphs import (
    PATHS,
    Clock,
    Reporting,
    guarded,
    limited,
    on,
    react,
    run,
    stubborn,
)
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    executed,
    laddered,
    last,
    results,
    same,
)

GUARDS = ["reflect", "escalate", "ask_user", "give_up"]


def install(builder: Any, **settings: Any) -> Any:
    """Guard a graph of the usual names."""
    return guard_graph(builder, **{"model": "agent", "tools": "tools", **settings})


def test_the_drawing_shows_the_nodes_of_the_guard_connected() -> None:
    """Each of the four has a way in and a way out."""
    graph = install(react(ScriptedModel()), policy=laddered(end=AskUser())).compile()

    drawn = [line.strip() for line in graph.get_graph().draw_mermaid().splitlines()]

    for name in GUARDS:
        assert any(line.endswith(f"> loopguard_{name};") for line in drawn)
        assert any(line.startswith(f"loopguard_{name} -") for line in drawn)


def test_the_drawing_shows_no_question_that_the_ladder_never_asks() -> None:
    """`loopguard_ask_user` is there only with `AskUser` at the end of the ladder."""
    graph = install(react(ScriptedModel()), policy=laddered()).compile()

    assert "loopguard_give_up" in graph.nodes
    assert "loopguard_ask_user" not in graph.get_graph().draw_mermaid()


def test_the_builder_itself_is_not_changed() -> None:
    """It compiles to the graph that it was before."""
    builder = react(ScriptedModel())
    before = builder.compile().get_graph().draw_mermaid()

    install(builder)

    assert builder.compile().get_graph().draw_mermaid() == before
    assert "loopguard" not in builder.channels


REFUSED = [
    ({"model": "agnet"}, "Did you mean 'agent'"),
    ({"tools": ["tools", "tool"]}, "tools='tool' is no node"),
    ({"model": "agent", "tools": "agent"}, "is the model's node as well"),
    ({"messages_key": "talk"}, "has no such key"),
    ({"stronger": "agentt"}, "Did you mean the node 'agent'"),
]


@pytest.mark.parametrize(("settings", "says"), REFUSED)
def test_a_graph_that_cannot_be_guarded_says_why(settings: Any, says: str) -> None:
    """The message names the setting, its value and what is right."""
    with pytest.raises(PolicyError, match=says):
        install(react(ScriptedModel()), **settings)


def test_a_graph_is_guarded_once() -> None:
    """A second guard would count everything twice."""
    with pytest.raises(PolicyError, match="guarded already"):
        install(install(react(ScriptedModel())))


def test_a_compiled_graph_is_refused() -> None:
    """The guard goes into the builder."""
    with pytest.raises(PolicyError, match="before compile"):
        install(react(ScriptedModel()).compile())


def test_a_state_without_messages_is_refused() -> None:
    """The guard reads the conversation; without one there is nothing to read."""

    class Other(TypedDict):
        text: str

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Other)
    builder.add_node("agent", lambda state: None)
    builder.add_node("tools", lambda state: None)

    with pytest.raises(PolicyError, match="Other has no such key"):
        install(builder)


def test_a_chat_model_cannot_replace_a_node_that_gives_commands() -> None:
    """It could not say where the run goes on."""
    builder = react(ScriptedModel())
    builder.branches["agent"].clear()

    with pytest.raises(PolicyError, match="give a node that returns such commands"):
        install(builder, stronger=ScriptedModel())


def test_a_stronger_model_that_is_no_node_is_refused() -> None:
    """The message says what to give."""
    with pytest.raises(PolicyError, match="stronger=5: give a node's name"):
        install(react(ScriptedModel()), stronger=5)


def test_settings_of_nodes_are_kept() -> None:
    """Metadata, retries, timeouts and the rest stay as they were."""
    retry = RetryPolicy(max_attempts=7)
    builder = react(
        ScriptedModel(), metadata={"of": "me"}, retry_policy=retry, timeout=5.0
    )
    builder.add_node("late", lambda state: None, defer=True)

    spec = install(builder).nodes["agent"]

    assert spec.metadata == {"of": "me"}
    assert spec.retry_policy is retry
    assert spec.timeout == builder.nodes["agent"].timeout
    assert install(builder).nodes["late"].defer


def test_what_the_guard_keeps_is_not_in_the_output(way: Way) -> None:
    """The result has the keys of the user's own state."""
    state = guarded(react(ScriptedModel(replies=["found"]))).invoke(ask(), THREAD)

    assert sorted(state) == ["messages"]


def test_an_error_handler_stays_with_its_node(way: Way) -> None:
    """What LangGraph does about a node that fails is done as before."""
    builder = react(ScriptedModel(replies=["done"]))
    builder.edges.discard((START, "agent"))

    def fails(state: Reporting) -> Any:
        raise ConnectionError("down")

    def mends(state: Reporting) -> Command[Any]:
        return Command(update={"messages": [("user", "mended")]}, goto="agent")

    builder.add_node("fails", fails, error_handler=mends)
    builder.add_edge(START, "fails")

    state = run(way, guarded(builder))

    assert [m.text for m in state["messages"]] == ["find it", "mended", "done"]


def test_a_node_that_raises_is_retried(way: Way) -> None:
    """The guard lets errors through to the node's own retry policy."""
    model = ScriptedModel(replies=[ConnectionError("down"), "found"])
    retry = RetryPolicy(max_attempts=2, initial_interval=0, jitter=False)

    state = run(way, guarded(react(model, retry_policy=retry)))

    assert last(state).text == "found"


def test_a_cached_node_is_found_again() -> None:
    """The key of the cache is made of what the node reads, not of the guard's part."""
    ran: list[str] = []
    builder = react(ScriptedModel(replies=["one", "two"]))
    builder.edges.discard((START, "agent"))
    builder.add_node(
        "slow",
        lambda state: ran.append("slow"),
        input_schema=OnlyTopic,
        cache_policy=CachePolicy(),
    )
    builder.add_edge(START, "slow")
    builder.add_edge("slow", "agent")
    graph = guarded(builder, cache=InMemoryCache())

    graph.invoke(ask("a"), THREAD)
    graph.invoke(ask("b"), THREAD)

    assert ran == ["slow"]


class OnlyTopic(TypedDict):
    topic: str


@dataclass
class Context:
    user: str


def test_what_langgraph_injects_still_comes_in(way: Way) -> None:
    """A node's config, store and runtime are its own."""
    seen: list[Any] = []

    def agent(state: Reporting, config: RunnableConfig, runtime: Runtime) -> Any:
        seen.append(config["configurable"]["thread_id"])
        seen.append(runtime.store is store)
        seen.append(sorted(state))
        return {"messages": [AIMessage("done")]}

    store = InMemoryStore()
    builder = react(ScriptedModel())
    builder.nodes.pop("agent")
    builder.add_node("agent", agent)

    run(way, guarded(builder, store=store))

    assert seen == ["t", True, ["messages"]]


async def test_async_nodes_and_conditions_are_awaited() -> None:
    """A graph of coroutines is guarded as one of functions."""
    model = stubborn()

    async def agent(state: Reporting) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def to(state: Reporting) -> str:
        return on(state)

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Reporting)
    builder.add_node("agent", agent)
    builder.add_node("tools", ToolNode(TOOLS))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", to, PATHS)
    builder.add_edge("tools", "agent")

    state = await guarded(builder, laddered()).ainvoke(ask(), THREAD)

    assert state["loopguard_exit"]["reason"] == "loop"


async def test_a_hung_call_is_cut_when_the_seconds_are_used() -> None:
    """On an event loop the batch is ended, answered, and the run leaves."""
    clock = Clock()

    async def tools(state: Reporting) -> Any:
        clock.now = 1.0
        await asyncio.Event().wait()

    model = ScriptedModel(replies=[call("read", path="a")])
    graph = guarded(react(model, tools=tools), limited(seconds=0.05), clock=clock)
    state = await graph.ainvoke(ask(), THREAD)

    assert "the budget of seconds is used" in results(state["messages"])[0].text


def test_an_error_of_a_tool_goes_on_by_default(way: Way) -> None:
    """The user's own handling sees it."""

    def tools(state: Reporting) -> Any:
        raise ConnectionError("down")

    model = ScriptedModel(replies=[call("read", path="a")])

    with pytest.raises(ConnectionError, match="down"):
        run(way, guarded(react(model, tools=tools)))


def test_an_error_of_a_tool_can_be_a_result(way: Way) -> None:
    """With `tool_errors="return"` every call of the batch is answered with it."""

    def tools(state: Reporting) -> Any:
        raise ConnectionError("down")

    model = ScriptedModel(replies=[[call("read", path=p) for p in "ab"], "sorry"])
    policy = Policy(tool_errors="return")

    state = run(way, guarded(react(model, tools=tools), policy))

    assert [m.text for m in results(state["messages"])] == [
        "`read` failed: ConnectionError: down"
    ] * 2


def test_an_interrupt_of_a_tool_is_the_users_own(way: Way) -> None:
    """It goes through the guard, and the answer comes back to the tool."""

    def tools(state: Reporting) -> Any:
        (asked,) = state["messages"][-1].tool_calls
        return {"messages": [ToolMessage(interrupt("?"), tool_call_id=asked["id"])]}

    model = ScriptedModel(replies=[call("read", path="a"), "done"])
    graph = guarded(react(model, tools=tools), checkpointer=InMemorySaver())
    run(way, graph)

    state = run(way, graph, Command(resume="yes"))

    assert results(state["messages"])[0].text == "yes"
    assert last(state).text == "done"


def test_two_threads_at_once_do_not_mix() -> None:
    """The installation holds settings only; what belongs to a run is in its state."""
    started = threading.Barrier(2)
    outcomes: dict[str, Any] = {}

    def reply(messages: Any) -> Any:
        return call("search", query="x") if messages[0].text == "loop" else "done"

    graph = guarded(react(ScriptedModel(default=reply)), checkpointer=InMemorySaver())

    def go(text: str) -> None:
        started.wait()
        config = {"configurable": {"thread_id": text}}
        outcomes[text] = graph.invoke(ask(text), config)

    threads = [threading.Thread(target=go, args=[text]) for text in ("loop", "work")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert outcomes["loop"]["loopguard_exit"]["reason"] == "loop"
    assert last(outcomes["work"]).text == "done"


def test_messages_that_a_node_is_given_are_never_changed() -> None:
    """Trimmed replies and notes are copies."""
    batch = [call("search", query="x"), call("read", path="a")]
    model = ScriptedModel(replies=[*same(3), batch, "found"])

    state = guarded(react(model)).invoke(ask(), THREAD)

    replies = [m for m in state["messages"] if isinstance(m, AIMessage)]
    assert [len(m.tool_calls) for m in replies] == [1, 1, 1, 2, 0]
    assert executed == [*["search x"] * 3, "read a"]


def test_a_subgraph_is_still_found() -> None:
    """LangGraph sees the graph inside a guarded node, for streams and state."""
    inner = react(ScriptedModel(replies=["inside"])).compile()
    builder = react(ScriptedModel(replies=["done"]))
    builder.add_node("inner", inner)
    builder.add_edge(START, "inner")

    graph = guarded(builder, checkpointer=InMemorySaver())

    assert [name for name, _ in graph.get_subgraphs()] == ["inner"]


def test_coverage_names_what_is_guarded_and_what_is_not() -> None:
    """Nodes by role, edges by kind, and the reasons for what is open."""
    builder = react(ScriptedModel())
    builder.add_node("inner", react(ScriptedModel()).compile())
    builder.add_edge(["tools", "inner"], "agent")

    found = coverage(install(builder).compile())

    assert found["nodes"]["agent"] == "model"
    assert found["tools"] == ["read", "search", "write"]
    edge = {"from": "tools", "to": "agent", "kind": "static", "guarded": True}
    assert edge in found["edges"]
    why = {entry["what"]: entry["why"] for entry in found["open"]}
    assert "guard that graph by itself" in why["inner"]
    assert "can't lead a join" in why["tools -> agent"]
    assert "the run is over" in why["agent -> __end__"]


def test_coverage_of_a_graph_without_the_guard_is_nothing() -> None:
    """Every node and edge is open."""
    found = coverage(react(ScriptedModel()))

    assert set(found["nodes"].values()) == {None}
    assert not any(edge["guarded"] for edge in found["edges"])
    assert {entry["why"] for entry in found["open"]} >= {"guard_graph was not applied"}

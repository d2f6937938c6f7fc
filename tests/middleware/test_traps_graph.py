from __future__ import annotations

import asyncio
import copy
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain.tools import InjectedToolCallId
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from pydantic import BaseModel
from typing_extensions import TypedDict

from loopguard_lg import Budget, LoopGuardMiddleware, Policy
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    executed,
    guarded,
    invoke,
    last,
    notes,
    results,
    same,
)


class Answer(BaseModel):
    text: str = "unknown"


class Strict(BaseModel):
    text: str


class Before(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any) -> None:
        """Stand as a node before the model."""


class After(AgentMiddleware):
    def after_model(self, state: Any, runtime: Any) -> None:
        """Stand as a node after the model."""


class AtTheEnd(AgentMiddleware):
    def after_agent(self, state: Any, runtime: Any) -> None:
        """Stand as a node at the end."""


class Carried(AgentState[Any]):
    basket: Annotated[list[str], lambda old, new: (old or []) + new]


@tool
def put(item: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Put something into the basket."""
    told = ToolMessage(f"put {item}, {item} is in", tool_call_id=tool_call_id)
    return Command(update={"basket": [item], "messages": [told]})


@tool
def leave(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Hand over to the graph around the agent."""
    told = ToolMessage("handed over", tool_call_id=tool_call_id)
    update = {"messages": [told]}
    return Command(goto="outside", graph=Command.PARENT, update=update)


def test_the_guard_adds_no_node() -> None:
    """The graph has the nodes of the agent without the guard."""
    model = ScriptedModel()
    bare = create_agent(model, TOOLS).get_graph()

    assert set(guarded(model).get_graph().nodes) == set(bare.nodes)


@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy])
@pytest.mark.parametrize("tools", [[], TOOLS], ids=["no tools", "tools"])
def test_an_exit_fills_no_structured_response_from_nothing(
    strategy: Any, tools: Any, way: Way
) -> None:
    """A schema that is all defaults would say what nobody said."""
    model = ScriptedModel(replies=[call("nothing", n=1)] * 20)
    agent = guarded(model, tools=tools, response_format=strategy(Answer))

    state = way(agent, ask(), THREAD)

    assert state.get("structured_response") is None
    assert state["loopguard_exit"]["reason"] == "loop"


@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy])
def test_an_exit_leaves_a_structured_response_open_that_needs_more(
    strategy: Any,
) -> None:
    """A schema with a required field and no partial result gives `None`."""
    agent = guarded(ScriptedModel(replies=same(20)), response_format=strategy(Strict))

    state = agent.invoke(ask())

    assert state.get("structured_response") is None
    assert state["loopguard_exit"]["reason"] == "loop"


class Partial(TypedDict):
    text: str


@pytest.mark.parametrize("schema", [Strict, Partial])
def test_a_partial_result_in_json_fills_the_structured_response(schema: Any) -> None:
    """What the model said last is taken where it fits."""
    model = ScriptedModel(replies=[['{"text": "so far"}', *same(1)], *same(9)])
    agent = guarded(model, response_format=ToolStrategy(schema))

    filled = agent.invoke(ask())["structured_response"]

    assert (filled if isinstance(filled, dict) else filled.model_dump()) == {
        "text": "so far"
    }


def test_a_tool_that_returns_a_command_keeps_all_of_it(way: Way) -> None:
    """State updates and messages of a parallel batch arrive, and are counted."""
    batch = [call("put", item=item) for item in "abc"]
    model = ScriptedModel(replies=[batch, "done"])
    agent = guarded(model, tools=[put], state_schema=Carried)

    state = way(agent, ask(), THREAD)

    assert state["basket"] == ["a", "b", "c"]
    told = [m.text.split(",")[0] for m in results(state["messages"])]
    assert told == ["put a", "put b", "put c"]
    assert all("loopguard" in m.response_metadata for m in results(state["messages"]))


@pytest.mark.parametrize("calls", [1, 2], ids=["alone", "in a batch"])
def test_a_command_to_the_parent_graph_arrives(calls: int, way: Way) -> None:
    """A hand-over to the graph around the agent passes through the guard."""
    model = ScriptedModel(replies=[[call("leave"), *same(calls - 1)]])
    outer = StateGraph(AgentState)
    outer.add_node("agent", guarded(model, tools=[leave, *TOOLS]))
    outer.add_node("outside", lambda state: {"messages": [HumanMessage("outside")]})
    outer.add_edge(START, "agent")
    outer.add_edge("agent", END)
    outer.add_edge("outside", END)

    state = way(outer.compile(), ask(), THREAD)

    assert state["messages"][-1].text == "outside"


HOOKS = [[], [Before()], [After()], [Before(), After()], [AtTheEnd()]]


@pytest.mark.parametrize("limit", range(9, 14))
@pytest.mark.parametrize("hooks", HOOKS, ids=lambda h: "+".join(m.name for m in h))
def test_a_small_recursion_limit_ends_the_run_well(limit: int, hooks: Any) -> None:
    """Before the limit is passed the run leaves, whatever hooks are nodes too."""
    model = ScriptedModel(replies=[call("read", path=str(n)) for n in range(20)])

    agent = guarded(model, middleware=hooks)
    state = agent.invoke(ask(), {"recursion_limit": limit})

    assert state["loopguard_exit"]["reason"] == "recursion_limit"
    assert executed


def test_a_recursion_limit_that_suffices_is_not_noticed() -> None:
    """A run that ends in time ends by itself."""
    model = ScriptedModel(replies=[call("read", path="a"), "found"])

    state = guarded(model).invoke(ask(), {"recursion_limit": 7})

    assert last(state).text == "found"


class Snapshots(AgentMiddleware):
    """Copies each request's messages and state, and compares them afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: list[str] = []

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Compare what was handed in with what it is after the guard."""
        before = copy.deepcopy((request.messages, dict(request.state)))
        response = handler(request)
        if (request.messages, dict(request.state)) != before:
            self.changed.append(request.messages[-1].text)
        return response


def test_nothing_is_changed_in_place() -> None:
    """Messages, requests and state are the same objects with the same content."""
    watch = Snapshots()
    model = ScriptedModel(replies=same(12))
    agent = create_agent(model, TOOLS, middleware=[watch, LoopGuardMiddleware()])
    given = [HumanMessage("find it", id="word")]
    before = copy.deepcopy(given)

    agent.invoke({"messages": given})

    assert watch.changed == []
    assert given == before


def test_two_identical_runs_send_identical_requests() -> None:
    """What the guard says is byte-stable, so that caches and recordings hold."""
    sent = []
    for _ in range(2):
        model = ScriptedModel(replies=[*same(4), call("read", path="a"), *same(9)])
        invoke(guarded(model), ask(), {})
        sent.append([[m.text for m in r.messages] for r in model.requests])

    assert sent[0] == sent[1]
    assert "loop guard" in str(sent[0])


def test_the_guard_can_be_added_to_a_thread_with_a_past(way: Way) -> None:
    """Old messages are not counted, open calls are answered, loops are caught."""
    saver = InMemorySaver()
    old = create_agent(ScriptedModel(replies=[]), TOOLS, checkpointer=saver)
    asked = AIMessage("", tool_calls=[call_of("a"), call_of("b")])
    past = [HumanMessage("old"), asked, ToolMessage("one", tool_call_id="a")]
    old.update_state(THREAD, {"messages": past}, as_node="tools")
    model = ScriptedModel(replies=[*same(3), "found"])
    agent = guarded(model, Policy(budget=Budget(steps=4)), checkpointer=saver)

    state = way(agent, ask(), THREAD)

    assert last(state).text == "found"
    assert "3 times" in notes(model)[3]


def call_of(id_: str) -> Any:
    """A call as it stands in a message."""
    return {"name": "search", "args": {"query": id_}, "id": id_, "type": "tool_call"}


WATCHING = Policy(observe_only=True, budget=Budget(usd=1e-9, seconds=1e-9))


def test_a_watching_guard_changes_no_request_and_no_reply(way: Way) -> None:
    """With `observe_only` the model gets the tools and messages of the bare agent."""
    bad = {"name": "search", "args": "x", "id": "b", "error": None}
    broken = AIMessage("", invalid_tool_calls=[{**bad, "type": "invalid_tool_call"}])
    model = ScriptedModel(replies=[*same(4), broken])

    state = way(guarded(model, WATCHING), ask(), THREAD)

    assert model.requests[0].tool_names == ["search", "read", "write"]
    assert last(state).invalid_tool_calls
    assert len(executed) == 4


def test_a_watching_guard_cuts_no_call_short() -> None:
    """A budget of seconds that is used is only told."""

    @tool
    async def wait(why: str) -> str:
        """Wait a moment."""
        await asyncio.sleep(0)
        return "waited"

    model = ScriptedModel(replies=[call("wait", why="a"), "done"])

    state = asyncio.run(guarded(model, WATCHING, tools=[wait]).ainvoke(ask()))

    assert results(state["messages"])[0].text == "waited"

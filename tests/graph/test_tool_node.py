"""The guard in a tool node of a graph that is otherwise written by hand."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import END, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send

from loopguard_lg import (
    AskUser,
    Budget,
    Escalate,
    GuardedToolNode,
    Ladder,
    Policy,
    Reflect,
    ToolPolicy,
    guard_graph,
)
from loopguard_lg.errors import LoopHaltedError
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.testing.histories import validate_history
from tests.graph.graphs import react, run
from tests.middleware.runs import (
    TOOLS,
    Way,
    ask,
    executed,
    invoke,
    last,
    results,
    same,
)


def guarded(model: Any, policy: Policy | None = None, **settings: Any) -> Any:
    """The usual graph with the guarded node in the place of its tool node."""
    node = GuardedToolNode(TOOLS, policy, **settings)
    return react(model, tools=node).compile()


def report(state: dict[str, Any]) -> dict[str, Any]:
    """The exit report in the last result."""
    found: dict[str, Any] = results(state["messages"])[-1].response_metadata
    return found["loopguard_exit"]


def test_it_takes_what_a_tool_node_takes() -> None:
    """Name, tags, error handling and tools are those of the node it replaces."""
    node = GuardedToolNode(TOOLS, name="calls", tags=["a"], handle_tool_errors=True)

    assert isinstance(node, ToolNode)
    assert (node.name, node.tags) == ("calls", ["a"])
    assert [*node.tools_by_name] == ["search", "read", "write"]


def test_an_honest_run_gives_the_results_of_the_plain_node(way: Way) -> None:
    """Nothing is added to results, and every call is executed."""
    replies = [[call("read", path="a"), call("read", path="b")], "found"]
    bare = run(way, react(ScriptedModel(replies=replies)).compile())

    state = run(way, guarded(ScriptedModel(replies=replies)))

    texts = [m.text for m in results(state["messages"])]
    assert texts == [m.text for m in results(bare["messages"])]


def test_a_repeat_is_named_after_the_last_result(way: Way) -> None:
    """The third equal call brings a note, and the model changes course."""
    model = ScriptedModel(replies=[*same(3), call("read", path="a"), "found"])

    state = run(way, guarded(model))

    said = ["`search` was called 3 times" in m.text for m in results(state["messages"])]
    assert said == [False, False, True, False]
    assert last(state).text == "found"


def test_a_call_that_goes_on_is_not_executed(way: Way) -> None:
    """After the note the same call is answered by the guard, with the reason."""
    model = ScriptedModel(replies=[*same(4), "found"])

    state = run(way, guarded(model))

    assert executed == ["search x"] * 3
    assert results(state["messages"])[3].text.startswith("Not executed")


def test_the_last_trigger_says_that_the_run_is_over(way: Way) -> None:
    """A model that then answers ends the run; the report is with the last result."""

    def stubborn(messages: list[Any]) -> Any:
        over = "The run ends here" in messages[-1].text
        return "that is all" if over else call("search", query="x")

    state = run(way, guarded(ScriptedModel(default=stubborn)))

    assert report(state)["reason"] == "loop"
    assert last(state).text == "that is all"
    validate_history(state["messages"], request=False)


def test_a_model_that_calls_on_after_the_end_is_stopped(way: Way) -> None:
    """It is refused once more, then the run ends by an error with the report."""
    model = ScriptedModel(default=call("search", query="x"))

    with pytest.raises(LoopHaltedError, match="stopped by the loop guard") as stopped:
        run(way, guarded(model))

    assert stopped.value.report["kind"] == "repeat"
    assert len(executed) <= 6


def test_a_budget_has_no_room_for_the_rest_of_a_batch(way: Way) -> None:
    """Calls beyond the budget are answered, in their order."""
    batch = [call("read", path=name) for name in "abcd"]
    model = ScriptedModel(replies=[batch, "found"])

    state = run(way, guarded(model, Policy(budget=Budget(tool_calls=2))))

    assert sorted(executed) == ["read a", "read b"]
    refused = [m.text.startswith("Not executed") for m in results(state["messages"])]
    assert refused == [False, False, True, True]
    assert report(state)["budget"] == "tool_calls"


def test_a_new_word_starts_afresh(way: Way) -> None:
    """What was said in an earlier run does not hold the call in this one."""
    model = ScriptedModel(replies=[*same(4), "found", *same(1), "found"])
    graph = guarded(model)
    before = run(way, graph)["messages"]

    run(way, graph, {"messages": [*before, ("user", "again")]})

    assert executed == ["search x"] * 4


def test_observers_hear_of_each_batch_once(way: Way) -> None:
    """What is derived anew each time, the word before it too, is told once."""
    told: list[str] = []

    def note(event: GuardEvent) -> None:
        told.append(event.name)

    run(way, guarded(ScriptedModel(replies=[*same(3), "found"]), observers=note))

    assert told == ["seen", "seen", "seen", "seen", "detected", "reflected"]


def test_watching_changes_nothing(way: Way) -> None:
    """With `observe_only` the loop goes on, and results stay as they were."""
    model = ScriptedModel(replies=[*same(6), "found"])

    state = run(way, guarded(model, Policy(observe_only=True)))

    assert {m.text for m in results(state["messages"])} == {"no results"}
    assert executed == ["search x"] * 6


def test_the_users_own_wrapper_runs_inside(way: Way) -> None:
    """It sees the calls that are executed, and none that is refused."""
    seen: list[str] = []

    def wrap(request: Any, execute: Any) -> Any:
        seen.append(request.tool_call["name"])
        return execute(request)

    model = ScriptedModel(replies=[*same(4), "found"])
    run(way, guarded(model, wrap_tool_call=wrap))

    assert seen == ["search"] * 3


@dataclass
class Chat:
    """A state that is an object, with messages under a name of its own."""

    chat: Annotated[list[Any], add_messages]


def test_the_messages_may_have_another_key_and_the_state_be_an_object() -> None:
    """What `ToolNode` reads the guard reads too."""
    model = ScriptedModel(replies=[*same(4), "found"])
    builder = StateGraph(Chat)
    builder.add_node("agent", lambda state: {"chat": [model.invoke(state.chat)]})
    builder.add_node("tools", GuardedToolNode(TOOLS, messages_key="chat"))
    builder.set_entry_point("agent")
    builder.add_conditional_edges(
        "agent", lambda state: "tools" if state.chat[-1].tool_calls else END
    )
    builder.add_edge("tools", "agent")

    state = builder.compile().invoke({"chat": [("user", "find it")]})

    assert results(state["chat"])[3].text.startswith("Not executed")


def sending(replies: list[Any], policy: Policy | None = None, **settings: Any) -> Any:
    """A graph that sends each call to a task of its own, as LangGraph's agent does."""

    def sent(state: Any) -> Any:
        calls = state["messages"][-1].tool_calls
        context = {"__type": "tool_call_with_context", "state": state}
        return [Send("tools", {**context, "tool_call": c}) for c in calls] or END

    node = GuardedToolNode(TOOLS, policy, **settings)
    builder = react(ScriptedModel(replies=replies), tools=node)
    builder.branches["agent"].clear()
    builder.add_conditional_edges("agent", sent, ["tools", END])
    return builder.compile()


TWICE = [*same(1), *same(1)]
"""A batch of two calls that are the same."""


def test_calls_that_are_sent_one_by_one_are_held_as_well(way: Way) -> None:
    """Each task sees the history, as LangGraph's own agent sends it along."""
    state = run(way, sending([*[TWICE] * 4, "found"]))

    assert results(state["messages"])[-1].text.startswith("Not executed")


def test_observers_hear_of_calls_that_are_sent_one_by_one(way: Way) -> None:
    """No task sees its batch as a whole: the next batch tells of it, once."""
    told: list[GuardEvent] = []
    replies = [*[TWICE] * 3, call("read", path="a"), "found"]

    run(way, sending(replies, observers=told.append))

    seen = [len(getattr(e.event, "steps", ())) for e in told if e.name == "seen"]
    assert seen == [0, 2, 2, 2, 1]
    assert "detected" in [event.name for event in told]


def test_a_run_of_calls_that_are_sent_one_by_one_ends_as_well(way: Way) -> None:
    """The report comes a batch later; a model that calls on is stopped."""
    with pytest.raises(LoopHaltedError) as stopped:
        run(way, sending([TWICE] * 12))

    assert stopped.value.report["reason"] == "loop"
    assert len(executed) <= 10


def test_bare_calls_without_a_history_are_executed() -> None:
    """There is nothing that they could repeat."""
    asked = {"name": "read", "args": {"path": "a"}, "id": "1", "type": "tool_call"}
    builder = StateGraph(MessagesState)
    builder.add_node("tools", GuardedToolNode(TOOLS))
    builder.set_conditional_entry_point(lambda _: Send("tools", [asked]))

    state = builder.compile().invoke(ask())

    assert executed == ["read a"]
    assert results(state["messages"])[0].text == "contents of a, line one of a"


def test_a_hung_call_is_cut_on_an_event_loop() -> None:
    """The seconds of the budget end it, and the model hears why."""

    @tool
    async def hang() -> str:
        """Never come back."""
        await asyncio.Event().wait()
        return ""

    node = GuardedToolNode([hang], Policy(budget=Budget(seconds=0.01)))
    model = ScriptedModel(replies=[call("hang"), "found"])
    state = asyncio.run(react(model, tools=node).compile().ainvoke(ask()))

    assert "the budget of seconds is used" in results(state["messages"])[0].text


def test_a_note_stands_once_where_tools_return_commands(way: Way) -> None:
    """The results of such a batch come in parts; only the last one has it."""

    @tool
    def look(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Look, by a command."""
        said = ToolMessage("no results", tool_call_id=tool_call_id)
        return Command(update={"messages": [said]})

    batch = [call("look"), *same(1)]
    node = GuardedToolNode([look, *TOOLS])
    model = ScriptedModel(replies=[batch, batch, batch, "found"])

    state = run(way, react(model, tools=node).compile())

    noted = ["going in circles" in m.text for m in results(state["messages"])]
    assert noted == [False] * 5 + [True]


def test_a_state_that_is_a_list_is_told_as_well() -> None:
    """Its node returns messages, not an update of a key."""
    history = run(invoke, guarded(ScriptedModel(replies=[*same(3), "found"])))
    given = history["messages"][:6]
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(
        Annotated[list[Any], add_messages]
    )
    builder.add_node("tools", GuardedToolNode(TOOLS))
    builder.set_entry_point("tools")

    out = builder.compile().invoke(given)

    assert "going in circles" in out[-1].text


def test_what_it_can_not_do_is_said_when_it_is_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A policy that asks a person, or for another model, needs another surface."""
    GuardedToolNode(TOOLS)
    assert caplog.messages == []

    ladder = Ladder(Reflect(temperature=0.7), Escalate(model="other"), AskUser())
    GuardedToolNode(TOOLS, Policy(ladder=ladder))

    (said,) = caplog.messages
    for name in ("Reflect.temperature", "Escalate.model", "AskUser", "guard_graph"):
        assert name in said


def test_a_slip_in_the_name_of_a_tool_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """By the node and by the graph alike, when they are made."""
    policy = Policy(tools={"serch": ToolPolicy(once=True)})

    GuardedToolNode(TOOLS, policy)
    guard_graph(react(ScriptedModel()), policy, model="agent", tools="tools")

    (one, other) = caplog.messages
    assert "'serch'" in one
    assert "did you mean 'search'?" in one
    assert one == other

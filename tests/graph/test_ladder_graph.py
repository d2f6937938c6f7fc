from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from loopguard_lg import AskUser, Policy
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph.graphs import (
    by_hand,
    guarded,
    react,
    run,
    stubborn,
    texts,
    visited,
    was_held,
)
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    executed,
    laddered,
    last,
    notes,
    results,
    same,
)

HONEST = [call("search", query="a"), [call("read", path="b"), call("read", path="c")]]


@pytest.fixture(params=[ToolNode(TOOLS), by_hand], ids=["tool_node", "by_hand"])
def tools(request: pytest.FixtureRequest) -> Any:
    """A tool node of LangGraph's and one written by hand."""
    return request.param


def test_an_honest_run_is_the_same_as_without_the_guard(way: Way, tools: Any) -> None:
    """The history is what the graph makes by itself, and nothing is said."""
    bare = react(ScriptedModel(replies=[*HONEST, "found"]), tools=tools).compile()
    model = ScriptedModel(replies=[*HONEST, "found"])

    state = run(way, guarded(react(model, tools=tools)))

    assert notes(model) == ["", "", ""]
    assert texts(state["messages"]) == texts(run(way, bare)["messages"])


def test_a_repeat_leads_to_the_reflect_node_once(tools: Any) -> None:
    """The third equal call brings one visit, and the agent changes course."""
    model = ScriptedModel(replies=[*same(3), call("read", path="a.md"), "found"])

    nodes = visited(guarded(react(model, tools=tools)))

    lap = ["agent", "tools"]
    assert nodes == [*lap * 3, "loopguard_reflect", *lap, "agent"]
    assert "`search` was called 3 times" in notes(model)[3]
    assert notes(model)[4] == ""


def test_the_note_stands_at_the_end_and_stays_out_of_the_state(way: Way) -> None:
    """The prompt-cache prefix does not change, and the history holds no note."""
    model = ScriptedModel(replies=[*same(3), "found"])

    state = run(way, guarded(react(model)))

    assert model.requests[3].messages[-1].name == "loopguard"
    assert model.requests[3].messages[:-1] == tuple(state["messages"][:-1])


def test_the_escalate_node_runs_the_strong_model_without_the_loop(
    way: Way, tools: Any
) -> None:
    """The held call is not executed; the strong model sees a note in its place."""
    strong = ScriptedModel(replies=[call("read", path="a.md")], model_name="strong")
    weak = ScriptedModel(replies=[call("write", path="n", text="z"), *same(4), "found"])

    state = run(way, guarded(react(weak, tools=tools), laddered(strong)))

    assert executed == ["write n", *["search x"] * 3, "read a.md"]
    assert "no results" not in [m.text for m in strong.requests[0].messages]
    assert "[loop guard] The attempts" in strong.requests[0].text
    assert last(state).text == "found"
    assert len(weak.requests) == 6


def test_the_strong_model_is_given_the_tools() -> None:
    """A chat model in the policy gets the tools of the tool node."""
    strong = ScriptedModel(replies=["found"])
    weak = ScriptedModel(replies=same(4))

    guarded(react(weak), laddered(strong)).invoke(ask(), THREAD)

    assert strong.requests[0].tool_names == ["search", "read", "write"]


def test_progress_leads_back_to_the_normal_model() -> None:
    """The escalate node is left when the strong model has moved the task."""
    strong = ScriptedModel(replies=[call("read", path="a.md")], model_name="strong")
    weak = ScriptedModel(replies=[*same(4), "found"])

    nodes = visited(guarded(react(weak), laddered(strong)))

    assert nodes[-4:] == ["tools", "loopguard_escalate", "tools", "agent"]


def test_without_progress_the_strong_model_keeps_its_turns() -> None:
    """It acts for the turns of its rung, then the normal model is asked again."""
    replies = [call("search", query="x", at=n) for n in range(2)]
    strong = ScriptedModel(replies=[*replies, "never asked"])
    weak = ScriptedModel(replies=[*same(4), "found"])

    nodes = visited(guarded(react(weak), laddered(strong, turns=2)))

    assert nodes.count("loopguard_escalate") == 2
    assert nodes[-1] == "agent"


def test_the_third_trigger_gives_up_with_a_report(way: Way, tools: Any) -> None:
    """The run ends with a message, the report in it and in the state's own key."""
    weak, strong = stubborn(), stubborn()

    state = run(way, guarded(react(weak, tools=tools), laddered(strong)))

    report = last(state).response_metadata["loopguard_exit"]
    assert state["loopguard_exit"] == report
    assert (report["reason"], report["kind"]) == ("loop", "repeat")
    assert was_held(executed)
    assert not last(state).tool_calls


def test_the_thread_takes_the_next_message_after_an_exit() -> None:
    """A new word of the person's starts afresh, and clears the report."""
    graph = guarded(react(stubborn("hi")), checkpointer=InMemorySaver())
    graph.invoke(ask("look"), THREAD)

    state = graph.invoke(ask("hi"), THREAD)

    assert last(state).text == "found"
    assert state["loopguard_exit"] is None


def test_a_person_is_asked_and_the_run_resumes(way: Way) -> None:
    """The node interrupts with the report; the answer takes the run on."""
    model = stubborn("attic")
    graph = guarded(react(model), laddered(end=AskUser()), checkpointer=InMemorySaver())

    run(way, graph)
    (pending,) = graph.get_state(THREAD).interrupts
    state = run(way, graph, Command(resume="look in the attic"))

    assert pending.value["report"]["reason"] == "loop"
    assert "look in the attic" in model.requests[-1].text
    assert last(state).text == "found"


def test_a_question_survives_the_process() -> None:
    """With a database the answer can come to another process than asked."""
    with SqliteSaver.from_conn_string(":memory:") as saver:
        ends = laddered(end=AskUser())
        first = guarded(react(stubborn()), ends, checkpointer=saver)
        first.invoke(ask(), THREAD)
        model = ScriptedModel(replies=["found"])
        second = guarded(react(model), ends, checkpointer=saver)

        state = second.invoke(Command(resume="look in the attic"), THREAD)

    assert last(state).text == "found"
    assert len(model.requests) == 1


def test_a_person_can_stop_the_run() -> None:
    """The answer `stop` ends the run with its report."""
    graph = guarded(
        react(stubborn()), laddered(end=AskUser()), checkpointer=InMemorySaver()
    )
    graph.invoke(ask(), THREAD)

    state = graph.invoke(Command(resume={"choice": "stop"}), THREAD)

    assert state["loopguard_exit"]["reason"] == "gave_up"


def test_a_question_that_is_not_answered_lets_the_next_message_in() -> None:
    """Who speaks instead of answering is heard, and the history stays valid."""
    graph = guarded(
        react(stubborn("hi")), laddered(end=AskUser()), checkpointer=InMemorySaver()
    )
    graph.invoke(ask("look"), THREAD)

    state = graph.invoke(ask("hi"), THREAD)

    assert last(state).text == "found"


def test_asking_without_a_checkpointer_gives_up(way: Way) -> None:
    """Where no answer can come back, the run ends with what there is."""
    state = run(way, guarded(react(stubborn()), laddered(end=AskUser())))

    assert state["loopguard_exit"]["reason"] == "loop"
    assert not last(state).tool_calls


def test_observe_only_says_and_stops_nothing(way: Way) -> None:
    """A watching guard leaves even a hopeless loop alone."""
    model = ScriptedModel(replies=[*same(8), "done"])

    state = run(way, guarded(react(model), Policy(observe_only=True)))

    assert set(notes(model)) == {""}
    assert len(results(state["messages"])) == len(executed) == 8


def test_observers_are_told_once(way: Way) -> None:
    """What an edge asks ahead is told only when it is acted on."""
    told: list[Any] = []
    model = ScriptedModel(replies=[*same(3), "found"])

    run(way, guarded(react(model), observers=[told.append]))

    names = [event.name for event in told]
    assert names.count("reflected") == 1
    assert names.count("seen") == 5

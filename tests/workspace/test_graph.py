"""A guarded graph with a workspace: the same as an agent with the middleware."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send

from loopguard_lg import AskUser, Policy, Reflect, guard_graph
from loopguard_lg.adapters.workspace import Workspace
from loopguard_lg.errors import PolicyError
from loopguard_lg.testing.doubles import Reply, ScriptedModel, call
from loopguard_lg.workspace.git import Snapshots
from loopguard_lg.workspace.locks import Locks
from loopguard_lg.workspace.watch import Watch
from tests.middleware.runs import Way, ainvoke, invoke
from tests.workspace.coding import (
    GO,
    RIGHT,
    agent,
    edit,
    failing,
    guarded,
    policy,
    repository,
    tools,
)

PASS = call("run_tests")
THREAD = {"configurable": {"thread_id": "1"}, "recursion_limit": 80}


class Reporting(MessagesState):
    """A state with room for the exit report."""

    loopguard_exit: dict[str, Any] | None


@pytest.fixture
def place(root: Path, shots: Snapshots) -> Workspace:
    """A folder with a module that is right, its check, and locks without patience."""
    repository(root)
    watch = Watch(root=root, notified=False)
    locks = Locks(patience=0, wait=lambda state: 0.0)
    return Workspace(root, snapshots=shots, watch=watch, locks=locks)


def one_by_one(state: MessagesState) -> Any:
    """Each call to the tools by itself."""
    reply = state["messages"][-1]
    assert isinstance(reply, AIMessage)
    return [Send("tools", [call]) for call in reply.tool_calls] or END


def together(state: MessagesState) -> Any:
    """All calls to the tools at once."""
    reply = state["messages"][-1]
    return "tools" if getattr(reply, "tool_calls", None) else END


def graph(
    place: Workspace | None,
    replies: Sequence[Reply],
    settings: Policy | None = None,
    on: Callable[[MessagesState], Any] = together,
    **compiled: Any,
) -> tuple[Any, ScriptedModel]:
    """A graph of a model's node and a tool node, guarded."""
    model = ScriptedModel(replies, default="done")
    given = tools(place.root if place else Path())
    bound = model.bind_tools(given)
    builder = StateGraph(Reporting)
    builder.add_node("agent", lambda s: {"messages": [bound.invoke(s["messages"])]})
    builder.add_node("tools", ToolNode(given))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", on, ["tools", END])
    builder.add_edge("tools", "agent")
    made = guard_graph(
        builder, settings or policy(), model="agent", tools="tools", workspace=place
    )
    return made.compile(**compiled), model


def results(out: dict[str, Any]) -> list[ToolMessage]:
    """What the tools said."""
    return [m for m in out["messages"] if isinstance(m, ToolMessage)]


@pytest.mark.parametrize("way", [invoke, ainvoke])
def test_an_escalation_puts_the_files_back(
    way: Way, root: Path, place: Workspace, shots: Snapshots
) -> None:
    """As they were when the check last passed; the model is told which."""
    runner, model = graph(place, [PASS, *failing(4), "sorry"])

    way(runner, GO, THREAD)

    assert [shot.note for shot in shots.taken()] == ["agent turn 1: a check passed"]
    said = next(r for r in model.requests if "again as they" in r.text)
    assert "(`price.py`). Edits made since are undone" in said.messages[-1].text
    assert "not undone: edit_file" not in said.text
    assert (root / "price.py").read_text() == RIGHT


def test_a_graph_does_what_an_agent_does(
    root: Path, place: Workspace, shots: Snapshots, tmp_path: Path
) -> None:
    """The same script ends with the same files, requests and report."""
    script, other = [PASS, *failing(12)], tmp_path / "other"
    other.mkdir()
    repository(other)
    others = Snapshots(root=other, store=tmp_path / "others")
    settings = policy(leave_tools=())  # the middleware would bring some
    runner, model = graph(place, script, settings)
    guard = guarded(Workspace(other, snapshots=others), settings)
    middleware, twin = agent(other, script, guard)
    left, right = runner.invoke(GO, THREAD), middleware.invoke(GO)

    assert [r.text for r in model.requests] == [r.text for r in twin.requests]
    assert (root / "price.py").read_text() == (other / "price.py").read_text()
    assert left["loopguard_exit"]["workspace"]["snapshot"] == shots.taken()[0].id
    assert right["loopguard_exit"]["workspace"]["snapshot"] == others.taken()[0].id


def test_who_is_asked_and_says_rollback_gets_the_files_back(
    root: Path, place: Workspace
) -> None:
    """The question of the guard has that choice."""
    settings = policy(Reflect(), AskUser())
    runner, model = graph(
        place, [PASS, *failing(12)], settings, checkpointer=InMemorySaver()
    )
    assert runner.invoke(GO, THREAD)["__interrupt__"]
    assert (root / "price.py").read_text() != RIGHT
    before = len(model.requests)

    runner.invoke(Command(resume="rollback"), THREAD)

    assert "again as they were" in model.requests[before].messages[-1].text


def test_files_go_back_on_your_word(root: Path, place: Workspace) -> None:
    """By the thread's state."""
    runner, _ = graph(place, [PASS, *failing(1), "sorry"], checkpointer=InMemorySaver())
    runner.invoke(GO, THREAD)

    place.restore(runner.get_state(THREAD).values)

    assert (root / "price.py").read_text() == RIGHT


def test_files_go_back_by_what_a_run_returned(root: Path, place: Workspace) -> None:
    """A state without a key for the report has it in its last message."""
    runner, _ = graph(place, [PASS, *failing(12)])
    state = {"messages": runner.invoke(GO)["messages"]}
    (root / "price.py").write_text("broken")

    place.restore(state)

    assert (root / "price.py").read_text() == RIGHT


@pytest.mark.parametrize("on", [together, one_by_one])
def test_a_file_that_another_agent_edits_is_left_alone(
    root: Path, place: Workspace, on: Callable[[MessagesState], Any]
) -> None:
    """That call is not made; the other one of the batch is."""
    assert place.locks
    place.locks.attempt("price.py", "other")
    batch = ["both", edit("a", "b"), edit("2, 3", "3, 2", path="tests/test_price.py")]
    runner, _ = graph(place, [batch], on=on)

    first, second = results(runner.invoke(GO, THREAD))

    assert "`price.py` is being edited by `other`" in first.text
    assert second.text == "edited tests/test_price.py"
    assert (root / "price.py").read_text() == RIGHT
    assert place.locks.report()["held"] == {"price.py": "other"}


@pytest.mark.parametrize("way", [invoke, ainvoke])
def test_a_call_tells_of_the_files_that_it_changed(
    way: Way, root: Path, place: Workspace
) -> None:
    """In the metadata of its result; one edit is told once."""
    batch = ["both", call("bash", command="echo 1 > made"), call("run_tests")]
    runner, _ = graph(place, [batch, edit("pieces\n", "pieces * 1\n")])

    marks = [m.response_metadata["loopguard"] for m in results(way(runner, GO, THREAD))]

    touched = [path for mark in marks for path, *_ in mark.get("touched", ())]
    assert touched == ["made", "price.py"]


def test_files_need_a_workspace() -> None:
    """The message says what to give."""
    with pytest.raises(PolicyError, match=r"ladder\[1\].files=True needs the files"):
        graph(None, [])

"""What a person, or a fresh run, needs in order to go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import GiveUp, Reflect
from loopguard_lg.adapters.handing import hand_over
from loopguard_lg.adapters.workspace import Workspace
from loopguard_lg.detectors import Bloat
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import call
from loopguard_lg.workspace.git import Snapshots
from loopguard_lg.workspace.handover import Handover
from tests.workspace.coding import GO, agent, failing, guarded, policy, repository

TODOS = [
    {"content": "find total", "status": "completed"},
    {"content": "add a discount", "status": "in_progress"},
]
CONFIG: Any = {"configurable": {"thread_id": "1"}}


@tool
def write_todos(todos: list[dict[str, str]]) -> str:
    """Keep a plan."""
    return "noted"


def ended(root: Path, shots: Snapshots) -> dict[str, Any]:
    """The state after a run that went in circles."""
    repository(root)
    script = [call("write_todos", todos=TODOS), call("run_tests"), *failing(12)]
    settings = policy(Reflect(), GiveUp())
    guard = guarded(Workspace(root, snapshots=shots), settings)
    graph, _ = agent(root, script, guard, extra=[write_todos])
    return graph.invoke(GO)


def test_the_document_says_where_the_run_stands(root: Path, shots: Snapshots) -> None:
    """Goal, plan, files and the way back, from the state of the thread."""
    document = hand_over(ended(root, shots))

    assert document.goal == "Add a discount to total"
    assert document.open == ("add a discount",)
    assert "price.py" in document.files
    assert document.checkpoint["snapshot"] == shots.taken()[0].id
    assert "edit_file" in document.done[0]
    assert document.reason


def test_the_document_is_plain_data_too(root: Path, shots: Snapshots) -> None:
    """With the same parts, ready for JSON."""
    data = hand_over(ended(root, shots)).data()

    assert json.loads(json.dumps(data)) == data
    assert data["open"] == ["add a discount"]


def test_the_document_is_markdown_for_people() -> None:
    """A heading for each part about which something is known."""
    report = {"goal": "mend it", "writes": ["edit(`a`) -> ok"], "good": "m1"}

    assert Handover.of(report).markdown() == (
        "# Hand-over\n\n## Goal\n\n- `mend it`\n\n## Done\n\n- ``edit(`a`) -> ok``\n\n"
        "## Last good checkpoint\n\n- `message m1`\n"
    )


def test_claims_that_nothing_shows_are_said_so() -> None:
    """Before what is done."""
    page = Handover.of({"unproven": ["all tests pass"], "writes": ["x"]}).markdown()

    assert page.index("## Claimed, not shown") < page.index("## Done")
    assert "- `all tests pass`" in page


@pytest.mark.parametrize("text", ["# a\n## b", "<script>x</script>", "```\n- x", "`"])
def test_texts_of_tools_stay_data(text: str) -> None:
    """Nothing in them becomes a heading, a list or HTML."""
    page = Handover.of({"facts": [text]}).markdown()

    (line,) = [line for line in page.splitlines() if line.startswith("- ")]
    assert line.startswith("- `")
    assert line.endswith("`")
    assert page.count("\n#") == 1


def test_a_fresh_run_goes_on_from_it(root: Path, shots: Snapshots) -> None:
    """Its first message has the goal and the document, and the context is empty."""
    document = hand_over(ended(root, shots))
    graph, model = agent(root, ["on it"], guarded(Workspace(root)))

    graph.invoke({"messages": [HumanMessage(document.fresh_start())]})

    (request,) = model.requests
    assert request.text.count("Add a discount to total") == 2
    assert "add a discount" in request.text


def test_a_run_that_goes_on_can_be_handed_over(root: Path, shots: Snapshots) -> None:
    """At a bloat, by whoever is told of it, from the thread's state."""
    repository(root)
    told: list[GuardEvent] = []
    settings = policy(detectors=[Bloat(tokens=1)])
    guard = guarded(Workspace(root, snapshots=shots), settings, observers=told.append)
    script = [call("run_tests"), *failing(1), "handing over"]
    graph, _ = agent(root, script, guard, checkpointer=InMemorySaver())
    graph.invoke(GO, CONFIG)
    (event,) = [event for event in told if event.name == "reflected"]
    assert event.verdict.finding is not None
    assert event.verdict.finding.kind == "bloat"

    document = hand_over(graph.get_state(CONFIG).values, reason="bloat")

    assert (document.reason, document.files) == ("bloat", ("price.py",))
    assert document.checkpoint["snapshot"]

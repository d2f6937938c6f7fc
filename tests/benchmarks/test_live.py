"""The harness for real models, with scripted ones: tasks, arms, rows, going on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from benchmarks.recovery.arms import ARMS, WORDINGS, Wording
from benchmarks.recovery.live import CALLS, Models, go, made, run, scripted, table
from benchmarks.recovery.tasks import CUSTOMERS, DESKS, ORDERS, RULES, TASKS, Task
from loopguard_lg.testing import ScriptedModel, call
from loopguard_lg.testing.sample import FILES

PORT = TASKS[0]
PAIR = {name: ARMS[name] for name in ("unguarded", "whole ladder")}


def never(seed: int) -> Any:
    """No model may be asked for."""
    raise AssertionError("a finished run is made again")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_every_task_has_its_answer_in_the_world(task: Task) -> None:
    """What is asked for stands in a file, a record or a rule, or is to be done."""
    worlds = {"repository": FILES, "support": CUSTOMERS | ORDERS | RULES}
    texts = [" ".join(text.split()) for text in worlds[task.desk].values()]
    reply = [AIMessage(text) for text in (*texts, *worlds[task.desk])]

    assert task.desk in DESKS
    assert task.done or any(task.is_solved([one]) for one in reply)


def test_what_had_to_be_done_must_be_done() -> None:
    """To say so is not enough."""
    task = next(task for task in TASKS if task.done)
    said, did = (
        AIMessage("It is cancelled."),
        ToolMessage("Order 1042 is cancelled.", tool_call_id="1"),
    )

    assert not task.is_solved([HumanMessage("x"), said])
    assert task.is_solved([did, said])


@pytest.mark.parametrize("arm", [*ARMS, *WORDINGS])
def test_every_arm_ends(arm: str) -> None:
    """A weak model that makes one call for ever is stopped, or helped."""
    row = run(arm, {**ARMS, **WORDINGS}[arm], PORT, 0, scripted)

    assert row.turns <= CALLS
    assert row.solved == (row.strong > 0)
    assert row.changed is False or row.strong


def test_an_unguarded_run_has_all_its_calls() -> None:
    """It is stopped after the last one, a limited one before."""
    rows = {name: run(name, ARMS[name], PORT, 0, scripted) for name in ARMS}

    assert rows["unguarded"].turns == CALLS
    assert rows["limiters"].exit == "limit"
    assert rows["reflect only"].exit == "loop"
    assert rows["whole ladder"].strong > 0


def test_an_exit_that_quotes_the_answer_does_not_solve_the_task() -> None:
    """A weak model that found the line again and again has not given it."""

    def finds(seed: int) -> Any:
        look = call("search_docs", query="port")
        return ScriptedModel(default=look), ScriptedModel(default=look)

    row = run("reflect only", ARMS["reflect only"], PORT, 0, finds)

    assert (row.exit, row.solved) == ("loop", False)


def test_finished_runs_are_not_made_again(tmp_path: Path) -> None:
    """Whoever stops the harness and starts it again goes on where it was."""
    path = tmp_path / "rows.jsonl"
    first = [*go(path, PAIR, [PORT], [0], scripted)]

    assert [*go(path, PAIR, [PORT], [0], never)] == []
    assert [*made(path).values()] == first


def test_a_line_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    """As the harness was killed while it wrote it."""
    path = tmp_path / "rows.jsonl"
    [*go(path, PAIR, [PORT], [0], scripted)]
    path.write_text(path.read_text()[:-20])
    again = [*go(path, PAIR, [PORT], [0], scripted)]

    assert [row.arm for row in again] == ["whole ladder"]
    assert len(made(path)) == 2


def test_the_table_has_the_tasks_that_every_arm_has(tmp_path: Path) -> None:
    """Saved steps and ends are told beside the first arm."""
    path = tmp_path / "rows.jsonl"
    [*go(path, PAIR, [PORT], [0], scripted)]
    lines = table(made(path), [*PAIR])

    assert [line.split()[0] for line in lines[1:]] == ["unguarded", "whole"]
    assert table({}, [*PAIR]) == ["no task has a run under every arm"]


@pytest.mark.parametrize(("quotes", "forbids"), [(True, False), (False, True)])
def test_a_wording_quotes_and_forbids_as_it_says(quotes: bool, forbids: bool) -> None:
    """Else it names another tool."""
    asked = {"name": "look", "args": {"at": "x.py"}}
    text = Wording(quotes, forbids).text(asked, ["look", "read"])

    assert ("x.py" in text) == quotes
    assert ("Do not" in text) == forbids
    assert ("`read`" in text) != forbids


def test_another_wording_takes_the_place_of_the_note() -> None:
    """The model is shown that one alone."""
    weak, strong = scripted(0)
    models: Models = lambda seed: (weak, strong)  # noqa: E731  # one for all seeds
    run("x", WORDINGS["quotes nothing, forbids"], PORT, 0, models)
    assert isinstance(weak, ScriptedModel)
    notes = [r.messages[-1] for r in weak.requests if r.messages[-1].name]

    assert [note.text for note in notes if "Do not make that call" in note.text]
    assert not [note for note in notes if "going in circles" in note.text]

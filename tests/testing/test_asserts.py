"""Assertions on what happened in a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from loopguard_lg.budgets import Budget
from loopguard_lg.errors import TraceFormatError
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Human, Step, Turn
from loopguard_lg.testing.asserts import assert_no_loop, assert_trips
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.traces.model import from_dict


@tool
def search(query: str) -> str:
    """Look something up."""
    return f"nothing about {query}" if query == "x" else f"found {query} in a book"


def events(*queries: str) -> list[Any]:
    """A run that makes these calls."""
    steps = [
        Step(tool="search", args={"query": q}, result=search.func(q)) for q in queries
    ]
    return [Human(text="hi"), *(Turn(steps=(step,)) for step in steps)]


def trajectory(*queries: str) -> dict[str, Any]:
    """The same as a recording."""
    steps = [
        {
            "i": i,
            "agent": "a",
            "text": "",
            "calls": [
                {"id": str(i), "tool": "search", "args": {"query": q}}
                | {"result": search.func(q), "error": False}
            ],
        }
        for i, q in enumerate(queries)
    ]
    return {"id": "run-1", "agents": ["a"], "steps": steps}


def result(*queries: str) -> dict[str, Any]:
    """The same as an agent's result."""
    model = ScriptedModel([*(call("search", query=q) for q in queries), "done"])
    agent = create_agent(model, [search])
    return dict(agent.invoke({"messages": [HumanMessage("hi")]}))


FORMS: list[Callable[..., Any]] = [
    events,
    trajectory,
    result,
    lambda *queries: from_dict(trajectory(*queries)),
    lambda *queries: result(*queries)["messages"],
]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_run_is_judged(form: Callable[..., Any]) -> None:
    """Events, trajectories, results and messages all give the same verdicts."""
    assert_no_loop(form("a", "b", "c"))
    assert_trips(form("x", "x", "x", "x"), kind="repeat")


def test_a_loop_is_named_with_its_evidence() -> None:
    """The error has the run, the kind and the step."""
    with pytest.raises(AssertionError, match="run-1 goes in circles: repeat at step 2"):
        assert_no_loop(trajectory("x", "x", "x"))


def test_a_run_that_does_not_trip_is_named() -> None:
    """Silence is an error where a loop is expected."""
    with pytest.raises(AssertionError, match="run-1 never trips"):
        assert_trips(trajectory("a", "b"))


def test_the_kind_has_to_be_the_one_expected() -> None:
    """Tripping on something else is an error that says on what."""
    with pytest.raises(AssertionError, match="repeat at step 2: .*; expected churn"):
        assert_trips(trajectory("x", "x", "x"), kind="churn")


def test_the_step_may_be_earlier_but_not_later() -> None:
    """`by` is the last step at which the guard may act."""
    assert_trips(trajectory("x", "x", "x"), by=2)
    with pytest.raises(AssertionError, match="expected by step 1"):
        assert_trips(trajectory("x", "x", "x"), by=1)


def test_the_policy_decides() -> None:
    """With other settings, the same run trips on other things."""
    policy = Policy(budget=Budget(steps=2))

    assert_trips(events("a", "b", "c"), kind="budget", policy=policy)


def test_every_run_of_a_file_is_judged(tmp_path: Path) -> None:
    """A file of trajectories passes only if each of them does."""
    path = tmp_path / "runs.jsonl"
    runs = [trajectory("a", "b"), trajectory("x", "x", "x") | {"id": "run-2"}]
    path.write_text("\n".join(map(json.dumps, runs)), "utf-8")
    with pytest.raises(AssertionError, match="run-2 goes in circles"):
        assert_no_loop(path)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """A broken line is not passed over, and an empty file proves nothing."""
    path = tmp_path / "runs.jsonl"
    path.write_text("{", "utf-8")
    with pytest.raises(TraceFormatError, match="runs.jsonl:1"):
        assert_no_loop(path)
    path.write_text("", "utf-8")
    with pytest.raises(AssertionError, match="no run"):
        assert_no_loop(path)


def test_the_same_call_for_two_people_words_is_no_loop() -> None:
    """A new word of a person's begins a new run."""
    once = result("x")["messages"]

    assert_no_loop([*once, *once, *once])

"""Runs of agents, read off what was sent to models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from loopguard_lg.errors import TraceFormatError
from loopguard_lg.testing.asserts import assert_loop_rate, assert_trips
from loopguard_lg.testing.recorded_runs import conversations, runs_below

ROOT = Path(__file__).parents[2]
WEAK = "test_a_weak_model_goes_in_circles"
NUDGED = "test_a_nudged_weak_model_comes_to_an_end"
TWO = "test_a_strong_model_does_two_tasks_at_once"


def recorded(name: str) -> Path:
    """A recording of this repository."""
    return ROOT / "cassettes/test_scenarios" / f"{name}.yaml"


def tools(path: Path) -> list[list[str]]:
    """The calls of each run of a file."""
    return [
        [call["tool"] for step in run.steps for call in step.get("calls", ())]
        for run in conversations(path)
    ]


def test_a_run_is_read_off_its_requests() -> None:
    """Every call of a real recording is there once, with what came of it."""
    (run,) = conversations(recorded(WEAK))

    assert run.id == f"test_scenarios/{WEAK}"
    assert tools(recorded(WEAK)) == [["read_file"] * 8]
    assert_trips(run, kind="repeat", by=4)


def test_what_the_guard_said_is_no_part_of_the_run() -> None:
    """Its notes are no new question, and going back begins no new run."""
    (run,) = conversations(recorded(NUDGED))

    people = [step for step in run.steps if step["agent"] == "user"]
    assert len(people) == 1
    assert "loop guard" not in repr(run.steps)


def test_tasks_that_were_done_at_once_are_told_apart() -> None:
    """Each is a run of its own, though their requests alternate."""
    assert tools(recorded(TWO)) == [["search_docs"], ["read_file"]]
    assert [run.id[-2:] for run in conversations(recorded(TWO))] == ["#1", "#2"]


def anthropic(n: int) -> list[dict[str, Any]]:
    """The messages of `n` turns, as Anthropic takes them."""
    found: list[dict[str, Any]] = [{"role": "user", "content": "find x"}]
    for i in range(n):
        use = {"type": "tool_use", "id": f"t{i}", "name": "search", "input": {"q": "x"}}
        result = {"type": "tool_result", "tool_use_id": f"t{i}", "content": "nothing"}
        found.append({"role": "assistant", "content": [use]})
        found.append({"role": "user", "content": [result]})
    return found


def test_anthropic_traffic_is_read_too(tmp_path: Path) -> None:
    """Results come as a user's message there, which is no new question."""
    path = tmp_path / "talk.yaml"
    made = [
        {
            "request": {"body": {"json": {"messages": anthropic(n), "model": "m"}}},
            "response": {"body": {"text": ""}},
        }
        for n in range(5)
    ]
    path.write_text(yaml.safe_dump({"interactions": made}))

    assert tools(path) == [["search"] * 4]


@pytest.mark.parametrize("text", ["", "a: b", "[1", "interactions: 3"])
def test_what_is_no_recording_is_an_error(tmp_path: Path, text: str) -> None:
    """It is named, rather than taken for a file without runs."""
    path = tmp_path / "talk.yaml"
    path.write_text(text)

    with pytest.raises(TraceFormatError, match=r"talk\.yaml:1: this is no recorded"):
        list(conversations(path))


def test_the_loop_rate_of_a_folder_has_a_limit() -> None:
    """The scenarios of this repository: four of ten, two of them a guard's to end."""
    scenarios = ROOT / "cassettes/test_scenarios"
    assert_loop_rate(scenarios, at_most=0.4)

    with pytest.raises(
        AssertionError, match="4 of 10 runs go in circles, more"
    ) as told:
        assert_loop_rate(scenarios, at_most=0.3)
    assert f"{WEAK}: repeat at step" in str(told.value)


def test_a_folder_holds_files_of_every_kind(tmp_path: Path) -> None:
    """Runs and traffic, at any depth; other files are left alone."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/r.jsonl").write_text('{"id": "one", "steps": []}\n')
    (tmp_path / "two.yaml").write_text(recorded(WEAK).read_text())
    (tmp_path / "notes.md").write_text("not a run")

    found = [run.id for run in runs_below(tmp_path)]

    assert found == ["one", f"{tmp_path.name}/two"]


def test_an_empty_folder_proves_nothing(tmp_path: Path) -> None:
    """No runs are no low rate."""
    with pytest.raises(AssertionError, match="no run"):
        assert_loop_rate(tmp_path, at_most=1)

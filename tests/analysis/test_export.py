"""What a model can learn from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.analysis.export import Recovery, chat, pair, recoveries
from loopguard_lg.testing import validate_history
from loopguard_lg.traces.model import from_dict
from tests.analysis.made import FREE, run

LOOP = [("search", "x", "no results")] * 4
OUT = ("list_dir", "docs", "docs/install.md, docs/retries.md")
CUT = {"event": "compaction", "agent": "main", "i": 5}
LAST = ("read_file", "docs/retries.md", "Three retries, with a pause of 20 s between.")


def found(data: dict[str, Any]) -> Recovery:
    """The one recovery of a run."""
    (recovery,) = recoveries(FREE, from_dict(data))
    return recovery


@pytest.fixture
def back() -> dict[str, Any]:
    """A run that asks the same four times, then looks elsewhere."""
    about = {"task": "how many retries?", "licence": "MIT", "source": "here"}
    return run("back", *LOOP, OUT, LAST, success=True, **about)


def note(data: dict[str, Any], at: int) -> dict[str, Any]:
    """The run with a word of the guard's after a turn."""
    said = {"i": at, "agent": "main", "event": "intervention", "text": "[loop guard] !"}
    steps = [*data["steps"]]
    steps.insert(at + 1, {**said, "name": "reflected", "rung": 1})
    return {**data, "steps": steps}


def test_a_recovery_goes_from_the_loop_to_the_turn_that_moved(back: Any) -> None:
    """Onset, the guard's turn, the way out, and where it is from."""
    about = found(back).about()

    assert (about["onset"], about["trip"], about["out"]) == (1, 2, 4)
    assert (about["kind"], about["by"]) == ("repeat", "itself")
    assert (about["run"], about["licence"], about["success"]) == ("back", "MIT", True)


def test_what_the_guard_did_is_said(back: Any) -> None:
    """Its note stands in the chat where it was said."""
    recovery = found(note(back, 2))

    assert recovery.by == "reflected"
    messages = chat(recovery)["messages"]
    assert messages[7] == {
        "role": "user",
        "name": "loopguard",
        "content": "[loop guard] !",
    }


def test_a_chat_is_one_that_providers_take(back: Any) -> None:
    """The task, calls and their results, in pairs; the loop is not to be learned."""
    line = chat(found(back))

    validate_history(line["messages"], request=False)
    assert line["messages"][0] == {"role": "user", "content": "how many retries?"}
    replies = [m for m in line["messages"] if m["role"] == "assistant"]
    assert [m.get("weight", 1) for m in replies] == [1, 0, 0, 0, 1, 1]
    assert line["loopguard"]["run"] == "back"


def test_a_run_that_failed_is_shown_up_to_its_recovery(back: Any) -> None:
    """What came after it led nowhere."""
    messages = chat(found({**back, "success": False}))["messages"]

    assert messages[-1]["content"] == OUT[2]


def test_a_pair_prefers_what_got_out(back: Any) -> None:
    """Both go on from the same point, before the last turn of the loop."""
    line = pair(found(back))

    (chosen,), (rejected,) = line["chosen"], line["rejected"]
    assert chosen["tool_calls"][0]["function"]["name"] == "list_dir"
    assert rejected["tool_calls"][0]["function"]["name"] == "search"
    validate_history(line["prompt"])
    assert len(line["prompt"]) == 1 + 2 * 2


@pytest.mark.parametrize(
    "data",
    [
        run("loops", *LOOP),
        run("works", OUT, LAST),
        {"id": "cut", "steps": [*run("", *LOOP, OUT)["steps"], CUT]},
    ],
)
def test_only_loops_with_a_way_out_are_told(data: dict[str, Any]) -> None:
    """Neither a loop to the end, nor none, nor one whose context is not known."""
    assert [*recoveries(FREE, from_dict(data))] == []


def test_a_person_s_word_is_no_recovery(back: Any) -> None:
    """What comes after it is another matter."""
    steps = back["steps"]
    spoken = [*steps[:4], {"agent": "user", "text": "look in docs"}, *steps[4:]]
    for i, step in enumerate(spoken):
        step["i"] = i

    assert [*recoveries(FREE, from_dict({**back, "steps": spoken}))] == []


def test_no_secret_is_in_a_line(back: Any) -> None:
    """Neither of the task, nor of an argument, nor of a result."""
    key = "sk-abcdefghijklmnop123"
    back["task"] = f"use {key}"
    back["steps"][0]["calls"][0]["args"]["password"] = "hunter2 x"
    back["steps"][4]["calls"][0]["result"] += f" token={key}"

    text = json.dumps([chat(found(back)), pair(found(back))])

    assert "abcdefghijklmnop" not in text
    assert "hunter2" not in text


@given(st.lists(st.sampled_from([*LOOP[:1], OUT, LAST, ("ls", ".", "a")]), max_size=14))
def test_every_line_is_a_whole_chat(calls: list[Any]) -> None:
    """Whatever the run: results have their calls, and places are in order."""
    for recovery in recoveries(FREE, from_dict(run("any", *calls, task="t"))):
        validate_history(chat(recovery)["messages"], request=False)
        line = pair(recovery)
        validate_history([*line["prompt"], {"role": "user", "content": "."}])
        assert recovery.onset <= recovery.trip < recovery.out
        assert line["chosen"] != line["rejected"]

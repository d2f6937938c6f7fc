from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

from loopguard_lg.steps import (
    Compaction,
    Event,
    Human,
    Nested,
    Progress,
    Step,
    Tokens,
    Turn,
)
from loopguard_lg.traces.model import from_dict, from_event, to_event

texts = st.text(st.characters(codec="utf-8"), max_size=20)
counts = st.integers(0, 10**9)
some_seconds = st.none() | st.floats(0, 1e6)
usage = st.builds(Tokens, input=counts, output=counts, cached=counts)
steps = st.builds(
    Step,
    tool=st.sampled_from(["search", "edit"]),
    args=st.dictionaries(texts, texts | st.booleans() | counts, max_size=3),
    result=texts,
    error=st.none() | st.booleans(),
    id=texts,
    state=st.none() | texts,
    changed_state=st.none() | st.booleans(),
    seconds=some_seconds,
    blocked=st.booleans(),
    cached=st.booleans(),
    attempts=st.integers(1, 5),
    args_hash=st.none() | texts,
    result_hash=st.none() | texts,
    result_bytes=st.none() | counts,
    role=st.sampled_from([None, "read", "check"]),
)
nested = st.builds(Nested, model_calls=counts, tokens=usage, cost=some_seconds)
turns = st.builds(
    Turn,
    agent=st.sampled_from(["", "main", "critic"]),
    text=texts,
    steps=st.lists(steps, max_size=3).map(tuple),
    model=st.none() | texts,
    tokens=st.none() | usage,
    cost=some_seconds,
    seconds=some_seconds,
    t=some_seconds,
    nested=st.lists(nested, max_size=2).map(tuple),
    progress=texts,
)
events = st.one_of(
    turns,
    st.builds(Human, text=texts, answer=st.booleans()),
    st.builds(Compaction, agent=st.just("main"), tokens=st.none() | counts),
    st.builds(Progress, note=texts),
)


@given(events, counts)
def test_what_is_written_is_read_back(event: Event, i: int) -> None:
    """Every event survives being a line of JSON, with its position."""
    record = orjson.loads(orjson.dumps(from_event(event, i)))

    assert to_event(record) == replace(event, i=i)


def test_a_long_result_is_clipped_with_a_mark() -> None:
    """A recording holds at most 4,000 characters of a result."""
    turn = Turn(steps=(Step(tool="read", result="x" * 9_000),))

    result = from_event(turn, 0)["calls"][0]["result"]

    assert len(result) == 4_000
    assert "characters left out" in result


@pytest.mark.parametrize(
    ("record", "event"),
    [
        ({"agent": "user", "text": "hi"}, Human(text="hi")),
        ({"agent": "user", "event": "resume"}, Human(answer=True)),
        (
            {"agent": "user", "event": "resume", "raised": {"steps": 5}},
            Human(answer=True, raised={"steps": 5}),
        ),
        (
            {"agent": "a", "event": "compaction", "tokens": 7},
            Compaction(agent="a", tokens=7),
        ),
        ({"agent": "a", "tokens": 7}, Turn(agent="a", tokens=Tokens(input=7))),
        ({"agent": "a", "t": 3}, Turn(agent="a", t=3.0)),
        ({"text": None, "calls": None}, Turn()),
    ],
)
def test_a_foreign_step_is_told_to_the_engine(
    record: dict[str, Any], event: Event
) -> None:
    """The short forms that other recorders write are understood."""
    assert to_event(record) == event


@pytest.mark.parametrize("kind", ["intervention", "rollback", "resume", "checkpoint"])
def test_what_the_guard_did_is_not_told_to_it_again(kind: str) -> None:
    """Events of the recording itself are skipped on replay."""
    assert to_event({"i": 3, "agent": "main", "event": kind, "to": 1}) is None


def test_an_unknown_role_is_no_role() -> None:
    """A role that this version does not know leaves the judgement to it."""
    event = to_event({"calls": [{"tool": "x", "role": "wizard"}]})

    assert event == Turn(steps=(Step(tool="x"),))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], "a trajectory is an object, not a list"),
        ({"id": "x"}, "a trajectory needs the keys `id` and `steps`"),
        ({"id": 7, "steps": []}, "`id` is a string, not a whole number"),
        ({"id": "x", "steps": {}}, "`steps` is a list, not an object"),
        ({"id": "x", "steps": [None]}, "steps[0] is an object, not null"),
        (
            {"id": "x", "steps": [{"i": "1"}]},
            "steps[0].i is a whole number, not a string",
        ),
        ({"id": "x", "steps": [{"calls": [{}]}]}, "steps[0].calls[0] has no `tool`"),
        (
            {"id": "x", "steps": [{"calls": ["ls"]}]},
            "steps[0].calls[0] is an object, not a string",
        ),
        ({"id": "x", "steps": [{"t": "now"}]}, "steps[0].t is a number, not a string"),
        (
            {"id": "x", "steps": [{"tokens": {"input": 1.5}}]},
            "steps[0].tokens.input is a whole number, not a number",
        ),
        ({"id": "x", "steps": [{"i": 4}, {"i": 4}]}, "steps[1].i is 4, not above 4"),
        ({"id": "x", "steps": [{"i": 4}, {"i": 3}]}, "steps[1].i is 3, not above 4"),
        (
            {"id": "x", "steps": [{"i": 4}, {}, {"i": 5}]},
            "steps[2].i is 5, not above 5",
        ),
        ({"id": "x", "steps": [{"i": -1}]}, "steps[0].i is -1, not above -1"),
    ],
)
def test_a_wrong_value_is_named(data: Any, problem: str) -> None:
    """An error says which value is wrong and what it should be."""
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        from_dict(data)


def test_positions_may_be_missing_or_leave_gaps() -> None:
    """Only what the engine is told has to rise; the guard's own steps stand beside."""
    said = {"event": "intervention"}

    run = from_dict({"id": "x", "steps": [{}, {"i": 7}, said, {}, {"i": 9}]})

    assert [event.i for event in run.events] == [0, 7, 8, 9]
    assert [step["i"] for step in run.steps] == [0, 7, 7, 8, 9]


def test_unknown_keys_are_kept() -> None:
    """A run is written back with everything that it was read with."""
    data = {
        "id": "x",
        "source": None,
        "model": "m",
        "task": "t",
        "success": True,
        "versions": {"prompt": "3"},
        "t0": "2026-01-01T00:00:00+00:00",
        "licence": "MIT",
        "mood": [1],
        "steps": [{"i": 0, "agent": "main", "colour": "red"}],
    }

    assert from_dict(data).as_dict() == data

"""What the engine remembers, and how two writers of it are joined."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import ormsgpack
import pytest
from hypothesis import given, settings, strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from loopguard_lg import Policy, decide, memory as memories, scratchpad
from loopguard_lg.memory import Memory, fold, fresh, load, write
from loopguard_lg.steps import Event

from . import wild

POLICY = Policy()
KB8 = 8_000


def after(memory: Memory, *events: Event) -> Memory:
    """The memory after these events."""
    for event in events:
        _, memory = decide(POLICY, memory, event)
    return memory


def calls(memory: Memory) -> float:
    """Model calls that a memory has counted."""
    amount: float = memory["used"]["thread"].get("model_calls", 0)
    return amount


@pytest.mark.parametrize("run", [wild.looping_run, wild.random_run, wild.foreign_run])
def test_it_is_as_large_after_3000_turns_as_after_200(
    run: Callable[[int], Iterator[Event]],
) -> None:
    """In msgpack it stays under 8 KB, whatever the run is like."""
    memory: Memory = {}
    sizes = []
    for number, event in enumerate(run(3_000), start=1):
        memory = after(memory, event)
        if number % 200 == 0:
            sizes.append(len(ormsgpack.packb(memory)))

    assert max(sizes) < KB8
    assert sizes[-1] < sizes[0] * 1.15


@settings(max_examples=25)
@given(st.lists(wild.events, max_size=12))
def test_it_survives_the_checkpointer(events: list[Event]) -> None:
    """The strict serializer needs no registration and gives the same back."""
    serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    memory = after({}, *events)

    assert serde.loads_typed(serde.dumps_typed(memory)) == memory


@settings(max_examples=25)
@given(st.lists(wild.events, min_size=1, max_size=12))
def test_it_survives_json(events: list[Event]) -> None:
    """What comes back decides as what went in."""
    *first, last = events
    memory = after({}, *first)
    again = json.loads(json.dumps(memory))

    assert again == memory
    assert decide(POLICY, again, last) == decide(POLICY, memory, last)


def test_writes_one_after_the_other_replace_the_value() -> None:
    """Each is made from what the one before left."""
    channel: Any = None
    for number in range(1, 4):
        before = load(channel)
        channel = fold(channel, write(before, after(before, wild.call("x"))))
        assert (channel["rev"], calls(channel)) == (number, number)


spends = st.lists(
    st.dictionaries(st.sampled_from(["steps", "usd", "tool:x"]), st.integers(1, 9)),
    max_size=6,
)


def spent(before: Memory, spend: dict[str, int]) -> Memory:
    """The write of one that was before and has spent."""
    used = {
        scope: {name: used.get(name, 0) + spend.get(name, 0) for name in used | spend}
        for scope, used in before["used"].items()
    }
    return write(before, {**before, "used": used})


@given(st.lists(spends, max_size=4))
def test_writers_of_one_step_lose_no_count(rounds: list[Any]) -> None:
    """Whatever number of them there is, and in both scopes."""
    channel = fresh()
    for spends_of_step in rounds:
        before = channel
        for spend in spends_of_step:
            channel = fold(channel, spent(before, spend))

    everything = [spend for spends_of_step in rounds for spend in spends_of_step]
    for name in ("steps", "usd", "tool:x"):
        total = sum(spend.get(name, 0) for spend in everything)
        assert channel["used"]["run"].get(name, 0) == total
        assert channel["used"]["thread"].get(name, 0) == total


@given(st.permutations(range(3)))
def test_the_order_of_writers_does_not_change_the_counts(order: list[int]) -> None:
    """A reducer is called in any order."""
    before = after({}, wild.call("x"))
    writes = [spent(before, {"steps": n + 1}) for n in range(3)]
    channel = before
    for n in order:
        channel = fold(channel, writes[n])

    assert channel["used"]["thread"]["steps"] == 1 + 6


def test_what_was_written_is_kept_of_both() -> None:
    """Writes and ruled-out calls of the second writer join those of the first."""
    before = fresh()
    left = {**before, "pad": scratchpad.add({}, "writes", "send(a)", "sent")}
    right = {**before, "pad": scratchpad.add({}, "ruled", "find(b)", "3x: nothing")}

    channel = fold(fold(before, write(before, left)), write(before, right))

    assert channel["pad"]["writes"] == [["send(a)", "sent"]]
    assert channel["pad"]["ruled"] == [["find(b)", "3x: nothing"]]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [*fresh(), "set", "base", "spend", "run", "thread", "tried"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=200)
@given(anything, anything)
def test_folding_never_raises(left: Any, right: Any) -> None:
    """Whatever is in the channel, and whatever is written, a memory comes out."""
    for value in (fold(left, right), fold(fresh(), {"set": left, "spend": right})):
        assert value.keys() == fresh().keys()
        assert value["version"] == memories.VERSION


PARTS = [part for part in fresh() if part != "version"]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("broken", [None, "text", ["list"], 1.5])
def test_a_broken_part_costs_no_count(part: str, broken: Any) -> None:
    """The rest starts afresh where it has to; budgets hold on."""
    memory = after({}, wild.call("x"), wild.call("y"))

    loaded = load({**memory, part: broken})

    assert calls(loaded) == (0 if part == "used" else 2)
    assert calls(after(loaded, wild.call("z"))) == calls(loaded) + 1


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version_keeps_counts_and_scratchpad(version: Any) -> None:
    """A thread goes on under an older or a newer release."""
    memory = after({}, wild.call("x", query="a"))

    loaded = load({**memory, "version": version, "later": {}})

    assert loaded["used"] == memory["used"]
    assert loaded["pad"] == memory["pad"]
    assert loaded["rev"] == memory["rev"]
    assert (loaded["version"], loaded["history"]) == (memories.VERSION, {})


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), -1, "3", None])
def test_an_amount_that_no_budget_can_be_held_against_is_dropped(amount: Any) -> None:
    """NaN would pass every limit."""
    loaded = load({"used": {"run": {"steps": amount, "usd": 1}, "thread": None}})

    assert loaded["used"] == {"run": {"usd": 1}, "thread": {}}


def test_memories_share_nothing_that_is_changed() -> None:
    """Two fresh ones, and a value and what was folded from it, are apart."""
    one, other = fresh(), fresh()
    one["used"]["run"]["steps"] = 5

    assert other == fresh()
    for part, value in itertools.product(["used", "pad"], [fold(None, None)]):
        assert value[part] is not other[part]

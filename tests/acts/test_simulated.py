"""The simulated agents of the benchmark: pure habits, and real runs of them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from benchmarks.simulated.agents import simulate
from benchmarks.simulated.habits import (
    HABITS,
    NAMES,
    Result,
    Seen,
    act,
    agent_of,
)
from benchmarks.simulated.world import JOB, World, respond
from loopguard_lg import Policy

ALL_TOOLS = frozenset(
    (
        *("search", "read", "send_mail", "order", "edit", "run_tests", "write_todos"),
        *("transfer_to_sales", "transfer_to_support"),
    )
)


def lives(habit: str, seed: int, turns: int = 9, **told: Any) -> list[Any]:
    """What an agent does in an untouched world, turn by turn."""
    rng, world, mind = Random(seed), World(), {}
    seen, done = Seen(tools=ALL_TOOLS), []
    for _ in range(turns):
        action, mind = act(agent_of(habit), mind, seen, rng)
        done.append(action)
        if not action:
            break
        call = action[0]
        if call.args.get("count") == "some":
            text, error = "count: not an integer", True
        else:
            (text, world), error = respond(world, call.tool, call.args, JOB), False
        seen = Seen(results=(Result(call, text, error),), tools=ALL_TOOLS, **told)
    return done


@given(habit=st.sampled_from(NAMES), seed=st.integers(0, 99), heeds=st.booleans())
def test_the_same_seed_gives_the_same_run(habit: str, seed: int, heeds: bool) -> None:
    """Nothing but the mind, what is seen, and chance tells what comes next."""
    told = {"note": "go on"} if heeds else {}

    assert lives(habit, seed, **told) == lives(habit, seed, **told)


def test_an_honest_agent_carries_out_its_plan() -> None:
    """And then it answers."""
    plan = agent_of("honest").plan

    assert lives("honest", 1) == [*((call,) for call in plan), ()]


@pytest.mark.parametrize("habit", HABITS)
def test_a_habit_goes_on_until_something_frees_the_agent(habit: str) -> None:
    """Left alone it never ends; a stronger model never falls into it twice."""
    alone = lives(habit, 1, turns=30)

    assert len(alone) == 30
    assert alone[1] != (agent_of(habit).plan[1],)
    assert lives(habit, 1, strong=True)[-1] == ()


@pytest.mark.parametrize("habit", HABITS)
def test_a_word_that_is_heeded_frees_the_agent(habit: str) -> None:
    """After a few of them, as each is heeded by chance only."""
    assert lives(habit, 3, turns=40, note="take another way")[-1] == ()


def test_what_an_agent_keeps_in_mind_is_plain_data() -> None:
    """So that a run can be stopped and copied."""
    _, mind = act(agent_of("repeat"), {}, Seen(), Random(1))

    assert json.loads(json.dumps(dict(mind))) == mind


@pytest.mark.parametrize("habit", [name for name in NAMES if name in HABITS])
def test_a_simulated_run_is_a_real_one(habit: str) -> None:
    """Unguarded it is stopped by its limit, guarded it ends before that."""
    alone = simulate(agent_of(habit), Policy(observe_only=True), 1, limit=12)
    kept = simulate(agent_of(habit, heed=0.0, clue=0.0), Policy(), 1)

    assert (alone.done, alone.turns) == (False, 12)
    assert kept.turns < 40
    assert alone.tokens > 0

"""The fast driver of simulated agents, and what they are drawn from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from benchmarks.recovery.fast import Host
from benchmarks.recovery.fit import (
    FITTED,
    Fitted,
    Loop,
    compared,
    kept,
    load,
    loop_of,
    period,
)
from benchmarks.recovery.population import KINDS, LIMIT, honest, looping
from benchmarks.recovery.simulate import UNGUARDED, Trial, ladders, spoiled, with_acts
from benchmarks.simulated.agents import Run, simulate, stronger
from benchmarks.simulated.habits import HABITS, NAMES, agent_of
from loopguard_lg import Policy
from loopguard_lg.analysis.labels import Label
from loopguard_lg.steps import Step, Turn
from loopguard_lg.traces.model import from_dict

FOUND = load()


def turns(*queries: str) -> list[Turn]:
    """Turns of one search each."""
    return [Turn(steps=(Step(tool="search", args={"q": q}),)) for q in queries]


@pytest.mark.parametrize("habit", NAMES)
@pytest.mark.parametrize("which", [0, 1], ids=["ladder", "acts"])
def test_a_fast_run_is_the_same_as_one_in_a_graph(habit: str, which: int) -> None:
    """The same calls, models, tokens, waits and events, to the last one."""
    strong = stronger()
    policy = next((ladders, with_acts)[which](strong))[1]
    agent = agent_of(habit, heed=0.5, relapse=0.5, strong=0.5)
    fast = Host(policy, 20, strong).run(agent, 4)

    assert fast == simulate(agent, policy, 4, 20, strong)
    assert fast.turns > 2


def test_a_host_keeps_nothing_from_one_run_to_the_next() -> None:
    """A run after others is what it would have been alone."""
    host, other = Host(Policy()), agent_of("oscillate", heed=0.0)
    first = host.run(agent_of("repeat"), 1)
    host.run(other, 2)

    assert host.run(agent_of("repeat"), 1) == first


@given(seed=st.integers(0, 10_000))
def test_a_drawn_agent_has_its_habit_within_its_plan(seed: int) -> None:
    """And an end of its patience; an honest one has neither."""
    agent = looping(FOUND, seed)

    assert agent.habit in HABITS
    assert agent.at < len(agent.plan)
    assert (agent.patience or 0) > 0
    assert honest(FOUND, seed).habit == "honest"


def test_an_unguarded_loop_is_as_long_as_the_recorded_one() -> None:
    """The simulated agent stops where the recorded one did."""
    loop = Loop(kind="repeat", onset=5, since=8, period=1, success=False)
    agent = looping(Fitted(loops=(loop,), honest={}), 1)
    run = Host(UNGUARDED, LIMIT).run(agent, 1)

    assert (run.turns, run.done) == (loop.onset + loop.since, False)


def test_a_loop_that_came_right_comes_right() -> None:
    """After its patience the agent goes on with its plan."""
    loop = Loop(kind="oscillation", onset=3, since=6, period=2, success=True)
    run = Host(UNGUARDED, LIMIT).run(looping(Fitted(loops=(loop,), honest={}), 1), 1)

    assert run.done


@pytest.mark.parametrize(
    ("queries", "found"), [("aaaa", 1), ("abababab", 2), ("abcdef", 0), ("a", 0)]
)
def test_a_period_is_the_least_after_which_calls_come_again(
    queries: str, found: int
) -> None:
    """None where they do not."""
    assert period(turns(*queries)) == found


def test_a_recorded_loop_is_measured_in_turns() -> None:
    """What a person said does not count, the onset is that of the label."""
    calls = [{"tool": "search", "args": {"q": "x"}, "result": "none"}]
    steps: list[dict[str, Any]] = [{"i": 0, "agent": "user", "calls": []}]
    steps += [{"i": i, "agent": "a", "calls": calls} for i in range(1, 7)]
    run = from_dict({"id": "r", "success": False, "steps": steps})
    found = loop_of(run, Label(loop=True, kind="repeat", onset=3))

    assert found == Loop("repeat", onset=2, since=4, period=1, success=False)


def test_the_fit_is_kept_as_it_was() -> None:
    """The file holds what is read from it, and every kind has a habit."""
    text = FITTED.read_text()

    assert kept(FOUND) == text
    assert {loop.kind for loop in FOUND.loops} <= {*KINDS}
    assert any("period" in line for line in compared(FOUND, FOUND))


def test_honest_agents_keep_their_success() -> None:
    """None of a few is lost under the default policy."""
    assert [*spoiled(FOUND, Policy(), 12, stronger())] == []


def test_an_end_is_right_where_the_loop_would_not_have_come_right() -> None:
    """An exit is right for an agent that never would have, and wrong for one that
    would.
    """
    trial = Trial(FOUND, 8, {"heed": 0.0})
    sober = [agent.sober for agent in trial.agents]
    ended = [Run(told={"exited": 1}) for _ in sober]

    assert trial.right(ended) == [not each for each in sober]
    assert trial.right([Run() for _ in sober]) == [False] * len(sober)

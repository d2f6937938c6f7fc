from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopguard_lg import AskUser, Budget, LoopGuardMiddleware, Policy
from loopguard_lg.budgets import Price
from loopguard_lg.errors import PolicyError
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    executed,
    guarded,
    laddered,
    last,
    notes,
    read,
    results,
    search,
)


def searches(n: int, start: int = 0) -> list[Any]:
    """Calls that each find something new."""
    return [call("search", query=f"w{i}") for i in range(start, start + n)]


def used(agent: Any, scope: str = "run") -> dict[str, float]:
    """What the guard counted on the thread."""
    spent: dict[str, float] = agent.get_state(THREAD).values["loopguard"]["used"][scope]
    return spent


@pytest.mark.parametrize("batch", [3, 64])
def test_a_batch_is_admitted_by_position(batch: int, way: Way) -> None:
    """A budget that runs out in a batch answers the rest in order, then exits."""
    model = ScriptedModel(replies=[searches(batch), "never"])
    policy = Policy(budget=Budget(tool_calls=batch - 1))

    state = way(guarded(model, policy), ask(), THREAD)

    told = results(state["messages"])
    assert sorted(executed) == sorted(f"search w{i}" for i in range(batch - 1))
    assert [m.tool_call_id for m in told] == [f"call_{i + 1}" for i in range(batch)]
    assert "budget of" in told[-1].text
    assert state["loopguard_exit"]["budget"] == "tool_calls"
    assert len(model.requests) == 1


def test_a_tool_with_a_budget_of_its_own_stops_alone(way: Way) -> None:
    """Other tools of the batch, and the run, go on."""
    batch = [*searches(3), call("read", path="a")]
    model = ScriptedModel(replies=[batch, searches(1, 9), "found"])
    policy = Policy(budget=Budget(per_tool={"search": 2}))

    state = way(guarded(model, policy), ask(), THREAD)

    assert sorted(executed) == ["read a", "search w0", "search w1"]
    assert [m.status for m in results(state["messages"])] == [
        *["success"] * 2,
        "error",
        "success",
        "error",
    ]
    assert last(state).text == "found"


@pytest.mark.parametrize("limit", ["steps", "model_calls"])
def test_turns_are_bounded(limit: str, way: Way) -> None:
    """No model call is made beyond the budget."""
    model = ScriptedModel(replies=searches(9))
    policy = Policy(budget=Budget(**{limit: 3}))

    state = way(guarded(model, policy), ask(), THREAD)

    assert state["loopguard_exit"]["budget"] == limit
    assert len(model.requests) == 3


def test_a_new_word_starts_a_run_and_an_answer_does_not() -> None:
    """Run budgets go on over a resume, and start afresh with a person's message."""
    replies = [*searches(1), call("ask_user", question="?"), *searches(1, 1), "ok"]
    model = ScriptedModel(replies=[*replies, "hello"])
    policy = Policy(budget=Budget(steps=9), leave_tools=("ask_user",))
    agent = guarded(model, policy, checkpointer=InMemorySaver())

    agent.invoke(ask(), THREAD)
    agent.invoke(Command(resume="a"), THREAD)
    resumed = used(agent)["steps"]
    agent.invoke(ask("again"), THREAD)

    assert resumed == 3
    assert "steps" not in used(agent)


def test_thread_budgets_add_up_over_runs() -> None:
    """A thread's budget ends the run in which it is used."""
    model = ScriptedModel(replies=[*searches(1), "one", *searches(2, 1), "never"])
    policy = Policy(budget=(Budget(steps=2, scope="thread"), Budget(steps=2)))
    agent = guarded(model, policy, checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)

    state = agent.invoke(ask("more"), THREAD)

    assert "the thread's budget of 2 steps" in state["loopguard_exit"]["detail"]
    assert len(executed) == 2


def test_a_budget_that_is_out_stays_out_without_a_new_word() -> None:
    """Going on with no input does not get round it."""
    model = ScriptedModel(replies=searches(9))
    policy = Policy(budget=Budget(steps=1))
    agent = guarded(model, policy, checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)

    state = agent.invoke({"messages": []}, THREAD)

    assert state["loopguard_exit"]["budget"] == "steps"
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("limit", "least"), [("tool_calls", 1), ("total_tokens", 1), ("seconds", 1e-9)]
)
def test_a_person_can_be_asked_when_a_budget_is_out(
    limit: str, least: float, way: Way
) -> None:
    """The guard's own question is not refused for want of budget."""
    model = ScriptedModel(replies=[*searches(4), "found"])
    policy = laddered(end=AskUser()).replace(budget=Budget(**{limit: least}))
    agent = guarded(model, policy, checkpointer=InMemorySaver())

    way(agent, ask(), THREAD)
    (pending,) = agent.get_state(THREAD).interrupts
    way(agent, Command(resume="stop"), THREAD)

    assert pending.value["report"]["budget"] == limit
    assert len(model.requests) <= 1  # a model may be cut before it begins


def test_a_raised_budget_lets_the_run_go_on() -> None:
    """The answer `raise_budget` gives the run another budget of the same size."""
    model = ScriptedModel(replies=[*searches(2), "found"])
    policy = laddered(end=AskUser()).replace(budget=Budget(steps=1))
    agent = guarded(model, policy, checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)
    agent.invoke(Command(resume={"choice": "raise_budget"}), THREAD)

    agent.invoke(Command(resume={"choice": "raise_budget"}), THREAD)

    assert executed == ["search w0", "search w1"]
    assert agent.get_state(THREAD).values["messages"][-1].text == "found"


def test_the_warning_is_told_once_at_the_end_of_the_request(way: Way) -> None:
    """At the warning share the model hears it once, after everything else."""
    model = ScriptedModel(replies=[*searches(4), "found"])

    way(guarded(model, Policy(budget=Budget(steps=5, warn=0.6))), ask(), THREAD)

    assert [bool(note) for note in notes(model)] == [False] * 3 + [True, False]
    assert model.requests[3].messages[-1].name == "loopguard"


def test_a_warning_is_not_lost_beside_a_reflection() -> None:
    """What is said about a loop does not swallow what is said about a budget."""
    looping = [call("search", query="x")] * 3
    model = ScriptedModel(replies=[*looping, "found"])

    guarded(model, Policy(budget=Budget(steps=6, warn=0.5))).invoke(ask())

    assert "3 times" in notes(model)[3]
    assert "budget" in notes(model)[3]


@tool
async def hang(why: str) -> str:
    """Wait for something that never happens."""
    executed.append(f"hang {why}")
    await asyncio.Event().wait()
    return "never"


def test_a_hung_call_is_cut_when_the_seconds_are_used() -> None:
    """A cut is an error result; then the run exits, and the thread is whole."""
    model = ScriptedModel(replies=[[call("hang", why="a"), *searches(1)], "hi"])
    policy = Policy(budget=Budget(seconds=0.2))
    saver = InMemorySaver()
    agent = guarded(model, policy, tools=[hang, *TOOLS], checkpointer=saver)

    state = asyncio.run(asyncio.wait_for(agent.ainvoke(ask(), THREAD), 20))

    told = results(state["messages"])
    assert [m.status for m in told] == ["error", "success"]
    assert "budget of seconds is used" in told[0].text
    assert state["loopguard_exit"]["budget"] == "seconds"


def ticking(step: float) -> Any:
    """A clock that is `step` seconds later each time it is read."""

    def ticks() -> Iterator[float]:
        now = 0.0
        while True:
            yield now
            now += step

    at = ticks()
    return lambda: next(at)


def test_seconds_are_those_of_models_and_tools() -> None:
    """Each model call and each step of tools takes its time from the clock."""
    model = ScriptedModel(replies=searches(9))
    guard = LoopGuardMiddleware(Policy(budget=Budget(seconds=7)), clock=ticking(2))
    agent = create_agent(model, TOOLS, middleware=[guard])

    state = agent.invoke(ask())

    assert state["loopguard_exit"]["usage"]["seconds"] == 8
    assert executed == ["search w0", "search w1"]


def test_tokens_are_estimated_where_the_provider_does_not_say(way: Way) -> None:
    """A budget of tokens holds for a stream without usage, and the guess is marked."""
    model = ScriptedModel(replies=searches(9), usage=False)

    state = way(guarded(model, Policy(budget=Budget(total_tokens=60))), ask(), THREAD)

    spent = state["loopguard_exit"]["usage"]
    assert state["loopguard_exit"]["budget"] == "total_tokens"
    assert spent["estimated"] == spent["model_calls"] == len(model.requests)


def test_dollars_without_a_price_are_refused_at_the_start(way: Way) -> None:
    """A budget that can't be kept is a setting to mend, not a surprise later."""
    agent = guarded(ScriptedModel(replies=["hi"]), Policy(budget=Budget(usd=1)))

    with pytest.raises(PolicyError, match="no price is known for the model 'scripted'"):
        way(agent, ask(), THREAD)


def test_dollars_without_a_price_may_be_ignored() -> None:
    """`unknown_price="ignore"` counts such calls as free, and says how many."""
    policy = Policy(budget=(Budget(usd=1, unknown_price="ignore"), Budget(steps=1)))
    agent = guarded(ScriptedModel(replies=searches(2)), policy)

    assert agent.invoke(ask())["loopguard_exit"]["usage"]["unpriced"] == 1


@pytest.mark.parametrize(
    ("name", "prices"),
    [("scripted", {"scripted": Price(input=1, output=9e6)}), ("gpt-4o-mini", {})],
    ids=["own price", "listed price"],
)
def test_dollars_are_bounded(name: str, prices: Any, way: Way) -> None:
    """Own prices, and those of the table, end a run that costs too much."""
    model = ScriptedModel(replies=searches(9), model_name=name)
    policy = Policy(budget=Budget(usd=1e-9), prices=prices)

    state = way(guarded(model, policy), ask(), THREAD)

    assert state["loopguard_exit"]["budget"] == "usd"
    assert len(model.requests) == 1


def test_a_provider_before_the_name_finds_the_price() -> None:
    """`provider:model` is known as well as the name alone."""
    model = ScriptedModel(replies=["hi"], model_name="openai:gpt-4o-mini")

    state = guarded(model, Policy(budget=Budget(usd=1))).invoke(ask())

    assert last(state).text == "hi"


def test_the_stronger_model_is_charged_at_its_own_price() -> None:
    """An escalation costs what its model costs, also where no reply names it."""
    silent = AIMessage("found", response_metadata={"model_name": ""})
    strong = ScriptedModel(replies=[silent], model_name="strong")
    loop = [call("search", query="x")] * 4
    weak = ScriptedModel(replies=loop)
    prices = {
        "scripted": Price(input=0, output=0),
        "strong": Price(input=0, output=1e6),
    }
    policy = laddered(strong).replace(budget=Budget(usd=99), prices=prices)
    agent = guarded(weak, policy, tools=[search, read], checkpointer=InMemorySaver())

    agent.invoke(ask(), THREAD)

    assert used(agent)["usd"] > 0

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ToolCallLimitMiddleware,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopguard_lg import (
    Budget,
    GiveUp,
    Ladder,
    LoopGuardMiddleware,
    Policy,
    Reflect,
    ToolPolicy,
)
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import THREAD, TOOLS, ask, executed, last, results

HELD = Policy(ladder=Ladder(Reflect(), Reflect(), GiveUp()))


@tool
def deploy(target: str, dry: bool = False) -> str:
    """Deploy to a place; `x` is none."""
    executed.append(f"deploy {target}")
    return "no such target" if target == "x" else f"deployed to {target}"


TEAM = [*TOOLS, deploy]


def reviewed(
    model: Any, policy: Policy, place: str, mode: Any = "batched", **more: Any
) -> Any:
    """An agent whose deployments a person approves, unless the guard answers them."""
    guard = LoopGuardMiddleware(policy, observers=more.get("observers", ()))
    when = partial(guard.lets_through, tools=TEAM)
    config: Any = {"allowed_decisions": ["approve", "reject"], "when": when}
    human = HumanInTheLoopMiddleware({"deploy": config}, interrupt_mode=mode)
    others = [human, *more.get("middleware", ())]
    listed = [guard, *others] if place == "first" else [*others, guard]
    return create_agent(model, TEAM, middleware=listed, checkpointer=InMemorySaver())


def approved(agent: Any, mode: str) -> tuple[Any, int]:
    """The end of a run in which a person approves all, and how often it asked."""
    state, asked = agent.invoke(ask(), THREAD), 0
    while pending := agent.get_state(THREAD).interrupts:
        yes = {"type": "approve"}
        asked += len(pending)
        answer = yes if mode == "per_call" else {"decisions": [yes]}
        state = agent.invoke(Command(resume={p.id: answer for p in pending}), THREAD)
    return state, asked


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize("place", ["first", "last"])
def test_nobody_is_asked_about_a_call_that_is_held(place: str, mode: str) -> None:
    """What a loop has taught is not put to a person again, in either order."""
    replies = [*[call("deploy", target="x")] * 5, "done"]
    agent = reviewed(ScriptedModel(replies=replies), HELD, place, mode)

    state, asked = approved(agent, mode)

    held = [m for m in results(state["messages"]) if "Not executed" in m.text]
    assert len(executed) == asked
    assert held
    assert asked + len(held) == len(results(state["messages"]))


@pytest.mark.parametrize("place", ["first", "last"])
def test_nobody_is_asked_about_a_call_without_budget(place: str) -> None:
    """The calls that a budget has no room for are refused without a question."""
    policy = Policy(budget=Budget(tool_calls=1))
    batch = [call("deploy", target=word) for word in "ab"]
    agent = reviewed(ScriptedModel(replies=[batch, "done"]), policy, place)

    state, asked = approved(agent, "batched")

    assert (asked, executed) == (1, ["deploy a"])
    assert [m.status for m in results(state["messages"])] == ["success", "error"]


def test_nobody_is_asked_about_a_call_that_has_its_receipt() -> None:
    """What is done at most once is approved at most once."""
    policy = Policy(tools={"deploy": ToolPolicy(once=True)})
    replies = [*[call("deploy", target="y")] * 2, "done"]
    agent = reviewed(ScriptedModel(replies=replies), policy, "first")

    state, asked = approved(agent, "batched")

    assert (asked, len(executed)) == (1, 1)
    assert last(state).text == "done"


def test_nobody_is_asked_about_a_call_that_another_middleware_answered() -> None:
    """A limit's refusal stands before the person is asked."""
    limit = ToolCallLimitMiddleware(run_limit=1, exit_behavior="continue")
    batch = [call("deploy", target=word) for word in "ab"]
    model = ScriptedModel(replies=[batch, "done"])
    agent = reviewed(model, Policy(), "first", middleware=[limit])

    _, asked = approved(agent, "batched")

    assert (asked, executed) == (1, ["deploy a"])


def test_the_look_ahead_tells_nobody() -> None:
    """Observers hear of a held call when it is answered, once."""
    replies = [*[call("deploy", target="x")] * 4, "done"]
    seen: list[GuardEvent] = []
    model = ScriptedModel(replies=replies)
    agent = reviewed(model, HELD, "first", observers=[seen.append])

    state, _ = approved(agent, "batched")

    held = [m for m in results(state["messages"]) if "Not executed" in m.text]
    assert [e.name for e in seen].count("blocked") == len(held) == 1

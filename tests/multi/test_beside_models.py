from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import LLMToolSelectorMiddleware
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import Budget, LoopGuardMiddleware, Policy
from loopguard_lg.budgets import Price
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import THREAD, TOOLS, Way, ask, last
from tests.multi.teams import child, delegate_to, parent, used

CHOSEN = call("ToolSelectionResponse", tools=["read", "search", "write"])
PRICES = {
    "scripted": Price(input=0, output=0),
    "selector": Price(input=1e6, output=1e6),
}


def selecting(
    replies: list[Any], place: str = "first", policy: Policy | None = None
) -> Any:
    """An agent whose tools another model selects before each call."""
    selector = ScriptedModel(default=CHOSEN, model_name="selector")
    picks = LLMToolSelectorMiddleware(model=selector)
    guard = LoopGuardMiddleware(policy)
    return create_agent(
        ScriptedModel(replies=replies),
        TOOLS,
        middleware=[guard, picks] if place == "first" else [picks, guard],
        checkpointer=InMemorySaver(),
    )


def test_a_model_that_a_middleware_inside_calls_is_charged(way: Way) -> None:
    """Its calls and tokens are those of the run, each once."""
    agent = selecting([call("read", path="a"), "found"])

    way(agent, ask(), THREAD)

    assert used(agent)["model_calls"] == 4


def test_its_price_is_that_of_its_own_model(way: Way) -> None:
    """A budget in dollars is out by what the other model took."""
    policy = Policy(budget=Budget(usd=1.0), prices=PRICES)

    state = way(selecting([call("read", path="a")], policy=policy), ask(), THREAD)

    assert state["loopguard_exit"]["budget"] == "usd"


@pytest.mark.parametrize("place", ["first", "last"])
def test_the_agents_own_tokens_are_counted_once(place: str) -> None:
    """What is charged beside is what is beyond the reply."""
    agent = selecting(["found"], place)
    agent.invoke(ask(), THREAD)
    plain = create_agent(
        ScriptedModel(replies=["found"]),
        TOOLS,
        middleware=[LoopGuardMiddleware()],
        checkpointer=InMemorySaver(),
    )
    plain.invoke(ask(), THREAD)

    more = used(agent)["output_tokens"] - used(plain)["output_tokens"]

    assert (more > 0) == (place == "first")


def test_a_guarded_childs_calls_are_still_its_parents(way: Way) -> None:
    """Each is charged at both levels, once."""
    replies = [call("delegate", task="a"), "found"]
    agent = parent(
        replies,
        [delegate_to(child([call("read", path="a"), "done"]))],
        checkpointer=InMemorySaver(),
    )

    state = way(agent, ask(), THREAD)

    assert last(state).text == "found"
    assert used(agent)["model_calls"] == 4

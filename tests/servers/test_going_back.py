"""Going back for real, on checkpointers that keep it somewhere."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain.agents.middleware import TodoListMiddleware

from loopguard_lg import LoopGuardMiddleware
from loopguard_lg.adapters.restore import afork_from_last_good, fork_from_last_good
from loopguard_lg.testing.doubles import ScriptedModel
from tests.graph.test_restore import PLANNED, planner, restoring, todo
from tests.middleware.runs import TOOLS, ask, executed
from tests.servers.kept import THREAD, Kept, climbing, make, opened


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_a_channel_is_put_back_in_place(
    kind: str, where: str, durability: str
) -> None:
    """The checkpoint of the good point is found while the run goes on."""
    async with opened(kind, where) as kept:
        agent = planner(kept.saver, "todos")
        state = await kept.run(agent, ask(), durability=durability)

    assert state["todos"] == [todo("good")]


async def test_without_a_checkpoint_nothing_is_put_back(
    kind: str, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`durability="exit"` keeps none: that is logged, and the run goes on."""
    async with opened(kind, where) as kept:
        agent = planner(kept.saver, "todos")
        with caplog.at_level(logging.WARNING, "loopguard_lg"):
            state = await kept.run(agent, ask(), durability="exit")

    assert state["todos"] == [todo("astray")]
    assert state["messages"][-1].text == "found"
    assert "put back" in caplog.text


async def test_a_deep_agent_s_plan_is_put_back(kind: str, where: str) -> None:
    """Its messages are kept as changes; the plan is found all the same."""
    model = ScriptedModel(replies=[*PLANNED, "found"])
    guard = LoopGuardMiddleware(restoring("todos"))
    async with opened(kind, where) as kept:
        agent = create_deep_agent(
            model,
            TOOLS,
            middleware=[guard, TodoListMiddleware()],
            checkpointer=kept.saver,
        )
        state = await kept.run(agent, ask())

    assert state["todos"] == [todo("good")]


async def forked(kept: Kept, agent: Any) -> Any:
    """A fork of the thread at its last good point."""
    if kept.awaits:
        return await afork_from_last_good(agent, THREAD)
    return await asyncio.to_thread(fork_from_last_good, agent, THREAD)


async def test_a_fork_is_made_elsewhere_from_the_last_good_point(
    kind: str, where: str
) -> None:
    """Another process goes on from before the loop, and no tool runs again."""
    async with opened(kind, where) as kept:
        first = await kept.run(climbing(kept.saver), ask())
    async with opened(kind, where) as again:
        agent = climbing(again.saver)
        before = (await again.state(agent))["loopguard"]["used"]["thread"]
        await forked(again, agent)
        state, calls = await again.state(agent), [*executed]

    assert len(state["messages"]) < len(first["messages"])
    assert state["loopguard"]["used"]["thread"] == before
    assert calls == executed


async def test_a_fork_goes_on_with_another_model(kind: str, where: str) -> None:
    """It is told what was tried in vain, and its answer is the thread's."""
    async with opened(kind, where) as kept:
        await kept.run(climbing(kept.saver), ask())
    model = ScriptedModel(["found it"])
    async with opened(kind, where) as again:
        other = make(again.saver, model)
        await forked(again, other)
        state = await again.run(other, None)

    assert state["messages"][-1].text == "found it"
    assert "search" in model.requests[0].text

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import Budget, LoopGuardMiddleware, Policy
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import TOOLS, ask

AGENTS = 20


def replies(n: int) -> list[Any]:
    """The first loops; the others read on, each a different number of files."""
    if n == 0:
        return [call("search", query="x")] * 20
    return [*[call("read", path=f"{n}-{i}") for i in range(n % 5 + 1)], "found"]


def thread(n: int) -> dict[str, Any]:
    """The thread of an agent."""
    return {"configurable": {"thread_id": str(n)}}


def agents(guard: LoopGuardMiddleware) -> tuple[list[Any], list[ScriptedModel]]:
    """Agents that share one guard and one store."""
    saver = InMemorySaver()
    models = [ScriptedModel(replies=replies(n)) for n in range(AGENTS)]
    made = [
        create_agent(model, TOOLS, middleware=[guard], checkpointer=saver)
        for model in models
    ]
    return made, models


def counted(made: list[Any]) -> list[float]:
    """Calls that the guard counted on each thread."""
    return [
        agent.get_state(thread(n)).values["loopguard"]["used"]["run"]["tool_calls"]
        for n, agent in enumerate(made)
    ]


def expected() -> list[float]:
    """Calls that each agent has executed, the first one as when it runs alone."""
    made, _ = agents(LoopGuardMiddleware())
    made[0].invoke(ask(), thread(0))
    return [*counted(made[:1]), *(n % 5 + 1 for n in range(1, AGENTS))]


def test_threads_that_share_a_guard_do_not_mix() -> None:
    """Twenty runs at a time on one object are counted each for itself."""
    made, models = agents(LoopGuardMiddleware())

    with ThreadPoolExecutor(AGENTS) as pool:
        states = list(
            pool.map(lambda n: made[n].invoke(ask(), thread(n)), range(AGENTS))
        )

    assert counted(made) == expected()
    assert states[0]["loopguard_exit"]["reason"] == "loop"
    assert [model.remaining for model in models[1:]] == [0] * (AGENTS - 1)


async def test_tasks_that_share_a_guard_do_not_mix() -> None:
    """So are twenty runs on one event loop."""
    made, models = agents(LoopGuardMiddleware())

    runs = [agent.ainvoke(ask(), thread(n)) for n, agent in enumerate(made)]
    states = await asyncio.gather(*runs)

    assert counted(made) == expected()
    assert states[0]["loopguard_exit"]["reason"] == "loop"
    assert [model.remaining for model in models[1:]] == [0] * (AGENTS - 1)


async def test_one_agent_on_many_threads_keeps_them_apart() -> None:
    """The same compiled agent bounds each thread by itself."""
    model = ScriptedModel(
        replies=[lambda messages: call("read", path=str(len(messages)))], loop=True
    )
    guard = LoopGuardMiddleware(Policy(budget=Budget(steps=3)))
    agent = create_agent(model, TOOLS, middleware=[guard])

    states = await asyncio.gather(
        *(agent.ainvoke(ask(), thread(n)) for n in range(AGENTS))
    )

    assert {s["loopguard_exit"]["usage"]["steps"] for s in states} == {3}
    assert len(model.requests) == 3 * AGENTS


def test_the_guard_holds_nothing_of_a_run() -> None:
    """After a run the object is what it was before."""
    guard = LoopGuardMiddleware()
    before = dict(vars(guard))
    model = ScriptedModel(replies=replies(0))

    create_agent(model, TOOLS, middleware=[guard]).invoke(ask())

    assert vars(guard) == before

"""A run on an event loop is cancelled at every point at which the loop turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import Budget, LoopGuardMiddleware, Policy
from loopguard_lg.fleet import Fleet, FleetBudget, MemoryLedger
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph.graphs import guarded as guarded_graph, react
from tests.middleware.runs import THREAD, TOOLS, ask, guarded, last
from tests.servers.test_fleet_runs import NOW, stands

LIMIT = Policy(budget=Budget(model_calls=6, scope="thread"))
CALLS = FleetBudget(Budget(model_calls=99), per="tenant")


class Counting(asyncio.SelectorEventLoop):
    """Cancels a task when so many callbacks were put in its line."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.left = most
        self.task: asyncio.Task[Any] | None = None

    def call_soon(self, *args: Any, **kwargs: Any) -> Any:
        """Count, then do it."""
        self.left -= 1
        if self.left == 0 and self.task is not None:
            self.task.cancel()
        return super().call_soon(*args, **kwargs)


def cut_at(turn: int, work: Callable[[], Coroutine[Any, Any, Any]]) -> bool:
    """Run `work`, cancelled at a turn of the loop; whether it was still running."""
    with asyncio.Runner(loop_factory=lambda: Counting(turn)) as runner:
        loop: Any = runner.get_loop()

        async def main() -> bool:
            loop.task = asyncio.create_task(work())
            (found,) = await asyncio.gather(loop.task, return_exceptions=True)
            if isinstance(found, Exception):
                raise found
            return isinstance(found, BaseException)

        return bool(runner.run(main()))


def scripted() -> ScriptedModel:
    """Two turns with calls, and an answer; then always an answer."""
    batch = [call("read", path="a"), call("read", path="b")]
    return ScriptedModel(replies=[batch, call("search", query="x")], default="found")


def agent(model: ScriptedModel, ledger: Any) -> Any:
    """An agent with the middleware."""
    return guarded(model, LIMIT, checkpointer=InMemorySaver())


def graph(model: ScriptedModel, ledger: Any) -> Any:
    """A graph by hand."""
    return guarded_graph(react(model), LIMIT, checkpointer=InMemorySaver())


def of_fleet(model: ScriptedModel, ledger: Any) -> Any:
    """An agent that draws from a fleet's budgets."""
    fleet = Fleet(ledger, CALLS, clock=lambda: NOW)
    guard = LoopGuardMiddleware(LIMIT, fleet=fleet)
    return create_agent(model, TOOLS, middleware=[guard], checkpointer=InMemorySaver())


CONFIG: Any = {"configurable": {**THREAD["configurable"], "tenant": "acme"}}


@pytest.mark.parametrize("make", [agent, graph, of_fleet])
def test_a_run_cancelled_anywhere_leaves_a_thread_to_go_on(make: Any) -> None:
    """The next message is answered, by valid requests, and budgets stay in force."""
    turn, running = 5, True
    while running:
        model, ledger = scripted(), MemoryLedger()
        made = make(model, ledger)
        running = cut_at(turn, lambda made=made: made.ainvoke(ask(), CONFIG))
        before = len(model.requests)
        for word in ("again", "and again"):
            state = made.invoke(ask(word), CONFIG)
            assert last(state).text == "found" or state["loopguard_exit"]
        assert before < len(model.requests) <= LIMIT.budgets[0].model_calls + 1
        assert not model._script.refused
        assert stands(ledger, CALLS).held == 0
        turn += 7
    assert turn > 100

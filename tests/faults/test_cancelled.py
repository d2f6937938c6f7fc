"""A run on an event loop is cancelled at every point at which the loop turns."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode

from loopguard_lg import Budget, GuardedToolNode, LoopGuardMiddleware, Policy
from loopguard_lg.fleet import Fleet, FleetBudget, MemoryLedger
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph.graphs import PATHS, Reporting, guarded, on
from tests.middleware.runs import ask, last
from tests.servers.test_fleet_runs import NOW, stands

LIMIT = Policy(budget=Budget(model_calls=6, scope="thread"))
CALLS = FleetBudget(Budget(model_calls=99), per="tenant")
CONFIG: Any = {"configurable": {"thread_id": "t", "tenant": "acme"}}


class Counting(asyncio.SelectorEventLoop):
    """Cancels a task when so many callbacks were put in its line."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.left = most
        self.task: asyncio.Task[Any] | None = None

    def call_soon(self, *args: Any, **kwargs: Any) -> Any:
        """Count, then do it."""
        if self.task is not None:
            self.left -= 1
            if self.left == 0:
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


@tool
async def search(query: str) -> str:
    """Search the documents."""
    await asyncio.sleep(0)
    return f"no document about {query}"


@tool
async def read(path: str) -> str:
    """Read a file."""
    await asyncio.sleep(0)
    return f"contents of {path}"


TOOLS = [search, read]


def scripted() -> ScriptedModel:
    """Two turns with calls, and an answer; then always an answer."""
    batch = [call("read", path="a"), call("read", path="b")]
    return ScriptedModel(replies=[batch, call("search", query="x")], default="found")


def agent(model: ScriptedModel, _: Any) -> Any:
    """An agent with the middleware."""
    guard = LoopGuardMiddleware(LIMIT)
    return create_agent(model, TOOLS, middleware=[guard], checkpointer=InMemorySaver())


def of_fleet(model: ScriptedModel, ledger: Any) -> Any:
    """An agent that draws from a fleet's budgets."""
    fleet = Fleet(ledger, CALLS, clock=lambda: NOW)
    guard = LoopGuardMiddleware(LIMIT, fleet=fleet)
    return create_agent(model, TOOLS, middleware=[guard], checkpointer=InMemorySaver())


def by_hand(model: ScriptedModel, tools: Any) -> StateGraph[Any, Any, Any, Any]:
    """The usual graph of nodes that wait."""

    async def asking(state: Any) -> Any:
        await asyncio.sleep(0)
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Reporting)
    builder.add_node("agent", asking)
    builder.add_node("tools", tools)
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", on, PATHS)
    builder.add_edge("tools", "agent")
    return builder


def graph(model: ScriptedModel, _: Any) -> Any:
    """A graph by hand, guarded as a whole."""
    builder = by_hand(model, ToolNode(TOOLS))
    return guarded(builder, LIMIT, checkpointer=InMemorySaver())


def node(model: ScriptedModel, _: Any) -> Any:
    """A graph by hand, with a guarded node."""
    builder = by_hand(model, GuardedToolNode(TOOLS, LIMIT))
    return builder.compile(checkpointer=InMemorySaver())


# A node by itself repairs no history: its run can only be resumed.
@pytest.mark.parametrize(
    ("make", "resumed"),
    [(agent, True), (of_fleet, False), (graph, True), (graph, False), (node, True)],
)
def test_a_run_cancelled_anywhere_leaves_a_thread_to_go_on(
    make: Any, resumed: bool
) -> None:
    """It is resumed, or told another word: valid requests, and no count is lost."""
    turn, running = 1, True
    while running:
        model, ledger = scripted(), MemoryLedger()
        made = make(model, ledger)
        running = cut_at(turn, lambda made=made: made.ainvoke(ask(), CONFIG))
        asyncio.run(go_on(made, resumed))
        check(made.get_state(CONFIG).values, model)
        assert stands(ledger, CALLS).held == 0
        turn += 1
    assert turn > 100


async def go_on(made: Any, resumed: bool) -> None:
    """Resume what was cut, if anything is open, and say another word."""
    if resumed and made.get_state(CONFIG).next:
        await made.ainvoke(None, CONFIG)
    state = await made.ainvoke(ask("again"), CONFIG)
    assert last(state).text == "found"


def check(state: dict[str, Any], model: ScriptedModel) -> None:
    """What is kept is counted, and no more than what was made."""
    kept = Counter(message.type for message in state["messages"])
    assert not model._script.refused
    if "loopguard" in state:
        used = state["loopguard"]["used"]["thread"]
        assert kept["ai"] <= used["model_calls"] <= len(model.requests)
        assert kept["tool"] <= used["tool_calls"] <= 3, (used, kept)

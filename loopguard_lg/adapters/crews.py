"""Graphs as the agents of a `Crew`: what they have so far is kept, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel

from loopguard_lg.adapters.exits import KEY
from loopguard_lg.adapters.handing import hand_over
from loopguard_lg.workspace.crew import Attempt, Start
from loopguard_lg.workspace.recovery import Ending


def graph_start(graph: Pregel[Any, Any, Any, Any], given: Mapping[str, Any]) -> Start:
    """Runs a graph as an agent of a crew.

    Its newest state is the partial result. A fresh start begins on an empty thread with
    the hand-over of the run before.

    Args:
        graph: The graph, with messages in its state.
        given: Its input.
    """
    threads: list[RunnableConfig] = []

    async def start(attempt: Attempt) -> Any:
        asked, state = dict(given), None
        if threads and attempt.partial:
            left = await _left(graph, threads[-1], attempt.partial)
            asked["messages"] = [HumanMessage(hand_over(left).fresh_start())]
        threads.append({"configurable": {"thread_id": f"{attempt.agent}-{uuid4()}"}})
        async for state in graph.astream(asked, threads[-1], stream_mode="values"):
            if len(state.get("messages", ())) > len(asked.get("messages", ())):
                attempt.keep(state)
        return state

    return start


async def _left(graph: Any, thread: RunnableConfig, partial: Any) -> Any:
    """What a run has left: its checkpoint, which has more than what it gives out."""
    if not graph.checkpointer:
        return partial
    return (await graph.aget_state(thread)).values or partial


def graph_ending(state: Any) -> tuple[Ending, str]:
    """How a graph's run ended, by the exit report in its state."""
    report = (state or {}).get(KEY)
    if not report:
        return "done", ""
    return "budget" if report["reason"] == "budget" else "loop", report["detail"]

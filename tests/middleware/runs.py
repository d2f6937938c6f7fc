"""Agents and ways to run them, for the tests of the middleware."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool

from loopguard_lg import Escalate, GiveUp, Ladder, LoopGuardMiddleware, Policy, Reflect
from loopguard_lg.testing.doubles import ScriptedModel, call

THREAD = {"configurable": {"thread_id": "t"}}

executed: list[str] = []
"""Calls that tools really executed, newest last; cleared before each test."""


@tool
def search(query: str) -> str:
    """Search the documents."""
    executed.append(f"search {query}")
    return "no results" if query == "x" else f"document about {query}: {query * 3}"


@tool
def read(path: str) -> str:
    """Read a file."""
    executed.append(f"read {path}")
    return f"contents of {path}, line one of {path}"


@tool
def write(path: str, text: str) -> str:
    """Write a file."""
    executed.append(f"write {path}")
    return f"wrote {len(text)} bytes to {path}"


TOOLS = [search, read, write]


def invoke(agent: Any, given: Any, config: Any) -> dict[str, Any]:
    """Run in one go."""
    return agent.invoke(given, config)


def ainvoke(agent: Any, given: Any, config: Any) -> dict[str, Any]:
    """Run in one go on an event loop."""
    return asyncio.run(agent.ainvoke(given, config))


def stream(agent: Any, given: Any, config: Any) -> dict[str, Any]:
    """Run streaming tokens and values; the last value is the result."""
    last: dict[str, Any] = {}
    for mode, chunk in agent.stream(given, config, stream_mode=["values", "messages"]):
        if mode == "values":
            last = chunk
    return last


def astream(agent: Any, given: Any, config: Any) -> dict[str, Any]:
    """Run streaming on an event loop; the last value is the result."""

    async def run() -> dict[str, Any]:
        last: dict[str, Any] = {}
        modes = ["values", "messages"]
        async for mode, chunk in agent.astream(given, config, stream_mode=modes):
            if mode == "values":
                last = chunk
        return last

    return asyncio.run(run())


Way = Callable[[Any, Any, Any], dict[str, Any]]
WAYS: tuple[Way, ...] = (invoke, ainvoke, stream, astream)


def guarded(
    model: ScriptedModel,
    policy: Policy | None = None,
    *,
    tools: Sequence[Any] = TOOLS,
    observers: Sequence[Any] = (),
    middleware: Sequence[Any] = (),
    **settings: Any,
) -> Any:
    """An agent with the guard in front of other middlewares."""
    guard = LoopGuardMiddleware(policy, observers=observers)
    return create_agent(model, list(tools), middleware=[guard, *middleware], **settings)


def ask(text: str = "find it") -> dict[str, Any]:
    """The input of a run."""
    return {"messages": [("user", text)]}


def laddered(strong: Any = None, end: Any = None, turns: int = 5) -> Policy:
    """A policy whose escalation goes to `strong`."""
    rungs = (Reflect(), Escalate(model=strong, turns=turns), end or GiveUp())
    return Policy(ladder=Ladder(*rungs))


def same(times: int) -> list[Any]:
    """The same fruitless call again and again."""
    return [call("search", query="x")] * times


def loops_until(word: str, then: Any = "found") -> ScriptedModel:
    """A model that makes the same fruitless call until a person has said `word`."""

    def reply(messages: list[BaseMessage]) -> Any:
        said = [m.text for m in messages if m.name != "loopguard"]
        return then if word in said else call("search", query="x")

    return ScriptedModel(default=reply)


def notes(model: ScriptedModel) -> list[str]:
    """For each request, what the guard said in it, or an empty text."""
    return [
        "\n".join(m.text for m in request.messages if m.name == "loopguard")
        for request in model.requests
    ]


def results(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """The tool results of a history."""
    return [message for message in messages if isinstance(message, ToolMessage)]


def last(state: dict[str, Any]) -> AIMessage:
    """The last message of a run."""
    message = state["messages"][-1]
    assert isinstance(message, AIMessage)
    return message

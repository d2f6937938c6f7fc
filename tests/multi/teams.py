"""Agents that run other agents, for the tests."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import BaseTool, StructuredTool

from loopguard_lg import LoopGuardMiddleware, Policy
from loopguard_lg.testing.doubles import ScriptedModel
from tests.middleware.runs import THREAD, TOOLS, ask


def delegate_to(agent: Any, name: str = "delegate") -> BaseTool:
    """A tool that runs an agent, on the event loop where there is one."""

    def delegate(task: str) -> str:
        """Let another agent do it."""
        return str(agent.invoke(ask(task))["messages"][-1].text)

    async def adelegate(task: str) -> str:
        state = await agent.ainvoke(ask(task))
        return str(state["messages"][-1].text)

    return StructuredTool.from_function(delegate, adelegate, name=name)


def child(
    replies: list[Any],
    policy: Policy | None = None,
    *,
    bare: bool = False,
    tools: list[Any] | None = None,
    **settings: Any,
) -> Any:
    """An agent that runs inside another one."""
    middleware = [] if bare else [LoopGuardMiddleware(policy, name="inner")]
    model = settings.pop("model", None) or ScriptedModel(replies=replies, loop=True)
    return create_agent(model, tools or TOOLS, middleware=middleware, **settings)


def parent(
    replies: list[Any], tools: list[Any], policy: Policy | None = None, **settings: Any
) -> Any:
    """An agent whose tools run others."""
    clock = settings.pop("clock", perf_counter)
    guard = LoopGuardMiddleware(policy, clock=clock)
    middleware = [*settings.pop("middleware", ()), guard]
    model = settings.pop("model", None) or ScriptedModel(replies=replies)
    return create_agent(model, tools, middleware=middleware, **settings)


def used(agent: Any, config: Any = THREAD) -> dict[str, float]:
    """What the guard of an agent with a checkpointer counted for the run."""
    state = agent.get_state(config).values
    spent: dict[str, float] = state["loopguard"]["used"]["run"]
    return spent

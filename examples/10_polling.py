"""Waiting for something is no loop: polls are paced, not stopped.

The model answers from a script, so that it runs without a key or a network:

    python examples/10_polling.py
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from loopguard_lg import LoopGuardMiddleware, Policy, ToolPolicy
from loopguard_lg.testing.doubles import ScriptedModel, call

clock = [0.0]
"""The time, in seconds; it passes only where the guard waits."""


@tool
def build_status(number: int) -> str:
    """Ask how far a build is."""
    return "passed" if clock[0] >= 150 else "still running"


def wait(seconds: float) -> None:
    """Let time pass."""
    clock[0] += seconds
    print(f"waits {seconds:g} s")


def reply(messages: list[Any]) -> Any:
    """A model that asks until the build is through."""
    through = messages[-1].text == "passed"
    return "The build has passed." if through else call("build_status", number=7)


policy = Policy(tools={"build_status": ToolPolicy(role="poll", wait=30, stop=20)})
guard = LoopGuardMiddleware(policy, sleep=wait, clock=lambda: clock[0])
agent: Any = create_agent(
    ScriptedModel(default=reply), [build_status], middleware=[guard]
)

if __name__ == "__main__":
    state = agent.invoke({"messages": [("user", "Is the build through?")]})
    print(state["messages"][-1].text)
    print(f"ended by the guard: {bool(state.get('loopguard_exit'))}")

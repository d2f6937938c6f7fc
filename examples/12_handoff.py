"""Two agents hand over with a contract, and don't play ping-pong.

The model answers from a script, so that it runs without a key or a network:

    python examples/12_handoff.py
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langgraph_swarm import create_swarm

from loopguard_lg import Budget, LoopGuardMiddleware, Policy
from loopguard_lg.adapters.handoffs import handoff_tool
from loopguard_lg.testing.doubles import ScriptedModel, call

TASK = {"task": "the tax of order 17", "done_when": "the amount is known"}
TO_BOB, TO_ALICE = call("transfer_to_bob", **TASK), call("transfer_to_alice", **TASK)
policy = Policy(budget=Budget(handoffs=6))


def agent(name: str, model: ScriptedModel, other: str) -> Any:
    """An agent that can hand over to the other one."""
    guard = LoopGuardMiddleware(policy, name=f"guard_of_{name}")
    return create_agent(model, [handoff_tool(other)], middleware=[guard], name=name)


def swarm(alice: ScriptedModel, bob: ScriptedModel) -> Any:
    """Both of them, guarded."""
    agents = [agent("alice", alice, "bob"), agent("bob", bob, "alice")]
    return create_swarm(agents, default_active_agent="alice").compile()


def show(state: dict[str, Any]) -> None:
    """Print the results of calls, and how it ended."""
    for message in state["messages"]:
        if message.type == "tool":
            print(f"{message.name}: {message.text.splitlines()[0][:88]}")
    print(state["messages"][-1].text.splitlines()[0], end="\n\n")


if __name__ == "__main__":
    question = {"messages": [("user", "What is the tax of order 17?")]}
    show(swarm(ScriptedModel([TO_BOB]), ScriptedModel(["It is 12."])).invoke(question))
    alice, bob = ScriptedModel(default=TO_BOB), ScriptedModel(default=TO_ALICE)
    show(swarm(alice, bob).invoke(question))

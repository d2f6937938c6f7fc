"""One line: an agent that goes in circles is told so, rerouted, and ends well.

The models answer from a script, so that it runs without a key or a network:

    python examples/01_middleware.py
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from loopguard_lg import Escalate, GiveUp, Ladder, LoopGuardMiddleware, Policy, Reflect
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call


@tool
def search(query: str) -> str:
    """Search the documents."""
    return "see policy.md" if "how long" in query else "no results"


SAME = call("search", query="retention")
small = ScriptedModel([*[SAME] * 4, "Ten years."], model_name="small")
large = ScriptedModel([call("search", query="how long to keep")], model_name="large")


def told(event: GuardEvent) -> None:
    """Print what the guard did."""
    if event.name != "seen":
        print(f"{event.name:10} {event.text.partition(chr(10))[0]}")


policy = Policy(ladder=Ladder(Reflect(), Escalate(model=large), GiveUp()))
guard = LoopGuardMiddleware(policy, observers=[told])
agent: Any = create_agent(small, [search], middleware=[guard])

if __name__ == "__main__":
    question = {"messages": [("user", "How long do we keep invoices?")]}
    print(agent.invoke(question)["messages"][-1].text)

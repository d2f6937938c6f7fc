"""Budgets: so many calls, tokens, seconds, dollars, and a run that ends well.

The model answers from a script, so that it runs without a key or a network:

    python examples/08_budgets.py
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import Budget, LoopGuardMiddleware, Policy
from loopguard_lg.testing.doubles import ScriptedModel, call


@tool
def search(query: str) -> str:
    """Search the documents."""
    return f"{len(query)} pages on {query}"


def ask_on(messages: list[Any]) -> Any:
    """A model that never has enough, with another question each time."""
    return call("search", query=f"tax law, chapter {len(messages)}")


run = Budget(tool_calls=3, seconds=600, per_tool={"send_mail": 1})
thread = Budget(total_tokens=200_000, scope="thread")
guard = LoopGuardMiddleware(Policy(budget=[run, thread]))
agent: Any = create_agent(
    ScriptedModel(default=ask_on),
    [search],
    middleware=[guard],
    checkpointer=InMemorySaver(),
)

if __name__ == "__main__":
    config = {"configurable": {"thread_id": "1"}}
    for question in ("What is taxed?", "And how much?"):  # a run's budget begins anew
        state = agent.invoke({"messages": [("user", question)]}, config)
        report = state["loopguard_exit"]
        print(f"{report['reason']} ({report['budget']}): {report['detail']}")
        print(f"used: {report['usage']}")

"""Ask a person instead of giving up, and go on with the answer.

The model answers from a script, so that it runs without a key or a network:

    python examples/09_ask_user.py
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopguard_lg import AskUser, Ladder, LoopGuardMiddleware, Policy, Reflect
from loopguard_lg.testing.doubles import ScriptedModel, call


@tool
def search(query: str) -> str:
    """Search the documents."""
    return "invoice 42, paid" if query == "archive" else "no results"


def reply(messages: list[BaseMessage]) -> Any:
    """A model that looks in the archive once it is told of one."""
    said = " ".join(message.text for message in messages)
    if "invoice 42" in said:
        return "It is invoice 42, and it is paid."
    return call("search", query="archive" if "archive" in said else "invoice")


guard = LoopGuardMiddleware(Policy(ladder=Ladder(Reflect(), AskUser())))
agent: Any = create_agent(
    ScriptedModel(default=reply),
    [search],
    middleware=[guard],
    checkpointer=InMemorySaver(),  # the answer may come on another day
)

if __name__ == "__main__":
    thread = {"configurable": {"thread_id": "1"}}
    agent.invoke({"messages": [("user", "Is the invoice paid?")]}, thread)
    (asked,) = agent.get_state(thread).interrupts
    print(asked.value["question"])
    print(f"choices: {', '.join(asked.value['choices'])}, or words")
    state = agent.invoke(Command(resume="Look in the archive."), thread)
    print(state["messages"][-1].text)

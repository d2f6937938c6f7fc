"""A guarded agent for the LangGraph server: `langgraph dev` in this folder serves it.

A scripted model stands in for a real one, so that it needs no key: it makes the same
fruitless search again and again, and answers once a person has told it where to look.
The guard tells it so, and asks the person at the end. The server brings the
checkpointer, so none is given here.
"""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool

from loopguard_lg import AskUser, Escalate, Ladder, LoopGuardMiddleware, Policy, Reflect
from loopguard_lg.testing.doubles import Call, ScriptedModel, call


@tool
def search(query: str) -> str:
    """Search the documents."""
    return "found: invoice 42" if query == "archive" else "no results"


def reply(messages: list[BaseMessage]) -> str | Call:
    """What the model answers."""
    said = " ".join(message.text for message in messages)
    if "invoice 42" in said:
        return "It is invoice 42."
    return call("search", query="archive" if "archive" in said else "invoice")


policy = Policy(ladder=Ladder(Reflect(), Escalate(), AskUser()))
model = ScriptedModel(default=reply)
agent = create_agent(model, [search], middleware=[LoopGuardMiddleware(policy)])

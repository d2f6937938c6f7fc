"""The functional API, guarded: an agent of tasks that goes in circles.

The model answers from a script, so that it runs without a key or a network:

    python examples/03_functional.py
"""

from __future__ import annotations

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.tool import ToolCall, ToolMessage
from langchain_core.tools import tool
from langgraph.func import entrypoint, task

from loopguard_lg import Policy, guarded
from loopguard_lg.testing.doubles import ScriptedModel, call


@tool
def search(query: str) -> str:
    """Search the documents."""
    return "no results"


model = ScriptedModel(default=call("search", query="retention"))


@guarded
@task
def ask(messages: list[BaseMessage]) -> AIMessage:
    """Ask the model."""
    return model.invoke(messages)


@guarded
@task
def execute(asked: ToolCall) -> ToolMessage:
    """Execute one call."""
    found: ToolMessage = search.invoke(asked)
    return found


@entrypoint()
@guarded(Policy(), tools=[search])
def agent(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Ask and execute in turn."""
    while (reply := ask(messages).result()).tool_calls:
        begun = [execute(asked) for asked in reply.tool_calls]
        messages = [*messages, reply, *[each.result() for each in begun]]
    return [*messages, reply]


if __name__ == "__main__":
    for message in agent.invoke([HumanMessage("How long do we keep invoices?")]):
        print(f"{message.type:6} {(message.text or 'calls').splitlines()[0][:70]}")

"""A graph of your own, guarded: where the run goes when the agent goes in circles.

The models answer from a script, so that it runs without a key or a network:

    python examples/02_guard_graph.py
"""

from __future__ import annotations

from typing import Any

from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from loopguard_lg import Budget, Policy, guard_graph
from loopguard_lg.testing.doubles import ScriptedModel, call


@tool
def search(query: str) -> str:
    """Search the documents."""
    return "no results" if query == "retention" else "see policy.md"


def node(model: ScriptedModel) -> Any:
    """A node that asks a model."""
    bound = model.bind_tools([search])
    return lambda state: {"messages": [bound.invoke(state["messages"])]}


small = ScriptedModel([*[call("search", query="retention")] * 4, "Ten years."])
large = ScriptedModel([call("search", query="how long to keep")])

builder = StateGraph(MessagesState)
builder.add_node("agent", node(small))
builder.add_node("tools", ToolNode([search]))
builder.add_edge(START, "agent")
builder.add_conditional_edges("agent", tools_condition)
builder.add_edge("tools", "agent")

policy = Policy(budget=Budget(steps=30, seconds=600))
graph = guard_graph(
    builder, policy, model="agent", tools="tools", stronger=node(large)
).compile()

if __name__ == "__main__":
    question = {"messages": [("user", "How long do we keep invoices?")]}
    for chunk in graph.stream(question, stream_mode="updates"):
        for name, update in chunk.items():
            said = [m.text or "calls" for m in update.get("messages", [])]
            print(f"{name:20} {' | '.join(said).partition(chr(10))[0][:60]}")
    print(graph.get_graph().draw_mermaid())

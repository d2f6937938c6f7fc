"""Another branch of a thread, from where it was last good.

The model answers from a script, so that it runs without a key or a network:

    python examples/05_fork.py
"""

from __future__ import annotations

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from loopguard_lg import fork_from_last_good, guard_graph
from loopguard_lg.testing.doubles import ScriptedModel, call


@tool
def search(query: str) -> str:
    """Search the documents."""
    return "no results" if query == "retention" else "see policy.md"


@tool
def read(path: str) -> str:
    """Read a document."""
    return f"The table of contents of {path}."


model = ScriptedModel(
    replies=[
        call("read", path="index.md"),
        *[call("search", query="retention")] * 4,
        "I found nothing.",
        "Ten years, says policy.md.",
    ]
)
builder = StateGraph(MessagesState)
builder.add_node("agent", lambda state: {"messages": [model.invoke(state["messages"])]})
builder.add_node("tools", ToolNode([search, read]))
builder.add_edge(START, "agent")
builder.add_conditional_edges("agent", tools_condition)
builder.add_edge("tools", "agent")
graph = guard_graph(builder, model="agent", tools="tools").compile(
    checkpointer=InMemorySaver()
)

if __name__ == "__main__":
    thread: RunnableConfig = {"configurable": {"thread_id": "t"}}
    question = {"messages": [("user", "How long do we keep invoices?")]}
    first = graph.invoke(question, thread)
    print(f"{len(first['messages'])} messages: {first['messages'][-1].text}")

    hint = {"messages": [("user", "It is in policy.md.")]}
    second = graph.invoke(None, fork_from_last_good(graph, thread, hint))
    print(f"{len(second['messages'])} messages: {second['messages'][-1].text}")

from __future__ import annotations

from typing import Any

from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph

from loopguard_lg import LoopGuardMiddleware, guard_graph
from loopguard_lg.adapters.graph import coverage
from loopguard_lg.testing.doubles import ScriptedModel
from tests.middleware.runs import TOOLS, ask
from tests.multi.teams import child, delegate_to, parent


def subagent(name: str, *, guarded: bool) -> Any:
    """A subagent of a deep agent."""
    return {
        "name": name,
        "description": "Looks things up.",
        "system_prompt": "Look it up.",
        "model": ScriptedModel(),
        "tools": TOOLS,
        "middleware": [LoopGuardMiddleware()] if guarded else [],
    }


def opened(agent: Any) -> set[str]:
    """What is not guarded."""
    return {item["what"] for item in coverage(agent)["open"]}


def test_the_general_purpose_subagent_is_named() -> None:
    """It does not inherit the guard; declared ones have it if they were given it."""
    agent = create_deep_agent(
        ScriptedModel(),
        TOOLS,
        middleware=[LoopGuardMiddleware()],
        subagents=[subagent("bare", guarded=False), subagent("safe", guarded=True)],
    )

    found = {c["agent"]: c["guarded"] for c in coverage(agent)["children"]}

    assert found == {"general-purpose": False, "bare": False, "safe": True}
    assert {"task: general-purpose", "task: bare"} <= opened(agent)
    assert "task: safe" not in opened(agent)


def test_a_tool_that_uses_what_is_not_made_yet_is_looked_at() -> None:
    """Where that is, nobody can say; the rest is said."""

    @tool
    def ahead(topic: str) -> str:
        """Ask what is made below."""
        return str(later.invoke(topic))

    agent = parent([], [ahead, delegate_to(child([]))])
    found = {c["in"] for c in coverage(agent)["children"]}
    later = agent

    assert found == {"delegate"}
    assert later is agent


def test_agents_as_tools_are_named() -> None:
    """Whatever a tool closes over is looked at."""
    tools = [delegate_to(child([], bare=True), "ask_bare"), delegate_to(child([]))]
    agent = parent([], tools)

    found = {c["in"]: c["guarded"] for c in coverage(agent)["children"]}

    assert found == {"ask_bare": False, "delegate": True}


HELPER = create_agent(ScriptedModel(), TOOLS, name="helper")


@tool
def ask_helper(task: str) -> str:
    """Ask an agent of the module."""
    return str(HELPER.invoke(ask(task))["messages"][-1].text)


def test_agents_of_a_tools_module_are_named() -> None:
    """Names that a function finds around it lead there, too."""
    agent = parent([], [ask_helper])

    assert opened(agent) == {"ask_helper: helper"}


def test_agents_as_nodes_are_named() -> None:
    """In a graph, guarded or not."""
    builder = StateGraph(MessagesState)
    builder.add_node("worker", child([], bare=True))
    builder.add_node("agent", lambda state: {"messages": []})
    builder.add_node("tools", lambda state: {"messages": []})
    builder.add_edge(START, "worker")
    builder.add_edge("worker", "agent")
    builder.add_edge("agent", END)
    builder.add_edge("tools", "agent")
    guarded = guard_graph(builder, model="agent", tools="tools")

    for graph in (builder, guarded, guarded.compile()):
        (inside,) = coverage(graph)["children"]
        assert inside == {"in": "worker", "agent": "worker", "guarded": False}


def test_an_agent_with_the_middleware_is_covered() -> None:
    """Its model and tools are; hooks of other middlewares spend by themselves."""
    agent = create_agent(
        ScriptedModel(), TOOLS, middleware=[LoopGuardMiddleware(), TodoListMiddleware()]
    )

    report = coverage(agent)

    assert report["nodes"]["model"] == "model"
    assert {"read", "search", "write", "write_todos"} <= {*report["tools"]}
    assert all(edge["guarded"] for edge in report["edges"] if edge["to"] == "tools")

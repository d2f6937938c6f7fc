"""A run that ends by itself, with a claim that no check shows."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from loopguard_lg import LoopGuardMiddleware, Policy, guard_graph
from loopguard_lg.adapters.exits import tagged
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.core.test_claims import PIPED, after
from tests.middleware.runs import WAYS, Way

CLAIM = "All tests pass"
WORD: dict[str, Any] = {"messages": [("user", "Mend it")]}


@tool
def bash(command: str) -> str:
    """Run a command."""
    return "4 passed"


def script(command: str, end: Any = f"Done. {CLAIM}.") -> list[Any]:
    """One check, and the last words."""
    return [call("bash", command=command), end]


def with_middleware(replies: list[Any], policy: Policy | None = None) -> Any:
    """An agent with the middleware."""
    model = ScriptedModel(replies)
    return create_agent(model, [bash], middleware=[LoopGuardMiddleware(policy)])


def in_a_graph(replies: list[Any], policy: Policy | None = None) -> Any:
    """A graph written by hand, guarded."""
    model = ScriptedModel(replies)

    def agent(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("agent", agent)
    builder.add_node("tools", ToolNode([bash]))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", tools_condition)
    builder.add_edge("tools", "agent")
    return guard_graph(builder, policy, model="agent", tools="tools").compile()


HOSTS = pytest.mark.parametrize("host", [with_middleware, in_a_graph])


def said(out: dict[str, Any]) -> Any:
    """What the last message says of its claims."""
    last: BaseMessage = out["messages"][-1]
    return last.response_metadata.get("loopguard_unproven")


@HOSTS
@pytest.mark.parametrize("run", WAYS)
def test_the_last_message_names_what_no_check_shows(host: Any, run: Way) -> None:
    """The exit status of the check went into a pipe."""
    out = run(host(script("pytest | tail -1")), WORD, None)

    assert said(out) == [CLAIM]
    assert out["messages"][-1].text == f"Done. {CLAIM}."


@HOSTS
@pytest.mark.parametrize("command", ["pytest", "set -o pipefail; pytest | tail -1"])
def test_a_claim_that_a_check_shows_is_left_alone(host: Any, command: str) -> None:
    """The message is as the model gave it."""
    assert said(host(script(command)).invoke(WORD)) is None


@HOSTS
def test_a_guard_that_only_watches_says_nothing(host: Any) -> None:
    """What the model says is left as it is."""
    graph = host(script("pytest | tail -1"), Policy(observe_only=True))

    assert said(graph.invoke(WORD)) is None


def test_the_models_own_message_is_not_changed() -> None:
    """It may be kept elsewhere, in a cache for example."""
    own = AIMessage(f"{CLAIM}.")
    memory: Any = {"history": after(PIPED)}

    (copy,) = tagged([own], memory)

    assert copy.response_metadata == {"loopguard_unproven": [CLAIM]}
    assert own.response_metadata == {}


@HOSTS
def test_the_tag_costs_no_step(host: Any) -> None:
    """Three supersteps: the model, the tools, the model."""
    graph = host(script("pytest | tail -1"))

    steps = [chunk for chunk in graph.stream(WORD, stream_mode="updates")]
    assert len(steps) == 3

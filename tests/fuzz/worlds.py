"""Agents and graphs for random runs: tools, hosts, replies, and what a run counted."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any

from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Send, interrupt

from loopguard_lg import LoopGuardMiddleware, Policy, guard_graph
from loopguard_lg.testing.doubles import ScriptedModel, call

done: Counter[str] = Counter()
"""Calls that tools really executed; cleared before each word."""


class LightsOutError(RuntimeError):
    """What the tool `boom` raises."""


@tool
def search(query: str) -> str:
    """Search the documents."""
    done["calls"] += 1
    return "no results" if query in "xy" else f"document about {query}"


@tool
def read(path: str) -> str:
    """Read a file."""
    done["calls"] += 1
    return f"contents of {path}, line one of {path}"


@tool
def write(path: str, text: str) -> str:
    """Write a file."""
    done["calls"] += 1
    return f"wrote {len(text)} bytes to {path}"


@tool
def boom(what: str) -> str:
    """Fail."""
    done["calls"] += 1
    raise LightsOutError(what)


@tool
def approve(what: str) -> str:
    """Ask a person."""
    answer = interrupt({"may": what})
    done["calls"] += 1
    return f"{what}: {answer}"


def _counted(what: str) -> Callable[[Any], str]:
    """A reply that is counted."""

    def reply(sent: Any) -> str:
        done[what] += 1
        return f"{what} {done[what]}"

    return reply


@tool
def expert(question: str) -> str:
    """Ask a model that is not the agent's."""
    done["calls"] += 1
    return _inner().invoke(question).text


def _inner() -> ScriptedModel:
    """A model that is not the agent's."""
    return ScriptedModel(default=_counted("inner"), validate=False)


TOOLS = [search, read, write, boom, approve, expert]

_WORDS = ("a", "b", "x", "y")
_CALLS = st.one_of(
    st.sampled_from(_WORDS).map(lambda q: call("search", query=q)),
    st.integers(0, 99).map(lambda n: call("read", path=f"file {n}")),
    st.sampled_from(_WORDS).map(lambda p: call("write", path=p, text=p * 9)),
    st.sampled_from(
        [
            call("search", query="x"),
            call("approve", what="it"),
            call("expert", question="why"),
            call("nowhere", x=1),
            call("search"),
            call("search", query=["x", None]),
            call("search", "same", query="x"),
            call("read", "", path="a"),
            call("give_up", reason="no way"),
        ]
    ),
)
_BROKEN = {"name": "search", "args": "{nonsense", "id": "bad", "error": "no JSON"}
_ODD = [
    "",
    " \n",
    AIMessage("", invalid_tool_calls=[_BROKEN]),
    AIMessage([{"type": "text", "text": "parts"}, {"type": "reasoning", "x": 1}]),
    AIMessage("", additional_kwargs={"refusal": "no"}),
    [call("search", "twin", query="x"), call("search", "twin", query="y")],
    call("boom", what="fuse"),
    [call("read", path="a"), call("boom", what="fuse"), call("read", path="b")],
    [call("approve", what="one"), call("approve", what="two")],
    [call("expert", question="one"), call("expert", question="two")],
]
REPLIES = st.lists(
    _CALLS
    | st.lists(_CALLS, min_size=2, max_size=4)
    | st.sampled_from([*_ODD, "a word"]),
    max_size=7,
)
"""What a model says in turn; what it says then for ever is of `HABITS`."""

HABITS = st.sampled_from(
    [
        call("search", query="x"),
        [call("search", query="x"), call("search", query="y")],
        lambda sent: call("read", path=f"file {len(sent)}"),
        lambda sent: call("search", query="xy"[len(sent) // 2 % 2]),
        "that is all",
    ]
)


class Joined(MessagesState):
    """Messages, what branches add, and room for the exit report."""

    seen: Annotated[list[str], operator.add]
    loopguard_exit: dict[str, Any] | None


Host = Callable[[ScriptedModel, Policy, Any], Any]


def agent(model: ScriptedModel, policy: Policy, observer: Any) -> Any:
    """An agent with the middleware."""
    guard = LoopGuardMiddleware(policy, observers=[observer], clock=lambda: 0.0)
    return create_agent(model, TOOLS, middleware=[guard], checkpointer=InMemorySaver())


def summarizing(model: ScriptedModel, policy: Policy, observer: Any) -> Any:
    """An agent whose older messages are summed up while it runs."""
    guard = LoopGuardMiddleware(policy, observers=[observer], clock=lambda: 0.0)
    summary = SummarizationMiddleware(
        ScriptedModel(default=_counted("summaries"), validate=False),
        trigger=("messages", 9),
        keep=("messages", 4),
    )
    middleware = [summary, guard]
    return create_agent(
        model, TOOLS, middleware=middleware, checkpointer=InMemorySaver()
    )


def _asks(model: ScriptedModel) -> StateGraph[Any, Any, Any, Any]:
    bound = model.bind_tools(TOOLS)
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Joined)
    builder.add_node("agent", lambda s: {"messages": [bound.invoke(s["messages"])]})
    builder.add_node("tools", ToolNode(TOOLS))
    builder.add_edge(START, "agent")
    return builder


def _calls(state: Any) -> list[Any]:
    return getattr(state["messages"][-1], "tool_calls", [])


def _guarded(builder: Any, policy: Policy, observer: Any) -> Any:
    graph = guard_graph(
        builder,
        policy,
        model="agent",
        tools="tools",
        observers=[observer],
        clock=lambda: 0.0,
    )
    return graph.compile(checkpointer=InMemorySaver())


def _on(state: Any) -> str:
    return "tools" if _calls(state) else END


def react(model: ScriptedModel, policy: Policy, observer: Any) -> Any:
    """A model's node and a tool node in turn."""
    builder = _asks(model)
    builder.add_conditional_edges("agent", _on, ["tools", END])
    builder.add_edge("tools", "agent")
    return _guarded(builder, policy, observer)


def mapped(model: ScriptedModel, policy: Policy, observer: Any) -> Any:
    """Each call is sent to a branch of its own."""

    def fan(state: Any) -> Any:
        return [Send("tools", [asked]) for asked in _calls(state)] or END

    builder = _asks(model)
    builder.add_conditional_edges("agent", fan, ["tools", END])
    builder.add_edge("tools", "agent")
    return _guarded(builder, policy, observer)


def diamond(model: ScriptedModel, policy: Policy, observer: Any) -> Any:
    """Two branches that ask a model, and a join on the way back to the agent's."""

    def asks(side: str) -> dict[str, list[str]]:
        return {"seen": [_inner().invoke(side).text]}

    builder = _asks(model)
    builder.add_conditional_edges("agent", _on, ["tools", END])
    for side in ("left", "right"):
        builder.add_node(side, lambda _, side=side: asks(side))
        builder.add_edge("tools", side)
    builder.add_node("join", lambda _: {"seen": ["joined"]})
    builder.add_edge(["left", "right"], "join")
    builder.add_edge("join", "agent")
    return _guarded(builder, policy, observer)


HOSTS: tuple[Host, ...] = (agent, summarizing, react, mapped, diamond)

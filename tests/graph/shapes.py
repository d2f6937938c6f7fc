"""Twelve shapes of graphs, each with an agent that goes in circles for ever."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send, interrupt
from langgraph_supervisor import create_handoff_tool as hands_over, create_supervisor
from langgraph_swarm import create_handoff_tool, create_swarm

from loopguard_lg import (
    AskUser,
    GiveUp,
    GuardedToolNode,
    LoopGuardMiddleware,
    Policy,
    guard_graph,
    guarded,
)
from loopguard_lg.adapters.graph_site import ASK_USER, NODES
from loopguard_lg.testing.doubles import Call, ScriptedModel, call
from tests.graph.graphs import BY_NAME, agent_of, on, react
from tests.middleware.runs import THREAD, TOOLS

Builder = StateGraph[Any, Any, Any, Any]
WITHOUT_ASKING = tuple(name for name in NODES if name != ASK_USER)
CIRCLE = call("search", query="x")


class Joined(MessagesState):
    """Messages, and what branches add beside them."""

    seen: Annotated[list[str], operator.add]


@dataclass(frozen=True, eq=False)
class Shape:
    """One shape.

    Attributes:
        name: What it is called.
        surface: By what it is guarded.
        bare: The graph without the guard.
        guarded: The graph with it, from the model, the policy and observers.
        reply: What its model says again and again.
        drive: Runs it to its end and gives the messages; the guard's questions are
            answered in turn.
        end: The last rung of its ladder.
        new: The nodes that the guard adds to the drawing.
    """

    name: str
    surface: str
    bare: Callable[[ScriptedModel], Any]
    guarded: Callable[[ScriptedModel, Policy, Sequence[Any]], Any]
    reply: Any = CIRCLE
    drive: Callable[[Any, Sequence[Any]], list[BaseMessage]] = lambda graph, answers: (
        invoked(graph, answers)
    )
    end: AskUser | GiveUp = GiveUp()
    new: tuple[str, ...] = WITHOUT_ASKING

    def model(self) -> ScriptedModel:
        """A model that goes in circles; its requests are validated."""
        return ScriptedModel(default=self.reply)

    def stronger(self) -> ScriptedModel:
        """Another that does so; the ids of its calls are its own."""
        numbers = itertools.count()

        def reply(messages: list[BaseMessage]) -> Any:
            found = self.reply(messages) if callable(self.reply) else self.reply
            parts = found if isinstance(found, list) else [found]
            return [
                replace(part, id=f"strong_{next(numbers)}")
                if isinstance(part, Call)
                else part
                for part in parts
            ]

        return ScriptedModel(default=reply, model_name="strong")


def invoked(graph: Any, answers: Sequence[Any]) -> list[BaseMessage]:
    """The messages of one run, in which a person allows every call."""
    state, said = graph.invoke({"messages": [("user", "find it")]}, THREAD), [*answers]
    while asked := state.get("__interrupt__"):
        answer = "yes" if asked[0].value == "may it?" else said.pop(0)
        state = graph.invoke(Command(resume=answer), THREAD)
    found: list[BaseMessage] = state["messages"]
    return found


def drawn(
    name: str,
    builder: Callable[[ScriptedModel], Builder],
    *,
    model: str = "agent",
    tools: str | Sequence[str] = "tools",
    **settings: Any,
) -> Shape:
    """A shape that `guard_graph` guards."""

    def with_guard(llm: ScriptedModel, policy: Policy, observers: Sequence[Any]) -> Any:
        graph = guard_graph(
            builder(llm), policy, model=model, tools=tools, observers=observers
        )
        return graph.compile(checkpointer=InMemorySaver())

    return Shape(
        name,
        "`guard_graph`",
        lambda llm: builder(llm).compile(),
        with_guard,
        **settings,
    )


def _plan_execute(model: ScriptedModel) -> Builder:
    builder = react(model, MessagesState)
    builder.edges.discard((START, "agent"))
    builder.branches["agent"].clear()
    planner = ScriptedModel(default="1. find it 2. read it")
    builder.add_node(
        "plan", lambda _: {"messages": [HumanMessage(planner.invoke("plan").text)]}
    )
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "agent")
    builder.add_node("check", lambda _: None)
    builder.add_conditional_edges(
        "agent",
        lambda state: "tools" if on(state) == "tools" else "check",
        ["tools", "check"],
    )
    builder.add_conditional_edges("check", lambda _: END, ["plan", END])
    return builder


def _supervisor(
    model: ScriptedModel, node: Callable[..., ToolNode], *settings: Any
) -> Any:
    worker = ScriptedModel(default="nothing found")
    bob = create_agent(worker, TOOLS, name="bob")
    tools = node([*TOOLS, hands_over(agent_name="bob")], *settings)
    team = create_supervisor([bob], model=model, tools=tools)
    return team.compile(checkpointer=InMemorySaver())


def _supervising(messages: list[BaseMessage]) -> Any:
    """Delegate, then go in circles until it is said that the run is over."""
    if len(messages) == 1:
        return call("transfer_to_bob")
    over = any("The run ends here" in message.text for message in messages)
    return "that is all" if over else CIRCLE


def _swarm(model: ScriptedModel, guards: Callable[[], list[Any]]) -> Any:
    to_bob = create_handoff_tool(agent_name="bob")
    to_alice = create_handoff_tool(agent_name="alice")
    alice = create_agent(model, [*TOOLS, to_bob], middleware=guards(), name="alice")
    bob = create_agent(model, [*TOOLS, to_alice], middleware=guards(), name="bob")
    swarm = create_swarm([alice, bob], default_active_agent="alice")
    return swarm.compile(checkpointer=InMemorySaver())


def _map_reduce(model: ScriptedModel) -> Builder:
    def mapped(state: MessagesState) -> Any:
        reply = state["messages"][-1]
        assert isinstance(reply, AIMessage)
        return [Send("map", [asked]) for asked in reply.tool_calls] or END

    builder: Builder = StateGraph(MessagesState)
    builder.add_node("reduce", agent_of(model))
    builder.add_node("map", ToolNode(TOOLS))
    builder.add_edge(START, "reduce")
    builder.add_conditional_edges("reduce", mapped, ["map", END])
    builder.add_edge("map", "reduce")
    return builder


def _diamond(model: ScriptedModel) -> Builder:
    builder = react(model, Joined)
    builder.edges.discard(("tools", "agent"))
    for side in ("left", "right"):
        builder.add_node(side, lambda _, side=side: {"seen": [side]})
        builder.add_edge("tools", side)
    builder.add_node("join", lambda _: {"seen": ["joined"]})
    builder.add_edge(["left", "right"], "join")
    builder.add_edge("join", "agent")
    return builder


def _nested(inner: Any) -> Any:
    builder: Builder = StateGraph(MessagesState)
    builder.add_node("team", inner)
    builder.add_node("report", lambda _: None)
    builder.add_edge(START, "team")
    builder.add_edge("team", "report")
    builder.add_edge("report", END)
    return builder.compile(checkpointer=InMemorySaver())


def _nested_guarded(
    model: ScriptedModel, policy: Policy, observers: Sequence[Any]
) -> Any:
    inner = guard_graph(
        react(model), policy, model="agent", tools="tools", observers=observers
    )
    return _nested(inner.compile())


def _reflection(model: ScriptedModel) -> Builder:
    builder: Builder = StateGraph(MessagesState)
    builder.add_node("write", agent_of(model))
    builder.add_node("critic", lambda _: {"messages": [("user", "do it better")]})
    builder.add_edge(START, "write")
    builder.add_edge("write", "critic")
    builder.add_conditional_edges("critic", lambda _: "write", ["write", END])
    return builder


def _router(model: ScriptedModel) -> Builder:
    builder = react(model, MessagesState)
    builder.edges.discard((START, "agent"))
    builder.add_node("smalltalk", lambda _: {"messages": [("ai", "hello")]})
    builder.add_conditional_edges(
        START,
        lambda state: "agent" if "find" in state["messages"][-1].text else "smalltalk",
        ["agent", "smalltalk"],
    )
    builder.add_edge("smalltalk", END)
    return builder


def _rag(model: ScriptedModel) -> Builder:
    builder: Builder = StateGraph(MessagesState)
    builder.add_node("rewrite", agent_of(model))
    builder.add_node("retrieve", ToolNode(TOOLS))
    builder.add_node("grade", lambda _: None)
    builder.add_node("answer", lambda _: {"messages": [("ai", "found")]})
    builder.add_edge(START, "rewrite")
    builder.add_conditional_edges("rewrite", on, {"tools": "retrieve", END: "answer"})
    builder.add_edge("retrieve", "grade")
    builder.add_conditional_edges(
        "grade",
        lambda state: "rewrite" if "no" in state["messages"][-1].text else "answer",
        ["rewrite", "answer"],
    )
    builder.add_edge("answer", END)
    return builder


def _approved(model: ScriptedModel) -> Builder:
    def approve(_: MessagesState) -> None:
        interrupt("may it?")

    builder = react(model, MessagesState)
    builder.branches["agent"].clear()
    builder.add_node("approve", approve)
    builder.add_conditional_edges("agent", on, {"tools": "approve", END: END})
    builder.add_edge("approve", "tools")
    return builder


def _functional(model: ScriptedModel, part: Any, run: Any) -> Any:
    @part
    @task
    def ask(messages: list[BaseMessage]) -> AIMessage:
        return model.invoke(messages)

    @part
    @task
    def execute(asked: ToolCall) -> ToolMessage:
        found: ToolMessage = BY_NAME[asked["name"]].invoke(asked)
        return found

    @entrypoint()
    @run
    def agent(messages: list[Any]) -> list[Any]:
        while (reply := ask(messages).result()).tool_calls:
            begun = [execute(asked) for asked in reply.tool_calls]
            messages = [*messages, reply, *[each.result() for each in begun]]
        return [*messages, reply]

    return agent


def _as_it_is(function: Any) -> Any:
    return function


def _called(graph: Any, answers: Sequence[Any]) -> list[BaseMessage]:
    found: list[BaseMessage] = graph.invoke([HumanMessage("find it")], THREAD)
    return found


SHAPES: tuple[Shape, ...] = (
    drawn("ReAct", lambda model: react(model, MessagesState)),
    drawn("plan and execute", _plan_execute),
    Shape(
        "supervisor",
        "`GuardedToolNode` in `create_supervisor`",
        lambda model: _supervisor(model, ToolNode),
        lambda model, policy, observers: _supervisor(
            model, partial(GuardedToolNode, observers=observers), policy
        ),
        reply=_supervising,
        new=(),
    ),
    Shape(
        "swarm",
        "`LoopGuardMiddleware` in each agent of `create_swarm`",
        lambda model: _swarm(model, list),
        lambda model, policy, observers: _swarm(
            model, lambda: [LoopGuardMiddleware(policy, observers=observers)]
        ),
        new=(),
    ),
    drawn(
        "map-reduce with `Send`",
        _map_reduce,
        model="reduce",
        tools="map",
        reply=[CIRCLE, call("search", query="y")],
    ),
    drawn("diamond with a join", _diamond),
    Shape(
        "nested subgraph",
        "`guard_graph` inside",
        lambda model: _nested(react(model).compile()),
        _nested_guarded,
    ),
    drawn(
        "reflection loop",
        _reflection,
        model="write",
        tools=(),
        reply="The very same draft, word for word, as it was before.",
    ),
    drawn("router", _router),
    drawn("RAG with a grading loop", _rag, model="rewrite", tools="retrieve"),
    drawn("human in the loop", _approved, end=AskUser(), new=NODES),
    Shape(
        "functional API",
        "`guarded`",
        lambda model: _functional(model, _as_it_is, _as_it_is),
        lambda model, policy, observers: _functional(
            model, guarded, guarded(policy, tools=TOOLS, observers=observers)
        ),
        drive=_called,
        new=(),
    ),
)

"""What `loopguard_escalate` runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.graph import StateGraph

from loopguard_lg.adapters.graph_site import Site
from loopguard_lg.adapters.graph_state import Shape, shape
from loopguard_lg.errors import PolicyError
from loopguard_lg.ladder import Escalate
from loopguard_lg.policy import Policy

Builder = StateGraph[Any, Any, Any, Any]
Runs = Runnable[Any, Any]


def stronger_node(
    builder: Builder, site: Site, stronger: Any, leads_on: bool
) -> tuple[Runs, Shape, dict[int, Runs]]:
    """What escalations run, what that reads, and what runs at single rungs instead.

    Args:
        builder: The user's graph.
        site: The settings.
        stronger: As given to `guard_graph`.
        leads_on: The model's node has ways on other than its own commands.
    """
    own: Any = builder.nodes[site.model]
    if stronger is None:
        models = _models(site.guard.policy)
        by_rung = {n: _chat(builder, site, m, leads_on) for n, m in models.items()}
        return own.runnable, shape(builder, own.input_schema), by_rung
    if isinstance(stronger, str) and stronger in builder.nodes:
        spec: Any = builder.nodes[stronger]
        return spec.runnable, shape(builder, spec.input_schema), {}
    if isinstance(stronger, str) or _is_chat(stronger):
        chat = _chat(builder, site, stronger, leads_on)
        return chat, shape(builder, own.input_schema), {}
    return *_coerced(builder, stronger), {}


def _models(policy: Policy) -> dict[int, Any]:
    """The models that rungs name, by the number of the rung."""
    return {
        number: rung.model
        for number, rung in enumerate(policy.ladder.rungs, 1)
        if isinstance(rung, Escalate) and rung.model is not None
    }


def _coerced(builder: Builder, node: Any) -> tuple[Runs, Shape]:
    """A function as the node that LangGraph makes of it."""
    if not callable(node) and not isinstance(node, Runnable | dict):
        raise PolicyError(
            f"stronger={node!r}: give a node's name, a function or a chat model"
        )
    scratch: Builder = StateGraph(builder.state_schema)
    scratch.add_node("stronger", node)
    spec: Any = scratch.nodes["stronger"]
    return spec.runnable, shape(scratch, spec.input_schema)


def _is_chat(model: Any) -> bool:
    return isinstance(getattr(model, "bound", model), BaseChatModel)


def _chat(builder: Builder, site: Site, model: Any, leads_on: bool) -> Runs:
    """A node that gives a chat model the messages, with the tools of tool nodes."""
    if not leads_on:
        raise PolicyError(
            f"stronger={model!r} is a chat model, but {site.model!r} says by commands "
            "where the run goes on: give a node that returns such commands too"
        )
    if isinstance(model, str):
        model = _named(builder, model)
    if isinstance(model, BaseChatModel) and site.tools:
        model = model.bind_tools([*site.tools.values()])

    def call(state: Any, config: RunnableConfig) -> dict[str, Any]:
        return {site.key: [model.invoke(_messages(state, site.key), config)]}

    async def acall(state: Any, config: RunnableConfig) -> dict[str, Any]:
        return {site.key: [await model.ainvoke(_messages(state, site.key), config)]}

    return RunnableLambda(call, acall, name="stronger")


def _messages(state: Any, key: str) -> Sequence[BaseMessage]:
    found: Sequence[BaseMessage] = (
        state[key] if isinstance(state, Mapping) else getattr(state, key)
    )
    return found


def _named(builder: Builder, name: str) -> BaseChatModel:
    near = get_close_matches(name, builder.nodes, n=1)
    hint = f" Did you mean the node {near[0]!r}?" if near else ""
    try:
        from langchain.chat_models import init_chat_model

        model: BaseChatModel = init_chat_model(name)
    except (ImportError, ValueError) as error:
        raise PolicyError(
            f"stronger={name!r} is neither a node of the graph nor a model that can be "
            f"loaded: {error}.{hint}"
        ) from error
    return model

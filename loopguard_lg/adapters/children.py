"""The agents that run inside the tools and nodes of a graph, and which are guarded.

LangGraph does not say what a function runs. The names that a function uses tell: agents
that it closes over, or finds in its module, are looked for a few steps deep. An agent
that is made in the call itself, or fetched from elsewhere, is not found.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any

from langchain_core.runnables import RunnableBinding
from langchain_core.tools import BaseTool
from langgraph.pregel import Pregel

from loopguard_lg.memory import fold

_DEPTH = 6
"""Steps from a tool or node to an agent: deepagents needs four."""


def children(builder: Any) -> list[dict[str, Any]]:
    """The agents inside a graph, as plain data.

    Args:
        builder: A `StateGraph`.

    Returns:
        `[{"in": tool or node, "agent": name, "guarded": bool}]`.
    """
    found: dict[int, dict[str, Any]] = {}
    tools, others = _starts(builder)
    for place, start in [*tools, *others]:  # a model's node leads to its tools, too
        for name, agent in _agents(start, place, _DEPTH, set()):
            about = {"in": place, "agent": name, "guarded": is_guarded(agent)}
            found.setdefault(id(agent), about)
    return [*found.values()]


def is_guarded(graph: Any) -> bool:
    """Whether a compiled graph has a guard of its own: a channel with its reducer."""
    channels = getattr(graph, "channels", None) or {}
    return any(getattr(c, "operator", None) is fold for c in channels.values())


def _starts(builder: Any) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
    """The tools of a graph, and its other nodes, each with its name."""
    tools: list[tuple[str, Any]] = []
    others: list[tuple[str, Any]] = []
    for node, spec in builder.nodes.items():
        by_name = getattr(spec.runnable, "tools_by_name", None)
        if isinstance(by_name, Mapping):
            tools += by_name.items()
        else:
            others.append((node, spec.runnable))
    return tools, others


def _agents(
    thing: Any, name: str, depth: int, seen: set[int]
) -> Iterator[tuple[str, Pregel[Any, Any, Any, Any]]]:
    """The agents that `thing` leads to, each with the name that it goes by."""
    if isinstance(thing, Pregel):
        own = thing.get_name()
        yield (name if own == "LangGraph" else own), thing
    elif depth and id(thing) not in seen:
        seen.add(id(thing))
        for key, value in _parts(thing):
            yield from _agents(value, key or name, depth - 1, seen)


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    """What is next to look at, with a name where it tells more than the last one."""
    if isinstance(thing, Mapping):
        yield from ((str(key), value) for key, value in [*thing.items()])
    else:
        yield from (("", part) for part in _unnamed(thing))


def _unnamed(thing: Any) -> Sequence[Any]:
    """What a list holds, a function uses, or a tool, binding or node runs."""
    if isinstance(thing, list | tuple):
        return thing
    if isinstance(thing, FunctionType | MethodType):
        return _used(thing)
    names: tuple[str, ...] = ("inner", "func", "afunc")  # of nodes
    if isinstance(thing, BaseTool):
        names = ("func", "coroutine")
    elif isinstance(thing, RunnableBinding):
        names = ("bound",)
    return [getattr(thing, name, None) for name in names]


def _used(function: Any) -> list[Any]:
    """What a function closes over, and finds in its module."""
    try:
        used = inspect.getclosurevars(inspect.unwrap(function))
    except (TypeError, ValueError):  # of a name without a value yet, in Python 3.11
        return []
    return [*used.nonlocals.values(), *used.globals.values()]

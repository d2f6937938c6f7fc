"""Which parts of a graph are really guarded, and which are not and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from langgraph.graph import END, StateGraph
from langgraph.pregel import Pregel

from loopguard_lg.adapters.children import children, is_guarded
from loopguard_lg.adapters.graph_nodes import Around, ModelNode
from loopguard_lg.adapters.graph_own import Way
from loopguard_lg.adapters.graph_site import GIVE_UP

Builder = StateGraph[Any, Any, Any, Any]

_END = "the run is over there: nothing is checked"
_JOIN = (
    "LangGraph can't lead a join elsewhere: its target does nothing when a budget is "
    "out, and leads on to the exit"
)
_HANDLER = "an error handler runs as it is: what it spends is not counted"
_BARE = "guard_graph was not applied"
_INSIDE = "what happens inside is counted, not guarded: guard that graph by itself"
_CHILD = "it has no guard: its cost is counted, what it does is one step of the call"
_HOOK = "a hook of another middleware: what it spends is not counted"
_UNTOLD = (
    "it does not read the messages: it can't be told anything, nor go back, but it is "
    "stopped"
)
_UNKNOWN = "its tools are not known: their defaults and roles are not used"


def coverage(graph: Any) -> dict[str, Any]:
    """What the guard sees of a graph, as plain data.

    Args:
        graph: A `StateGraph`, or what its `compile()`, `create_agent` or
            `create_deep_agent` returned.

    Returns:
        `{"nodes": {name: "model" | "tools" | "node" | "guard" | None},
        "edges": [{"from", "to", "kind", "guarded"}, ...],
        "tools": [name, ...], "children": [{"in", "agent", "guarded"}, ...],
        "open": [{"what", "why"}, ...]}`. A node that is `None` is not guarded; `to` is
        `None` where a condition does not say where it leads; `children` are agents that
        run inside tools and nodes, as far as those tell; `open` lists what is not
        guarded, or not fully.
    """
    graph = getattr(graph, "bound", graph)
    builder: Builder = getattr(graph, "builder", graph)
    by_middleware = is_guarded(graph) and GIVE_UP not in builder.nodes
    report = _by_middleware(builder) if by_middleware else _by_graph(builder)
    inside = children(builder)
    unguarded = [
        {"what": f"{child['in']}: {child['agent']}", "why": _CHILD}
        for child in inside
        if not child["guarded"]
    ]
    return {**report, "children": inside, "open": [*report["open"], *unguarded]}


def _by_graph(builder: Builder) -> dict[str, Any]:
    edges = _edges(builder)
    return {
        "nodes": {name: _role(spec.runnable) for name, spec in builder.nodes.items()},
        "edges": edges,
        "tools": sorted({name for r in _runnables(builder) for name in _tools(r)}),
        "open": [*_open_nodes(builder), *_open_edges(edges)],
    }


def _by_middleware(builder: Builder) -> dict[str, Any]:
    """An agent with the middleware: its two nodes check budgets, whatever leads in."""
    roles = {n: n if n in ("model", "tools") else None for n in builder.nodes}
    tools = (getattr(r, "tools_by_name", ()) for r in _runnables(builder))
    return {
        "nodes": roles,
        "edges": [{**e, "guarded": bool(roles.get(e["to"]))} for e in _edges(builder)],
        "tools": sorted(chain.from_iterable(tools)),
        "open": [{"what": n, "why": _HOOK} for n, role in roles.items() if not role],
    }


def _edges(builder: Builder) -> list[dict[str, Any]]:
    return [*_plain(builder), *_conditions(builder), *_joins(builder)]


def _role(runnable: Any) -> str | None:
    return runnable.role if isinstance(runnable, Around) else None


def _runnables(builder: Builder) -> Iterator[Any]:
    for spec in builder.nodes.values():
        yield spec.runnable


def _tools(runnable: Any) -> list[str]:
    found = getattr(runnable, "tools_by_name", None)
    guarded = _role(runnable) == "tools" and isinstance(found, Mapping)
    return list(found or ()) if guarded else []


def _edge(start: str, end: str | None, kind: str, guarded: bool) -> dict[str, Any]:
    return {"from": start, "to": end, "kind": kind, "guarded": guarded}


def _plain(builder: Builder) -> Iterator[dict[str, Any]]:
    for start, end in sorted(builder.edges):
        yield _edge(start, end, "static", False)


def _conditions(builder: Builder) -> Iterator[dict[str, Any]]:
    for start, branches in builder.branches.items():
        for branch in branches.values():
            yield from _branch(start, branch)


def _branch(start: str, branch: Any) -> Iterator[dict[str, Any]]:
    way = branch.path
    if not isinstance(way, Way):
        ends, kind = branch.ends, "conditional"
    else:
        ends, kind = way.targets, "static" if way.path is None else "conditional"
    for end in dict.fromkeys(ends.values()) if ends is not None else (None,):
        yield _edge(start, end, kind, isinstance(way, Way) and end != END)


def _joins(builder: Builder) -> Iterator[dict[str, Any]]:
    for starts, end in sorted(builder.waiting_edges):
        for start in starts:
            yield _edge(start, end, "join", False)


def _open_nodes(builder: Builder) -> Iterator[dict[str, str]]:
    for name, spec in builder.nodes.items():
        why = _why_open(spec)
        if why:
            yield {"what": name, "why": why}


def _why_open(spec: Any) -> str | None:
    runnable = spec.runnable
    if spec.is_error_handler:
        return _HANDLER
    if not isinstance(runnable, Around):
        return _BARE
    if isinstance(runnable.inner, Pregel):
        return _INSIDE
    node = getattr(runnable.work, "__self__", None)
    if isinstance(node, ModelNode) and node.site.key not in node.shape.keys:
        return _UNTOLD
    unknown = runnable.role == "tools" and not _tools(runnable)
    return _UNKNOWN if unknown else None


def _open_edges(edges: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    for edge in edges:
        if not edge["guarded"]:
            why = _JOIN if edge["kind"] == "join" else _BARE
            why = _END if edge["to"] == END else why
            yield {"what": f"{edge['from']} -> {edge['to']}", "why": why}

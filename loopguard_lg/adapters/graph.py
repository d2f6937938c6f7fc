"""`guard_graph`: the guard in any `StateGraph`."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph
from langgraph.types import CachePolicy

from loopguard_lg.adapters import misspelled
from loopguard_lg.adapters.exits import KEY
from loopguard_lg.adapters.graph_coverage import coverage
from loopguard_lg.adapters.graph_nodes import Around, ModelNode, Node
from loopguard_lg.adapters.graph_own import AskedOn, Own, Way
from loopguard_lg.adapters.graph_site import (
    ASK_USER,
    ESCALATE,
    GIVE_UP,
    NODES,
    REFLECT,
    Site,
)
from loopguard_lg.adapters.graph_state import (
    OWN,
    Shape,
    opened,
    reducer,
    shape,
    wide,
)
from loopguard_lg.adapters.graph_stronger import stronger_node
from loopguard_lg.adapters.graph_tools import ToolsNode
from loopguard_lg.adapters.session import Guard
from loopguard_lg.adapters.shared_pad import SharedScratchpad
from loopguard_lg.adapters.tool_call import check_files
from loopguard_lg.errors import PolicyError
from loopguard_lg.fleet import Fleet
from loopguard_lg.hooks import Observer, checked
from loopguard_lg.policy import Policy

if TYPE_CHECKING:  # git and locks are for those who use them
    from loopguard_lg.adapters.workspace import Workspace

__all__ = ["coverage", "guard_graph"]

Builder: TypeAlias = StateGraph[Any, Any, Any, Any]


def guard_graph(
    builder: Builder,
    policy: Policy | None = None,
    *,
    model: str,
    tools: str | Sequence[str],
    stronger: Any = None,
    messages_key: str = "messages",
    observers: Sequence[Observer] | Observer = (),
    shared: SharedScratchpad | None = None,
    workspace: Workspace | None = None,
    fleet: Fleet | None = None,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], Any] = time.sleep,
    asleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
) -> Builder:
    """A copy of a graph with the guard in it; `builder` itself is not changed.

    The nodes keep their names and settings, so that drawings, streams and interrupts
    name what they named before; `loopguard_reflect`, `loopguard_escalate`,
    `loopguard_ask_user` and `loopguard_give_up` come to them.

    Args:
        builder: The graph, before `compile()`. Its state may be a TypedDict, a
            dataclass or a pydantic model.
        policy: The settings; the default policy is safe for production.
        model: Name of the node that calls the model.
        tools: Name of the node that executes its calls, or several.
        stronger: What `loopguard_escalate` runs: the name of another node, a function
            or runnable that takes and returns the state, a chat model or its name (it
            is given the messages and the tools of tool nodes). By default the model
            that the policy names, else the model's own node.
        messages_key: The state key of the conversation.
        observers: Are told what the guard saw and did.
        shared: What runs of other threads ruled out, in the store that the graph is
            compiled with.
        workspace: The files that the graph works on.
        fleet: Budgets that other runs and workers draw from as well.
        clock: Seconds from any start, to time nodes.
        sleep: Lets seconds pass between two tries of a call, or two polls.
        asleep: The same on an event loop.

    Raises:
        PolicyError: The graph can't be guarded; says why and what would help. At the
            second model call, if a budget in dollars can't be kept.
    """
    names = _listed(tools)
    _check(builder, model, names)
    policy = Policy.checked(policy)
    _check_rungs(policy, workspace)
    _check_restored(builder, policy, messages_key)
    known = {t.name: t for name in names for t in _tools_of(builder, name)}
    misspelled.warn(policy, [*known.values()], set())
    guard = Guard(
        policy=policy,
        agent=model,
        observers=checked(observers),
        sleep=sleep,
        asleep=asleep,
    )
    site = Site(
        guard=guard,
        model=model,
        key=messages_key,
        add=reducer(builder, messages_key),
        reports=KEY in builder.channels,
        tools=known,
        clock=clock,
        shared=shared,
        fleet=fleet,
        workspace=workspace,
    )
    graph = _Install(builder, site, names, _empty(builder), wide(builder))
    graph.nodes(stronger)
    graph.edges()
    return graph.new


def _check_restored(builder: Builder, policy: Policy, key: str) -> None:
    """Refuse to put back what the state has not."""
    known = [name for name in builder.channels if name != key]
    for rung in policy.ladder.rungs:
        for name in getattr(rung, "restore", ()):
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise PolicyError(
                    f"Escalate.restore={name!r} is no key of the state that can be put "
                    f"back ({', '.join(known)}).{hint}"
                )


def _check_rungs(policy: Policy, workspace: Workspace | None) -> None:
    """Refuse what only a middleware can do: here the app's own node calls the model."""
    for rung in policy.acting.ladder.rungs:
        for name, plain in (("temperature", None), ("samples", 1)):
            value = getattr(rung, name, plain)
            if value != plain:
                raise PolicyError(
                    f"{type(rung).__name__}.{name}={value!r}: in a graph the node "
                    f"calls its model by itself; leave {name} out, or use "
                    "Escalate(model=...), reading_only or hide_tool"
                )
    check_files(policy, workspace)


def _empty(builder: Builder) -> Builder:
    """The graph without nodes and edges, with its schemas and defaults."""
    new = copy(builder)
    new.nodes, new.edges, new.waiting_edges = {}, set(), set()
    new.branches = defaultdict(dict)
    new.channels, new.managed = dict(builder.channels), dict(builder.managed)
    new.schemas = dict(builder.schemas)
    new.compiled = False
    return new


@dataclass(frozen=True, slots=True)
class _Install:
    """One installation of the guard: what is guarded, and the new graph."""

    old: Builder
    site: Site
    tools: tuple[str, ...]
    new: Builder
    wide: type[Any]

    def nodes(self, stronger: Any) -> None:
        """Add the guarded nodes and the guard's own."""
        for name, spec in self.old.nodes.items():
            if spec.is_error_handler:
                self.new.nodes[name] = spec
            else:
                self._node(name)
        own = Own(self.site)
        for name, work in (
            (REFLECT, own.reflect),
            (ASK_USER, own.ask_user),
            (GIVE_UP, own.give_up),
        ):
            if name in self.site.nodes:
                around = Around(name, "guard", work)
                self.new.add_node(name, around, input_schema=self.wide)
        self._escalate(stronger)

    def _node(self, name: str) -> None:
        spec = self.old.nodes[name]
        settings: dict[str, Any] = {
            "site": self.site,
            "name": name,
            "inner": spec.runnable,
            "shape": shape(self.old, spec.input_schema),
            "joins": any(end == name for _, end in self.old.waiting_edges),
            "ends": not self._leads_on(name),
        }
        if name == self.site.model:
            self._add(name, "model", ModelNode(**settings))
        elif name in self.tools:
            self._add(name, "tools", ToolsNode(**settings))
        else:
            self._add(name, "node", Node(**settings))

    def _escalate(self, stronger: Any) -> None:
        name = self.site.model
        spec: Any = self.old.nodes[name]
        inner, reads, by_rung = stronger_node(
            self.old, self.site, stronger, self._leads_on(name)
        )
        node = ModelNode(
            site=self.site,
            name=ESCALATE,
            inner=inner,
            shape=reads,
            weaker=spec.runnable,
            by_rung=by_rung,
        )
        self._add(ESCALATE, "guard", node, like=name)

    def _add(self, name: str, role: str, node: Node, like: str | None = None) -> None:
        """Add a guarded node with the settings of the user's."""
        spec = self.old.nodes[like or name]
        self.new.nodes[name] = replace(
            spec,
            runnable=Around(name, role, node.work, node.inner),
            input_schema=self.wide,
            cache_policy=_keyed(spec.cache_policy, node.shape),
            ends=self._drawn(spec.ends),
        )

    def _drawn(self, ends: Any) -> Any:
        """Where commands of a node go, the guard's nodes included."""
        if not ends:
            return ends
        extra = self._guards("", ends)
        if isinstance(ends, Mapping):
            return {**ends, **{name: name for name in extra}}
        return (*ends, *extra)

    def _guards(self, source: str, targets: Iterable[str]) -> tuple[str, ...]:
        """The guard's nodes that a way to `targets` may lead to instead."""
        inside = source != START and self.site.model in targets
        return self.site.nodes if inside else self.site.exits

    def _leads_on(self, name: str) -> bool:
        starts = {start for start, _ in self.old.edges}
        joined = {start for starts_, _ in self.old.waiting_edges for start in starts_}
        return name in starts | joined | {s for s, b in self.old.branches.items() if b}

    def edges(self) -> None:
        """Add the ways on, each with its check."""
        for start in (START, *self.old.nodes):
            self._ways(start, start)
        self._ways(self.site.model, ESCALATE)
        for starts, end in self.old.waiting_edges:
            self.new.add_edge(list(starts), end)
            if self.site.model in starts:
                again = [ESCALATE if s == self.site.model else s for s in starts]
                self.new.add_edge(again, end)
        back = _same([self.site.model])
        self._way(Way("next", self.site, REFLECT, back, ()))
        if self.site.asks:
            self._way(AskedOn("next", self.site, ASK_USER, back, self.site.exits))
        self.new.add_edge(GIVE_UP, END)

    def _ways(self, start: str, source: str) -> None:
        """Add the ways on from `start` to the node `source` of the new graph."""
        plain = sorted(end for begin, end in self.old.edges if begin == start)
        if END in plain:
            self.new.add_edge(source, END)
        if going := [end for end in plain if end != END]:
            guards = self._guards(source, going)
            self._way(Way("loopguard_edges", self.site, source, _same(going), guards))
        for name, branch in self.old.branches.get(start, {}).items():
            reads = self._read_by(start, branch)
            ends = branch.ends
            guards = self._guards(
                source, self.old.nodes if ends is None else ends.values()
            )
            way = Way(name, self.site, source, ends, guards, branch.path, reads)
            self._way(way)

    def _read_by(self, start: str, branch: Any) -> Shape | None:
        """What a condition reads; `None` for a dict with what its node returned too."""
        spec = self.old.nodes.get(start)
        schema = branch.input_schema or (
            spec.input_schema if spec else self.old.state_schema
        )
        reads = shape(self.old, schema)
        return reads if branch.input_schema or reads.is_object else None

    def _way(self, way: Way) -> None:
        """Add a way on; a condition without a path map stays without one."""
        ends = way.targets
        if ends is not None:
            ends = {**ends, **_same(way.guards)}
        self.new.add_conditional_edges(way.source, way, ends)
        if way.source == START:
            branches = self.new.branches[START]
            named = way.name or ""
            branches[named] = branches[named]._replace(input_schema=self.wide)


def _same(names: Iterable[str]) -> dict[Any, str]:
    return {name: name for name in names}


def _keyed(policy: CachePolicy[Any] | None, reads: Shape) -> CachePolicy[Any] | None:
    """The cache policy with keys of what the user's node reads."""
    if policy is None:
        return None
    key = policy.key_func

    def key_of(given: Any) -> Any:
        state, sent = opened(given)
        return key(reads.of(state) if sent is None else sent)

    return replace(policy, key_func=key_of)


def _tools_of(builder: Builder, name: str) -> list[BaseTool]:
    found = getattr(builder.nodes[name].runnable, "tools_by_name", None)
    return [*found.values()] if isinstance(found, Mapping) else []


def _check(builder: Builder, model: str, tools: tuple[str, ...]) -> None:
    if not isinstance(builder, StateGraph):
        raise PolicyError(
            f"guard_graph({type(builder).__name__}): give the StateGraph itself, "
            "before compile(); a compiled graph has it in `.builder`"
        )
    if GIVE_UP in builder.nodes:
        raise PolicyError("guard_graph: this graph is guarded already")
    taken = [name for name in (*NODES, *OWN) if _is_taken(builder, name)]
    if taken:
        raise PolicyError(f"guard_graph: the name {taken[0]!r} is the guard's own")
    for where, name in (("model", model), *(("tools", name) for name in tools)):
        _check_node(builder, where, name)
    if model in tools:
        raise PolicyError(f"tools={model!r} is the model's node as well")


def _is_taken(builder: Builder, name: str) -> bool:
    return name in builder.nodes or name in builder.channels


def _listed(tools: Any) -> tuple[str, ...]:
    """The names of tool nodes, given as one or several."""
    if isinstance(tools, str):
        return (tools,)
    if not isinstance(tools, Sequence):
        raise PolicyError(
            f"tools={tools!r}: give the name of a node, or a list of names"
        )
    return tuple(tools)


def _check_node(builder: Builder, where: str, name: str) -> None:
    if isinstance(name, str) and name in builder.nodes:
        return
    near = get_close_matches(str(name), builder.nodes, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    known = ", ".join(builder.nodes)
    raise PolicyError(f"{where}={name!r} is no node of the graph ({known}).{hint}")

"""Guarded nodes: what runs around a node of the user's, and the guard's own nodes.

What happens around a node is written once (see `driving`); `Around` drives it, with or
without an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import get_runtime
from langgraph.types import Command

from loopguard_lg import hooks
from loopguard_lg.adapters import driving, graph_files, graph_shared, past
from loopguard_lg.adapters.driving import Run, adrive, drive
from loopguard_lg.adapters.exits import KEY, tagged
from loopguard_lg.adapters.fleet_call import Call, FleetRefusedError, drawn
from loopguard_lg.adapters.graph_site import (
    ESCALATE,
    GIVE_UP,
    Look,
    Site,
    is_answered,
    step_of,
)
from loopguard_lg.adapters.graph_state import (
    BESIDE,
    CHANNEL,
    Shape,
    State,
    enclosed,
    gotos,
    leaves_graph,
    minus,
    names,
    opened,
    rerouted,
    resent,
    rewritten,
    with_update,
    written,
)
from loopguard_lg.adapters.ledger import Ledger, spent
from loopguard_lg.adapters.messages import is_word, newest_reply, tokens_of
from loopguard_lg.adapters.plan import shown
from loopguard_lg.adapters.restore import plain, restored, unwritten
from loopguard_lg.budgets import Exceeded
from loopguard_lg.memory import Memory, write
from loopguard_lg.steps import Tokens
from loopguard_lg.telemetry import prices

Work: TypeAlias = driving.Work[Any]
"""Yields what is to be run, is sent its output, and returns the node's output."""


class Around(RunnableLambda[Any, Any]):
    """A node of a guarded graph.

    Attributes:
        inner: The node as the user wrote it; `None` for a node of the guard's.
        role: `model`, `tools`, `node` or `guard`.
    """

    def __init__(
        self,
        name: str,
        role: str,
        work: Callable[[Any, RunnableConfig], Work],
        inner: Runnable[Any, Any] | None = None,
    ) -> None:
        super().__init__(self.invoke, self.ainvoke, name=name)
        self.role = role
        self.work = work
        self.inner = inner

    @cached_property
    def deps(self) -> list[Runnable[Any, Any]]:
        """The node itself: LangGraph looks for subgraphs here."""
        return [self.inner] if self.inner is not None else []

    @property
    def tools_by_name(self) -> Any:
        """The tools of a `ToolNode`, which LangGraph draws."""
        return getattr(self.inner, "tools_by_name", None)

    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Run the node with the guard around it."""
        config = ensure_config(config)
        settings: Any = {"config": config, **kwargs}
        return drive(
            self.work(input, config),
            lambda run: run.on(run.what.invoke, run.what.batch, **settings),
        )

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Run the node with the guard around it."""
        config = ensure_config(config)
        settings: Any = {"config": config, **kwargs}
        return await adrive(
            self.work(input, config),
            lambda run: run.on(run.what.ainvoke, run.what.abatch, **settings),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the user's.

    Attributes:
        site: The settings of the graph.
        name: Its name in the guarded graph.
        inner: What it runs.
        shape: What it reads.
        joins: It is the target of a join edge, which leads to it unchecked.
        ends: It has no outgoing edges: commands are its only way on.
    """

    site: Site
    name: str
    inner: Runnable[Any, Any]
    shape: Shape
    joins: bool = False
    ends: bool = False

    def given(self, state: State, sent: Any) -> Any:
        """Its input, as it would be without the guard."""
        return self.shape.of(state) if sent is None else sent

    def work(self, given: Any, config: RunnableConfig) -> Work:
        """Run it, charge what it spent, and check where its commands go."""
        state, sent = opened(given)
        to = self.site.diversion(state, config, [self.name]) if self.joins else None
        if to is not None:
            return self.site.sent_to(state, self.name, to) if self.ends else None
        started = self.site.clock()
        with self.site.level(state, started) as entry:
            out = yield Run(self.given(state, sent), what=self.inner)
        spend = spent(entry, self.site.clock() - started)
        return self.done(state, config, out, spend)

    def done(
        self,
        state: State,
        config: RunnableConfig,
        out: Any,
        spend: Mapping[str, float] | None = None,
        **update: Any,
    ) -> Any:
        """Its output with the guard's update, and its commands checked.

        Args:
            state: The state that it was given.
            config: The task's.
            out: What it returned.
            spend: What it spent, unless that is part of the model's turn.
            update: The guard's own update.
        """
        if leaves_graph(out):
            return out
        out, said = self._marked(state, config, out)
        if spend or said:
            update[BESIDE] = {
                "word": self.site.word(state),
                "spend": spend or {},
                "step": step_of(config),
                "said": said,
            }
        return self._checked(state, config, with_update(out, update))

    def _marked(
        self, state: State, config: RunnableConfig, out: Any
    ) -> tuple[Any, list[str]]:
        """The output with ids for human messages that no person wrote, and those."""
        key, old = self.site.key, state.get(self.site.key) or []
        known = {message.id for message in self.site.messages(state)}

        def is_new(message: BaseMessage) -> bool:
            there = message.id in known or any(message is m for m in old)
            return is_word(message) and not there

        def named(found: list[BaseMessage]) -> list[BaseMessage]:
            return [
                _named(message) if is_new(message) else message for message in found
            ]

        if is_answered(config) or not any(map(is_new, written(out, key))):
            return out, []
        out = rewritten(out, key, named)
        ids = [message.id for message in filter(is_new, written(out, key))]
        return out, [id_ for id_ in ids if id_]

    def _checked(self, state: State, config: RunnableConfig, out: Any) -> Any:
        targets = gotos(out)
        if not targets:
            return out
        after = self.site.after(state, out)
        to = self.site.diversion(after, config, names(targets))
        if to is not None:
            return rerouted(out, to)
        return resent(out, lambda send: enclosed(send, after, self.site.key))


def _named(message: BaseMessage) -> BaseMessage:
    if message.id or not isinstance(message, HumanMessage):
        return message
    return message.model_copy(update={"id": str(uuid4())})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNode(Node):
    """The model's node, or the stronger model's.

    Attributes:
        weaker: What the model's node runs, if this is the stronger model's.
        by_rung: What runs at a rung of its own model, by number.
    """

    weaker: Runnable[Any, Any] | None = None
    by_rung: Mapping[int, Runnable[Any, Any]] | None = None

    def work(self, given: Any, config: RunnableConfig) -> Work:
        """Look at what happened, then call the model or go where the guard says."""
        site = self.site
        state, sent = opened(given)
        look = site.look(state, config, node=self.name)
        if look.due != (ESCALATE if self.weaker is not None else None):
            return site.sent_to(state, self.name, look.due or site.model)
        look = yield from graph_files.before(site, look)
        look = self._noted((yield from graph_shared.before(site, look, config)))
        return (yield from self._turn(look, state, sent, config))

    def _turn(
        self, look: Look, state: State, sent: Any, config: RunnableConfig
    ) -> Work:
        """Have the model called, with what is put back, in the view that is due."""
        site = self.site
        put = yield from restored(look.plan, site.guard.policy, config)
        state = {**state, **{key: plain(value) for key, value in put.items()}}
        view = shown(look.plan, look.scene, look.scene.model)
        runnable = self._runnable(look.plan.memory)
        run = Run(self._viewing(look, view, state, sent), what=runnable)
        started = site.clock()
        with site.level(state, started) as entry:
            try:
                out = yield from self._drawn(look, view, config, run)
            except FleetRefusedError as refused:
                return self._refused(look, refused.exceeded)
            except Exception as error:
                if self.weaker is None or runnable is self.weaker:
                    raise
                return self._without_stronger(look, error)
        seconds = site.clock() - started
        out, reply = self._seen(look, view, out)
        if reply is not None and not reply.tool_calls:
            messages = look.scene.messages
            look = yield from graph_shared.after(site, look, config, messages)
            yield from graph_files.done(site)
        update = {**unwritten(out, put), **self._update(state, look, out, seconds)}
        return self.done(
            state, config, out, self._beyond(entry, reply, seconds), **update
        )

    def _seen(
        self, look: Look, view: Sequence[BaseMessage], out: Any
    ) -> tuple[Any, AIMessage | None]:
        """What goes into the state of what the node returned, and the reply in it."""
        site = self.site
        site.tell(look)  # not before: a node that is retried looks again
        out = rewritten(out, site.key, lambda found: _without(found, view))
        if not site.guard.policy.observe_only:
            memory = look.plan.memory
            out = rewritten(out, site.key, lambda found: tagged(found, memory))
        return out, newest_reply(written(out, site.key))[0]

    def _drawn(
        self, look: Look, view: Sequence[BaseMessage], config: RunnableConfig, run: Run
    ) -> Work:
        site = self.site
        if site.fleet is None:
            return (yield run)
        call = Call(
            config=config,
            context=get_runtime().context,
            model=look.scene.model,
            sent=view,
            replied=lambda out: written(out, site.key),
            policy=site.guard.policy,
            clock=site.clock,
        )
        return (yield from drawn(site.fleet, call, run))

    def _refused(self, look: Look, exceeded: Exceeded) -> Command[Any]:
        """Leave, as a fleet's budgets have no room for the call."""
        self.site.tell(look)
        noted = [exceeded.limit, str(exceeded)]
        memory = past.with_host(look.plan.memory, fleet=noted, route=self.name)
        return Command(update={CHANNEL: write(look.plan.before, memory)}, goto=GIVE_UP)

    def _viewing(
        self, look: Look, view: Sequence[BaseMessage], state: State, sent: Any
    ) -> Any:
        """The node's input with what the model is to be shown."""
        if view is look.scene.seen:
            return self.given(state, sent)
        key = self.site.key
        return self.given({**state, key: view}, _viewed(sent, key, view))

    def _without_stronger(self, look: Look, error: Exception) -> Command[Any]:
        """Go on with the model's node, as the stronger model can't be had.

        Raises:
            Exception: `error`, if it is no failure.
        """
        if isinstance(error, GraphBubbleUp):
            raise error
        hooks.logger.warning("loopguard: the stronger model failed: %s", error)
        self.site.tell(look)
        plan = look.plan.without_stronger()
        memory = past.with_host(plan.memory, note=plan.note, route=self.name)
        update = {CHANNEL: write(plan.before, memory)}
        return Command(update=update, goto=self.site.model)

    def _beyond(
        self, entry: Ledger, reply: AIMessage | None, seconds: float
    ) -> dict[str, float]:
        """What the node spent beside its reply; all of it where there is none."""
        if reply is None:
            return spent(entry, seconds)
        total, tokens = spent(entry, 0), tokens_of(reply) or Tokens()
        if total.get("model_calls", 0) < 2:
            return {}
        name = reply.response_metadata.get("model_name")
        cost = prices.cost(name, tokens, self.site.guard.policy.prices)
        own = {"input_tokens": tokens.input, "output_tokens": tokens.output}
        priced = {"usd": cost or 0, "unpriced": cost is None}
        return minus(total, {"model_calls": 1, **own, **priced})

    def _runnable(self, memory: Memory) -> Runnable[Any, Any]:
        rung = memory["ladder"].get("rung", 0)
        return (self.by_rung or {}).get(rung, self.inner)

    def _noted(self, look: Look) -> Look:
        """The look with what the node before wanted said, and whose turn it is."""
        plan = look.plan
        host = plan.memory["host"]
        runs = self._runnable(plan.memory)
        other = self.weaker is not None and runs is not self.weaker
        switched = bool(host.get("switched")) or other
        memory = past.with_host(plan.memory, note=None, switched=switched)
        text = plan.note or host.get("note") or ""
        return replace(look, plan=replace(plan, memory=memory, note=text))

    def _update(
        self, state: State, look: Look, out: Any, seconds: float
    ) -> dict[str, Any]:
        site = self.site
        messages = written(out, site.key)
        memory = site.guard.after_model(look.plan, look.scene, messages, seconds)
        reply, _ = newest_reply(messages)
        if reply is not None:
            name = reply.response_metadata.get("model_name")
            known = {**memory["host"].get("names", {}), self.name: name}
            memory = past.with_host(memory, names=known)
        update: dict[str, Any] = {CHANNEL: write(look.plan.before, memory)}
        if site.reports and state.get(KEY) is not None:
            update[KEY] = None
        return update


def _viewed(sent: Any, key: str, view: Sequence[BaseMessage]) -> Any:
    return {**sent, key: view} if isinstance(sent, Mapping) else sent


def _without(
    found: Sequence[BaseMessage], view: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """What a node wrote without what only its view had: a node may return that too."""
    return [m for m in found if m.id or not any(m is shown for shown in view)]

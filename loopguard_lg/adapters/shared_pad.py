"""What one run ruled out is known in the next one: a scratchpad in a `BaseStore`.

    LoopGuardMiddleware(policy, shared=SharedScratchpad(namespace=("acme",)))

It is read once, at the first model call of a run, into the part `earlier` of the run's
own scratchpad; what the run rules out itself, and the facts that it adds, are written
where it escalates and where it ends.

What is read is only told to the model: no verdict depends on it. A store that fails is
logged and done without. What the adapter notes in `memory["host"]["shared"]`:

    {"word": id of the human word that the store was read for, "sent": [key, ...]}
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore

from loopguard_lg import scratchpad
from loopguard_lg.adapters import past
from loopguard_lg.adapters.messages import newest_word, text_of
from loopguard_lg.adapters.plan import Plan
from loopguard_lg.adapters.relevance import Relevance
from loopguard_lg.adapters.shared_store import (
    Entries,
    Entry,
    Work,
    arun,
    place,
    run,
    tried,
    warn,
)
from loopguard_lg.errors import PolicyError
from loopguard_lg.memory import Memory

Namespace: TypeAlias = Sequence[str] | Callable[[RunnableConfig, Any], Sequence[str]]
"""Whose scratchpad it is: labels, or what makes them of a run's config and context."""

DAY = 86_400.0
_PICKED = 8
"""How many entries a relevance picks; the scratchpad shows as many as it has room for.
"""
_TASK = 400
"""How many characters of the task a relevance goes by."""


@dataclass(frozen=True, slots=True)
class Run:
    """What tells whose run it is, and what it is about.

    Attributes:
        config: The run's config.
        runtime: The run's runtime, with its store and context.
        messages: The messages of its state.
    """

    config: RunnableConfig
    runtime: Any
    messages: Sequence[BaseMessage]

    @property
    def task(self) -> str:
        """What the person said last, in short and without secrets."""
        word = newest_word(self.messages)
        return scratchpad.quote(text_of(word), _TASK) if word is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedScratchpad:
    """What was ruled out, and what is known, across the threads of one tenant.

    Attributes:
        namespace: Whose it is: labels such as `("acme", "user-7")`, or a function of
            the run's config and context that returns them. No entry is ever read from
            any other namespace; a function that fails, or returns no labels, leaves
            the run without a shared scratchpad.
        ttl_seconds: How long an entry is believed since it was last found so.
        most: How many entries are kept for one namespace; the oldest go first. An
            entry has at most 320 characters.
        relevance: Picks what matters for the run's task; by default the newest is
            shown.
        timeout: Seconds that one operation of the store may take; a hung one is left
            behind, off an event loop in a thread of its own.
        clock: Seconds since any start that all writers share.

    Raises:
        PolicyError: A setting is wrong.
    """

    namespace: Namespace
    ttl_seconds: float = 30 * DAY
    most: int = 100
    relevance: Relevance | None = None
    timeout: float = 2.0
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        if not callable(self.namespace):
            place(self.namespace)
        for name in ("ttl_seconds", "most", "timeout"):
            if not getattr(self, name) > 0:
                raise PolicyError(f"{name}={getattr(self, name)!r}: give more than 0")

    @property
    def _entries(self) -> Entries:
        return Entries(ttl_seconds=self.ttl_seconds, most=self.most, clock=self.clock)

    def read(self, store: BaseStore, namespace: Sequence[str]) -> list[Entry]:
        """What is known in a namespace and not too old, the newest first."""
        return run(self._entries.reading(place(namespace)), store, self.timeout)

    async def aread(self, store: BaseStore, namespace: Sequence[str]) -> list[Entry]:
        """What is known in a namespace and not too old, the newest first."""
        return await arun(self._entries.reading(place(namespace)), store, self.timeout)

    def write(
        self, store: BaseStore, namespace: Sequence[str], entries: Iterable[Entry]
    ) -> None:
        """Add entries to a namespace; what is too old or too much there goes."""
        work = self._entries.writing(store, place(namespace), [*entries])
        run(work, store, self.timeout)

    async def awrite(
        self, store: BaseStore, namespace: Sequence[str], entries: Iterable[Entry]
    ) -> None:
        """Add entries to a namespace; what is too old or too much there goes."""
        work = self._entries.writing(store, place(namespace), [*entries])
        await arun(work, store, self.timeout)

    def before(self, plan: Plan, at: Run) -> Plan:
        """The plan of a model call with what is known, and what was new kept."""
        return self._served(self._before, plan, at)

    async def abefore(self, plan: Plan, at: Run) -> Plan:
        """The plan of a model call with what is known, and what was new kept."""
        return await self._aserved(self._before, plan, at)

    def after(self, plan: Plan, at: Run) -> Plan:
        """The plan of the model call that ended the run, with what was new kept."""
        return self._served(self._kept, plan, at)

    async def aafter(self, plan: Plan, at: Run) -> Plan:
        """The plan of the model call that ended the run, with what was new kept."""
        return await self._aserved(self._kept, plan, at)

    def _served(self, act: _Act, plan: Plan, at: Run) -> Plan:
        store, where = self._whose(plan, at)
        if store is None:
            return plan
        return run(tried(act(plan, at, store, where), plan), store, self.timeout)

    async def _aserved(self, act: _Act, plan: Plan, at: Run) -> Plan:
        store, where = self._whose(plan, at)
        if store is None:
            return plan
        work = tried(act(plan, at, store, where), plan)
        return await arun(work, store, self.timeout)

    def _whose(self, plan: Plan, at: Run) -> tuple[BaseStore | None, tuple[str, ...]]:
        """The run's store, if it has one, and where in it its tenant's entries are."""
        store: BaseStore | None = getattr(at.runtime, "store", None)
        try:
            if store is None:
                raise PolicyError("the agent was made without a store")
            labels = self.namespace
            if callable(labels):
                labels = labels(at.config, getattr(at.runtime, "context", None))
            return store, place(labels)
        except Exception as error:
            if _begins(plan.memory):
                warn(error)
            return None, ()

    def _before(
        self, plan: Plan, at: Run, store: BaseStore, where: tuple[str, ...]
    ) -> Work[Plan]:
        if _begins(plan.memory):
            found = yield from tried(self._relevant(at, where), [])
            plan = _informed(plan, found)
        if plan.final is not None or plan.verdict.action == "escalate":
            plan = yield from self._kept(plan, at, store, where)
        return plan

    def _relevant(self, at: Run, where: tuple[str, ...]) -> Work[list[Entry]]:
        found = yield from self._entries.reading(where)
        relevance = self.relevance
        if relevance is None or len(found) < 2:
            return found
        texts = [f"{entry.text} {entry.reason}" for entry in found]
        picked = yield partial(relevance.pick, at.task, texts, _PICKED)
        return [found[n] for n in picked]

    def _kept(
        self, plan: Plan, at: Run, store: BaseStore, where: tuple[str, ...]
    ) -> Work[Plan]:
        if _begins(plan.memory):  # the tenant was not known when the run began
            return plan
        sent = plan.memory["host"]["shared"].get("sent", ())
        fresh = [entry for entry in _own(plan.memory) if entry.key not in sent]
        if not fresh:
            return plan
        done = yield from tried(self._entries.writing(store, where, fresh), False)
        return _noted(plan) if done else plan


_Act: TypeAlias = Callable[[Plan, Run, BaseStore, tuple[str, ...]], Work[Plan]]


def _own(memory: Memory) -> list[Entry]:
    """What the thread itself has ruled out, and its facts."""
    pad = memory["pad"]
    ruled = [Entry(call, reason) for call, reason in pad.get("ruled", [])]
    return [*ruled, *map(Entry, pad.get("facts", []))]


def _begins(memory: Memory) -> bool:
    """Whether the store was not read yet in this run; a resumed run is the same one."""
    host = memory["host"]
    noted = host.get("shared")
    return not isinstance(noted, dict) or noted.get("word") != host.get("word")


def _informed(plan: Plan, found: Iterable[Entry]) -> Plan:
    """The plan with what was found; what is in the scratchpad by now is not new."""
    known = [(entry.text, entry.reason) for entry in found]
    pad = scratchpad.recalled(plan.memory["pad"], known)
    return _noted(replace(plan, memory={**plan.memory, "pad": pad}))


def _noted(plan: Plan) -> Plan:
    memory = plan.memory
    sent = [entry.key for entry in _own(memory)]
    shared = {"word": memory["host"].get("word"), "sent": sent}
    return replace(plan, memory=past.with_host(memory, shared=shared))

"""What one run ruled out is known in the next one: a scratchpad in a `BaseStore`.

    LoopGuardMiddleware(policy, shared=SharedScratchpad(namespace=("acme",)))

It is read once, at the first model call of a run, into the part `earlier` of the run's
own scratchpad; what the run rules out itself, and the facts that it adds, are written
where it escalates and where it ends. An entry is one item of the store:

    key: digest of what it is about, so that writers never overwrite one another
    value: {"version": 1, "text": call or fact, "reason": "" for a fact, "at": seconds}

What is read is only told to the model: no verdict depends on it. A store that fails is
logged and done without. What the adapter notes in `memory["host"]["shared"]`:

    {"word": id of the human word that the store was read for, "sent": [key, ...]}
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, TypeAlias, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore, PutOp, SearchOp

from loopguard_lg import scratchpad
from loopguard_lg.adapters import past
from loopguard_lg.adapters.plan import Plan
from loopguard_lg.errors import PolicyError
from loopguard_lg.hooks import logger
from loopguard_lg.memory import Memory

T = TypeVar("T")

Namespace: TypeAlias = Sequence[str] | Callable[[RunnableConfig, Any], Sequence[str]]
"""Whose scratchpad it is: labels, or what makes them of a run's config and context."""

Work: TypeAlias = Generator[list[Any], list[Any], T]
"""Yields operations for the store, is sent their results, and returns what it made."""

VERSION = 1
DAY = 86_400.0
_SPARE = 100
"""How many entries more than are kept are looked at: writers may be under way."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that is known: a call with the reason why it is ruled out, or a fact.

    Attributes:
        text: The call, or the fact.
        reason: Why the call is ruled out; empty for a fact.
    """

    text: str
    reason: str = ""

    @property
    def key(self) -> str:
        """The key in the store: the same call, or the same fact, is one entry."""
        return _digest(["ruled" if self.reason else "fact", self.text])


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
        timeout: Seconds that one operation of the store may take on an event loop;
            nothing can stop a hung synchronous one.
        clock: Seconds since any start that all writers share.

    Raises:
        PolicyError: A setting is wrong.
    """

    namespace: Namespace
    ttl_seconds: float = 30 * DAY
    most: int = 100
    timeout: float = 2.0
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        if not callable(self.namespace):
            place(self.namespace)
        for name in ("ttl_seconds", "most", "timeout"):
            if not getattr(self, name) > 0:
                raise PolicyError(f"{name}={getattr(self, name)!r}: give more than 0")

    def read(self, store: BaseStore, namespace: Sequence[str]) -> list[Entry]:
        """What is known in a namespace and not too old, the newest first."""
        return _run(self._reading(place(namespace)), store)

    async def aread(self, store: BaseStore, namespace: Sequence[str]) -> list[Entry]:
        """What is known in a namespace and not too old, the newest first."""
        return await self._arun(self._reading(place(namespace)), store)

    def write(
        self, store: BaseStore, namespace: Sequence[str], entries: Iterable[Entry]
    ) -> None:
        """Add entries to a namespace; what is too old or too much there goes."""
        _run(self._writing(store, place(namespace), [*entries]), store)

    async def awrite(
        self, store: BaseStore, namespace: Sequence[str], entries: Iterable[Entry]
    ) -> None:
        """Add entries to a namespace; what is too old or too much there goes."""
        await self._arun(self._writing(store, place(namespace), [*entries]), store)

    def before(self, plan: Plan, config: RunnableConfig, runtime: Any) -> Plan:
        """The plan of a model call with what is known, and what was new kept."""
        return self._served(self._before, plan, config, runtime)

    async def abefore(self, plan: Plan, config: RunnableConfig, runtime: Any) -> Plan:
        """The plan of a model call with what is known, and what was new kept."""
        return await self._aserved(self._before, plan, config, runtime)

    def after(self, plan: Plan, config: RunnableConfig, runtime: Any) -> Plan:
        """The plan of the model call that ended the run, with what was new kept."""
        return self._served(self._kept, plan, config, runtime)

    async def aafter(self, plan: Plan, config: RunnableConfig, runtime: Any) -> Plan:
        """The plan of the model call that ended the run, with what was new kept."""
        return await self._aserved(self._kept, plan, config, runtime)

    def _served(
        self, act: _Act, plan: Plan, config: RunnableConfig, runtime: Any
    ) -> Plan:
        store, where = self._whose(plan, config, runtime)
        return plan if store is None else _run(act(plan, store, where), store)

    async def _aserved(
        self, act: _Act, plan: Plan, config: RunnableConfig, runtime: Any
    ) -> Plan:
        store, where = self._whose(plan, config, runtime)
        if store is None:
            return plan
        return await self._arun(act(plan, store, where), store)

    def _whose(
        self, plan: Plan, config: RunnableConfig, runtime: Any
    ) -> tuple[BaseStore | None, tuple[str, ...]]:
        """The run's store, if it has one, and where in it its tenant's entries are."""
        store: BaseStore | None = getattr(runtime, "store", None)
        try:
            if store is None:
                raise PolicyError("the agent was made without a store")
            labels = self.namespace
            if callable(labels):
                labels = labels(config, getattr(runtime, "context", None))
            return store, place(labels)
        except Exception as error:
            if _begins(plan.memory):
                _warn(error)
            return None, ()

    def _before(self, plan: Plan, store: BaseStore, where: tuple[str, ...]) -> _Planned:
        if _begins(plan.memory):
            found = yield from _tried(self._reading(where), [])
            plan = _informed(plan, found)
        if plan.final is not None or plan.verdict.action == "escalate":
            plan = yield from self._kept(plan, store, where)
        return plan

    def _kept(self, plan: Plan, store: BaseStore, where: tuple[str, ...]) -> _Planned:
        if _begins(plan.memory):  # the tenant was not known when the run began
            return plan
        sent = plan.memory["host"]["shared"].get("sent", ())
        fresh = [entry for entry in _own(plan.memory) if entry.key not in sent]
        if not fresh:
            return plan
        done = yield from _tried(self._writing(store, where, fresh), False)
        return _noted(plan) if done else plan

    def _reading(self, where: tuple[str, ...]) -> Work[list[Entry]]:
        found = yield from self._found(where)
        return [entry for _, entry in found if entry is not None][: self.most]

    def _writing(
        self, store: BaseStore, where: tuple[str, ...], entries: list[Entry]
    ) -> Work[bool]:
        minutes = self.ttl_seconds / 60 if store.supports_ttl else None
        now = self.clock()
        yield [
            PutOp(where, entry.key, _packed(entry, now), index=False, ttl=minutes)
            for entry in entries
        ]
        yield from _tried(self._tidying(where), None)
        return True

    def _tidying(self, where: tuple[str, ...]) -> Work[None]:
        found = yield from self._found(where)
        known = [key for key, entry in found if entry is not None]
        gone = [key for key, entry in found if entry is None] + known[self.most :]
        if gone:
            yield [PutOp(where, key, None) for key in gone]

    def _found(self, where: tuple[str, ...]) -> Work[list[tuple[str, Entry | None]]]:
        """The entries by key, the newest first; `None` for one that is too old."""
        limit = self.most + _SPARE
        (items,) = yield [SearchOp(where, limit=limit, refresh_ttl=False)]
        now = self.clock()
        # A search finds all namespaces that begin like this one.
        read = [
            (item.key, item.value)
            for item in items
            if tuple(item.namespace) == where and _is_entry(item.value)
        ]
        read.sort(key=lambda one: (-one[1]["at"], one[0]))
        return [
            (key, _unpacked(value) if self._is_fresh(value["at"], now) else None)
            for key, value in read
        ]

    def _is_fresh(self, at: float, now: float) -> bool:
        return abs(now - at) < self.ttl_seconds  # clocks of writers differ a little

    async def _arun(self, work: Work[T], store: BaseStore) -> T:
        try:
            ops = next(work)
            while True:
                try:
                    async with asyncio.timeout(self.timeout):
                        results = await store.abatch(ops)
                except Exception as error:
                    ops = work.throw(error)
                else:
                    ops = work.send(results)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # it is what work returned


_Planned: TypeAlias = Work[Plan]
_Act: TypeAlias = Callable[[Plan, BaseStore, tuple[str, ...]], _Planned]


def _run(work: Work[T], store: BaseStore) -> T:
    try:
        ops = next(work)
        while True:
            try:
                results = store.batch(ops)
            except Exception as error:
                ops = work.throw(error)
            else:
                ops = work.send(results)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # it is what work returned


def _tried(work: Work[T], default: T) -> Work[T]:
    try:
        return (yield from work)
    except Exception as error:  # a store that fails must not end the run
        _warn(error)
        return default


def _warn(error: Exception) -> None:
    what = f"{type(error).__name__}: {error}"
    logger.warning("loopguard: the shared scratchpad is left out: %s", what)


def place(namespace: Sequence[str]) -> tuple[str, ...]:
    """Where in a store the entries of a namespace are.

    The labels stay readable, for access rules and for deletion by tenant. The last
    one is made of all of them, so that no namespace begins with another one, and that
    labels with a period, which stores refuse, stay apart.

    Raises:
        PolicyError: It is no sequence of labels.
    """
    labels = [] if isinstance(namespace, str) else [*(namespace or ())]
    if not labels or not all(isinstance(label, str) and label for label in labels):
        raise PolicyError(
            f"namespace={namespace!r}: give labels that are not empty, as in "
            '("acme", "user-7")'
        )
    readable = [label.replace(".", "_") for label in labels]
    return (*readable, f"loopguard-{_digest(labels)}")


def _digest(texts: Sequence[str]) -> str:
    data = "".join(f"{len(text)}:{text}" for text in texts)
    return blake2b(data.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _packed(entry: Entry, now: float) -> dict[str, Any]:
    return {
        "version": VERSION,
        "text": scratchpad.quote(entry.text, scratchpad.LINE),
        "reason": scratchpad.quote(entry.reason, scratchpad.LINE),
        "at": now,
    }


def _is_entry(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and value.get("version") == VERSION
        and all(isinstance(value.get(key), str) for key in ("text", "reason"))
        and isinstance(value.get("at"), int | float)
    )


def _unpacked(value: Mapping[str, Any]) -> Entry:
    return Entry(value["text"], value["reason"])


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

"""The tree of budgets: what the agents around allow, and what those inside spend.

A guarded call is a level of the tree. Whatever runs inside charges every level above
it, and an agent inside that is guarded leaves when a level above is out, the outermost
first. What is kept here belongs to calls under way and to the newest that did not come
back with a result (raised, interrupted, cancelled): their spending has no message to be
written to. It is lost with the process; a child that is guarded and has a checkpointer
tells what it spent before when it goes on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, TypeAlias

from loopguard_lg import budgets
from loopguard_lg.adapters.ledger import Ledger, Spent, ledger
from loopguard_lg.budgets import Budget, Exceeded, Used
from loopguard_lg.memory import Memory
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Tokens

Key: TypeAlias = tuple[str, str, str]
"""A batch: the agent that asked for it, its thread, the id of its reply."""

_TOKENS = ("input_tokens", "output_tokens")

_KEPT = 1_024
"""Most batches that are kept, the newest."""


@dataclass(slots=True)
class Batch:
    """The calls of one reply, which draw on the same budgets.

    Attributes:
        ledgers: What each call under way, or done, has spent.
        lost: Those of calls that did not come back with a result.
    """

    ledgers: list[Ledger] = field(default_factory=list)
    lost: list[Ledger] = field(default_factory=list)

    def spent(self) -> Used:
        """What all its calls have spent so far."""
        spent = (s for entry in self.ledgers for s in entry.spent)
        return budgets.add({}, *map(_used, spent))


def _used(spent: Spent) -> Used:
    return {
        "model_calls": spent.model_calls,
        "input_tokens": spent.input,
        "output_tokens": spent.output,
        "usd": spent.cost or 0,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A guarded call under way.

    Attributes:
        agent: Who made it.
        budgets: What that agent may spend.
        memory: What its guard knew when the call began.
        beside: What it had spent by then that is not in the memory yet, by scope.
        batch: The calls that it was made with.
        entry: What is spent inside it.
        clock: Seconds from any start.
        started: When it began.
        outer: The level that its agent runs in.
    """

    agent: str
    budgets: tuple[Budget, ...]
    memory: Memory
    beside: Mapping[str, Used]
    batch: Batch
    entry: Ledger
    clock: Callable[[], float]
    started: float
    outer: Level | None

    def now(self) -> dict[str, Used]:
        """What its agent has spent by now, by scope."""
        took = {**self.batch.spent(), "seconds": max(0.0, self.clock() - self.started)}
        spend = asked(self.memory)
        return {
            scope: budgets.add(used, spend, self.beside.get(scope, {}), took)
            for scope, used in self.memory["used"].items()
        }

    def named(self, out: Exceeded | None) -> Exceeded | None:
        """A budget that is out, with whose it is."""
        return None if out is None else replace(out, owner=self.agent)


_level: ContextVar[Level | None] = ContextVar("loopguard_level", default=None)
_batches: OrderedDict[Key, Batch] = OrderedDict()
_lock = Lock()


@contextmanager
def level(
    policy: Policy,
    agent: str,
    memory: Memory,
    clock: Callable[[], float],
    started: float,
    **beside: Used,
) -> Iterator[Ledger]:
    """Count what runs inside a guarded call, and hold it to the call's budgets.

    Args:
        policy: The settings of the agent that makes the call.
        agent: Its name.
        memory: What its guard knows.
        clock: Seconds from any start.
        started: When the call began.
        beside: What was spent and is not in the memory yet, by scope.
    """
    key, batch = key_of(agent, memory["host"]), Batch()
    if key is not None:
        batch = _batch(key)
    with ledger(policy.prices) as entry:
        batch.ledgers.append(entry)
        here = Level(
            agent=agent,
            budgets=() if policy.observe_only else policy.budgets,
            memory=memory,
            beside=beside,
            batch=batch,
            entry=entry,
            clock=clock,
            started=started,
            outer=_level.get(),
        )
        token = _level.set(here)
        try:
            yield entry
        except BaseException:  # an interrupt and a cancellation, too
            batch.lost.append(entry)
            raise
        finally:
            _level.reset(token)


def key_of(agent: str, host: Mapping[str, Any]) -> Key | None:
    """The batch whose calls are under way; `None` where it has no name."""
    reply, thread = (host.get("open") or {}).get("id"), host.get("thread")
    return (agent, str(thread), str(reply)) if reply and thread else None


def asked(memory: Memory) -> Used:
    """What the model call took whose calls are under way."""
    opened: Mapping[str, Any] = memory["host"].get("open") or {}
    spend: Used = opened.get("spend") or {}
    return spend


def _batch(key: Key) -> Batch:
    with _lock:
        batch = _batches.setdefault(key, Batch())
        _batches.move_to_end(key)
        if len(_batches) > _KEPT:
            _batches.popitem(last=False)
    return batch


def lost(agent: str, host: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What calls of the open reply spent that did not come back, as plain data."""
    key = key_of(agent, host)
    batch = _batches.get(key) if key is not None else None
    entries = batch.lost if batch is not None else ()
    return [entry.mark() for entry in entries]


def _levels() -> list[Level]:
    """The levels that an agent runs in, the outermost first."""
    found: list[Level] = []
    here = _level.get()
    while here is not None:
        found.insert(0, here)
        here = here.outer
    return found


def exceeded() -> Exceeded | None:
    """The budget of an agent around that is out, the outermost first."""
    for one in _levels():
        out = one.named(budgets.exceeded(one.budgets, one.now()))
        if out is not None:
            return out
    return None


def refuses_call() -> Exceeded | None:
    """The budget of an agent around that has no room for a call inside."""
    for one in _levels():
        out = one.named(budgets.refuses_call(one.budgets, one.now(), {}))
        if out is not None:
            return out
    return None


def seconds_left(own: float | None) -> float | None:
    """The seconds left to an agent that has `own` left by itself."""
    left = [budgets.seconds_left(one.budgets, one.now(), {}) for one in _levels()]
    known = [seconds for seconds in (own, *left) if seconds is not None]
    return min(known) if known else None


def goes_on(child: str, memory: Memory) -> None:
    """Charge what a child spent before it was interrupted in another process.

    Args:
        child: Its thread.
        memory: What its guard knows, with what it did in this call.
    """
    for one in _levels():
        if child in one.entry.children:
            continue
        one.entry.children.add(child)
        used, counted = memory["used"]["run"], one.batch.spent()
        before = {k: max(0, n - counted.get(k, 0)) for k, n in used.items()}
        if calls := int(before.get("model_calls", 0)):
            sent, received = (int(before.get(name, 0)) for name in _TOKENS)
            tokens = Tokens(input=sent, output=received)
            one.entry.charge(calls, tokens, before.get("usd"))


def left(report: dict[str, Any]) -> None:
    """Hand the exit report of a child to the call that it runs in."""
    here = _level.get()
    if here is not None:
        here.entry.report = {**report, "inside": True}

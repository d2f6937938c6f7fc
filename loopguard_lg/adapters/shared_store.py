"""Entries that runs share, as items of a `BaseStore`.

An entry is one item:

    key: digest of what it is about, so that writers never overwrite one another
    value: {"version": 1, "text": call or fact, "reason": "" for a fact, "at": seconds}

What is done with a store is written once, as generators that yield operations and are
sent their results; `run` and `arun` drive them, off and on an event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, TypeAlias, TypeVar

from langgraph.store.base import BaseStore, PutOp, SearchOp

from loopguard_lg import scratchpad
from loopguard_lg.deadlines import Aside, in_time
from loopguard_lg.errors import PolicyError
from loopguard_lg.hooks import logger

T = TypeVar("T")

Work: TypeAlias = Generator[list[Any] | Callable[[], Any], Any, T]
"""Yields operations for the store, or something slow; is sent what came of it."""

VERSION = 1
_SPARE = 100
"""How many entries more than are kept are looked at: writers may be under way."""

_aside = Aside(16)
"""Where synchronous stores work, of all runs of the process."""


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
class Entries:
    """What is kept in each namespace of a store, and for how long.

    Attributes:
        ttl_seconds: How long an entry is believed.
        most: How many entries are kept; the oldest go first.
        clock: Seconds since any start that all writers share.
    """

    ttl_seconds: float
    most: int
    clock: Callable[[], float]

    def reading(self, where: tuple[str, ...]) -> Work[list[Entry]]:
        """The entries that are not too old, the newest first."""
        found = yield from self._found(where)
        return [entry for _, entry in found if entry is not None][: self.most]

    def writing(
        self, store: BaseStore, where: tuple[str, ...], entries: list[Entry]
    ) -> Work[bool]:
        """Add entries, and take away what is too old or too much."""
        expires = getattr(store, "supports_ttl", False)
        minutes = self.ttl_seconds / 60 if expires else None
        now = self.clock()
        # In one order, as two writers could wait for one another else.
        yield [
            PutOp(where, entry.key, _packed(entry, now), index=False, ttl=minutes)
            for entry in sorted(entries, key=lambda one: one.key)
        ]
        yield from tried(self._tidying(where), None)
        return True

    def _tidying(self, where: tuple[str, ...]) -> Work[None]:
        found = yield from self._found(where)
        known = [key for key, entry in found if entry is not None]
        gone = [key for key, entry in found if entry is None] + known[self.most :]
        if gone:
            yield [PutOp(where, key, None) for key in sorted(gone)]

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


async def arun(work: Work[T], store: BaseStore, seconds: float) -> T:
    """Do the work on an event loop.

    Args:
        work: What to do.
        store: With what.
        seconds: For each turn of the store.
    """
    try:
        asked = next(work)
        while True:
            try:
                if callable(asked):
                    result = await asyncio.to_thread(asked)
                else:
                    result = await in_time(store.abatch(asked), seconds)
            except Exception as error:
                asked = work.throw(error)
            else:
                asked = work.send(result)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # it is what work returned


def run(work: Work[T], store: BaseStore, seconds: float) -> T:
    """Do the work off any event loop; the arguments are those of `arun`."""
    try:
        asked = next(work)
        while True:
            try:
                if callable(asked):
                    result = asked()
                else:
                    result = _aside.in_time(partial(store.batch, asked), seconds)
            except Exception as error:
                asked = work.throw(error)
            else:
                asked = work.send(result)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # it is what work returned


def tried(work: Work[T], default: T) -> Work[T]:
    """What the work makes, or `default` where the store fails."""
    try:
        return (yield from work)
    except Exception as error:  # a store that fails must not end the run
        warn(error)
        return default


def warn(error: Exception) -> None:
    """Say in the log why a run goes without a shared scratchpad."""
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
    return blake2b(data.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


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

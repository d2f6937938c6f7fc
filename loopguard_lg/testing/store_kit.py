"""Checks of a store that is to hold shared scratchpads, for pytest, on any store.

    @pytest.mark.parametrize("check", store_kit.CHECKS)
    def test_my_store(check: store_kit.Check) -> None:
        store_kit.run(check, MyStore())

    @pytest.mark.parametrize("check", store_kit.CHECKS)
    async def test_my_store_on_an_event_loop(check: store_kit.Check) -> None:
        async with MyAsyncStore(...) as store:
            await store_kit.arun(check, store)

A check fails with an `AssertionError`, or with what the store raises. Every check
works in namespaces of its own, so that a store may be used for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import uuid4

from langgraph.store.base import BaseStore

from loopguard_lg.adapters.shared_pad import SharedScratchpad
from loopguard_lg.adapters.shared_store import Entry, place


@dataclass(kw_only=True)
class Bench:
    """A store under test, and a clock.

    Attributes:
        store: The store.
        awaits: Whether it is used by its asynchronous methods.
        now: What the clock says, in seconds.
        tenant: The first label of this check's namespaces.
    """

    store: BaseStore
    awaits: bool
    now: float = 1_000_000.0
    tenant: str = field(default_factory=lambda: uuid4().hex)

    def pad(self, **settings: Any) -> SharedScratchpad:
        """A shared scratchpad that goes by the bench's clock."""
        return SharedScratchpad(
            namespace=(self.tenant,), clock=lambda: self.now, **settings
        )

    async def write(self, *labels: str, entries: list[Entry], **settings: Any) -> None:
        """Write entries to the tenant's namespace with these labels."""
        pad, where = self.pad(**settings), (self.tenant, *labels)
        if self.awaits:
            await pad.awrite(self.store, where, entries)
        else:
            await asyncio.to_thread(pad.write, self.store, where, entries)

    async def read(self, *labels: str, **settings: Any) -> list[Entry]:
        """What is in the tenant's namespace with these labels."""
        pad, where = self.pad(**settings), (self.tenant, *labels)
        if self.awaits:
            return await pad.aread(self.store, where)
        return await asyncio.to_thread(pad.read, self.store, where)

    async def put(self, key: str, value: dict[str, Any]) -> None:
        """Put anything at all where the tenant's entries are."""
        where = place((self.tenant,))
        if self.awaits:
            await self.store.aput(where, key, value)
        else:
            await asyncio.to_thread(self.store.put, where, key, value)


Check: TypeAlias = Callable[[Bench], Awaitable[None]]
"""Raises `AssertionError` if a store does not do what shared scratchpads need."""


def run(check: Check, store: BaseStore) -> None:
    """Run a check on a store by its synchronous methods, off any event loop."""
    asyncio.run(_checked(check, store, awaits=False))


async def arun(check: Check, store: BaseStore) -> None:
    """Run a check on a store by its asynchronous methods."""
    await _checked(check, store, awaits=True)


async def _checked(check: Check, store: BaseStore, *, awaits: bool) -> None:
    await check(Bench(store=store, awaits=awaits))


async def nothing_is_known_at_first(bench: Bench) -> None:
    """A namespace that nobody wrote to is empty, not an error."""
    assert await bench.read() == []


async def what_is_written_is_read_newest_first(bench: Bench) -> None:
    """Calls keep their reasons, facts have none."""
    fact, call = Entry("the API is v2"), Entry('search(query="x")', "3x: none")
    await bench.write(entries=[fact])
    bench.now += 1
    await bench.write(entries=[call])

    assert await bench.read() == [call, fact]


async def the_same_call_is_one_entry(bench: Bench) -> None:
    """Who writes last says why a call is ruled out."""
    await bench.write(entries=[Entry("a()", "3x: none")])
    bench.now += 1
    await bench.write(entries=[Entry("a()", "4x: error")])

    assert await bench.read() == [Entry("a()", "4x: error")]


async def a_namespace_is_nobody_elses(bench: Bench) -> None:
    """Names that begin alike, match as patterns, or lie within are other ones."""
    others = [("ab",), ("a", "b"), ("a_b",), ("axb",), ("a%",), ("a.b",), ("A",)]
    for labels in others:
        await bench.write(*labels, entries=[Entry("/".join(labels))])

    assert await bench.read("a") == []
    for labels in others:
        assert await bench.read(*labels) == [Entry("/".join(labels))]


async def others_leave_room(bench: Bench) -> None:
    """What lies in other namespaces never crowds out what is in this one."""
    await bench.write("a", entries=[Entry("mine")], most=1)
    for n in range(4):
        many = [Entry(f"{n} {m}") for m in range(100)]
        await bench.write("a", str(n), entries=many)

    assert await bench.read("a", most=1) == [Entry("mine")]


async def what_is_too_old_is_not_known(bench: Bench) -> None:
    """It is not read, and gone from the store with the next write."""
    await bench.write(entries=[Entry("old")], ttl_seconds=60)
    bench.now += 60

    assert await bench.read(ttl_seconds=60) == []
    await bench.write(entries=[Entry("new")], ttl_seconds=60)
    assert await bench.read(ttl_seconds=10_000) == [Entry("new")]


async def the_oldest_make_room(bench: Bench) -> None:
    """No more than `most` entries are kept."""
    for n in range(6):
        bench.now += 1
        await bench.write(entries=[Entry(str(n))], most=4)

    assert await bench.read() == [Entry("5"), Entry("4"), Entry("3"), Entry("2")]


async def writers_at_once_lose_nothing(bench: Bench) -> None:
    """Each entry has a key of its own."""
    entries = [Entry(f"call {n}", "3x: none") for n in range(24)]
    await asyncio.gather(*(bench.write(entries=[entry]) for entry in entries))

    assert sorted(await bench.read(), key=str) == sorted(entries, key=str)


async def odd_texts_are_kept(bench: Bench) -> None:
    """Quotes, other scripts, and what a database refuses: as one short line."""
    odd = 'say("猫🦜")\n\x00\x1b[2J\ud800 % \\ $1 {}'
    await bench.write(entries=[Entry(odd), Entry("x" * 9_000, "y" * 9_000)])

    short, long = sorted(await bench.read(), key=lambda entry: len(entry.text))
    assert short.text == 'say("猫🦜") % \\ $1 {}'
    assert len(long.text) == len(long.reason) == 160


async def secrets_are_masked(bench: Bench) -> None:
    """A store keeps no key that was part of a call."""
    await bench.write(entries=[Entry("get(api_key=sk-0123456789abcdef)", "no")])

    assert "0123456789" not in str(await bench.read())


async def what_is_no_entry_is_left_alone(bench: Bench) -> None:
    """What somebody else, or a later version, put there is not read."""
    await bench.put("1", {"version": 2, "text": "t", "reason": "", "at": bench.now})
    await bench.put("2", {"version": 1, "text": ["t"], "reason": "", "at": bench.now})
    await bench.put("3", {"version": 1, "text": "t", "reason": "", "at": "now"})
    await bench.write(entries=[Entry("mine")])

    assert await bench.read() == [Entry("mine")]


CHECKS: tuple[Check, ...] = (
    nothing_is_known_at_first,
    what_is_written_is_read_newest_first,
    the_same_call_is_one_entry,
    a_namespace_is_nobody_elses,
    others_leave_room,
    what_is_too_old_is_not_known,
    the_oldest_make_room,
    writers_at_once_lose_nothing,
    odd_texts_are_kept,
    secrets_are_masked,
    what_is_no_entry_is_left_alone,
)
"""All checks."""

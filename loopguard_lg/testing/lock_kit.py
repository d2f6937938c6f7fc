"""Checks of a store that is to hold file locks, for pytest, on any store.

    @pytest.mark.parametrize("check", lock_kit.CHECKS)
    def test_my_store(check: lock_kit.Check) -> None:
        check(MyStore("a workspace of its own"))

A check fails with an `AssertionError`, or with what the store raises. Each needs a
store whose table is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeAlias

from loopguard_lg.workspace.locks import Locks, LockStore

Check: TypeAlias = Callable[[LockStore], None]
"""Raises `AssertionError` if a store does not do what locks need."""


def _locks(store: LockStore, lease: float = 300.0) -> Locks:
    return Locks(store=store, lease=lease, sleep=lambda seconds: None)


def a_file_is_held_by_one_agent(store: LockStore) -> None:
    """Who asks for a file that another one holds is told by whom."""
    locks = _locks(store)

    assert locks.attempt("a.py", "one").held
    refused = locks.attempt("./a.py", "two")
    assert (refused.held, refused.by) == (False, "one")
    assert locks.attempt("b.py", "two").held


def a_released_file_goes_to_whoever_waits_longest(store: LockStore) -> None:
    """The line is kept, whoever asks first."""
    locks = _locks(store)
    for agent in ("one", "two", "three"):
        locks.attempt("a.py", agent)
    locks.release("one")

    assert not locks.attempt("a.py", "three").held
    assert locks.attempt("a.py", "two").held


def a_lease_that_ends_frees_the_file(store: LockStore) -> None:
    """A worker that died holds nothing for ever."""
    assert _locks(store, lease=0).attempt("a.py", "one").held

    assert _locks(store).attempt("a.py", "two").held


def a_renewed_lease_goes_on(store: LockStore) -> None:
    """Who works keeps what it holds; who holds nothing gains nothing."""
    _locks(store, lease=100).attempt("a.py", "one")
    _locks(store, lease=1_000_000).renew("one")
    grant = _locks(store).attempt("a.py", "two")

    assert grant.by == "one"
    assert grant.until > store.update(lambda table, now: (table, now)) + 1_000


def who_is_refused_leaves_the_line(store: LockStore) -> None:
    """Nobody waits for somebody who has gone."""
    locks = _locks(store)
    locks.attempt("a.py", "one")
    assert not locks.acquire("a.py", "two").held
    locks.release("one", "a.py")

    assert locks.attempt("a.py", "three").held


def a_circle_of_waits_costs_the_oldest_lock(store: LockStore) -> None:
    """The others go on, and the report says who has lost what."""
    locks = _locks(store)
    locks.attempt("a.py", "one")
    locks.attempt("b.py", "two")
    locks.attempt("b.py", "one")

    grant = locks.attempt("a.py", "two")

    assert grant.held
    assert grant.freed == (("a.py", "one"),)
    assert locks.report() == {
        "held": {"a.py": "two", "b.py": "two"},
        "waits": [{"agent": "one", "for": "two", "path": "b.py"}],
        "lost": {"one": ["a.py"]},
    }


def who_gets_a_lost_file_back_is_told_once(store: LockStore) -> None:
    """Others may have changed it meanwhile."""
    a_circle_of_waits_costs_the_oldest_lock(store)
    locks = _locks(store)
    locks.release("two")

    assert locks.attempt("a.py", "one").again
    assert not locks.attempt("a.py", "one").again
    assert locks.report()["lost"] == {}


def only_one_of_many_at_once_wins(store: LockStore) -> None:
    """The table is changed in one piece."""
    locks, agents = _locks(store), [f"agent {n}" for n in range(12)]
    with ThreadPoolExecutor(6) as pool:
        grants = [*pool.map(lambda agent: locks.attempt("a.py", agent), agents)]

    assert sum(grant.held for grant in grants) == 1
    assert len(locks.report()["waits"]) == 11


def odd_names_are_kept(store: LockStore) -> None:
    """Whatever a file or an agent is called."""
    locks, odd = _locks(store), "a\n\udcff'\"\x00%s\\🦜"
    assert locks.attempt(odd, odd).held

    assert locks.holder(odd) == odd


def what_fails_changes_nothing(store: LockStore) -> None:
    """A change that raises leaves the table as it was."""
    locks = _locks(store)
    locks.attempt("a.py", "one")
    with suppress(ZeroDivisionError):
        store.update(lambda table, now: ({}, 1 / 0))

    assert locks.holder("a.py") == "one"


CHECKS: tuple[Check, ...] = (
    a_file_is_held_by_one_agent,
    a_released_file_goes_to_whoever_waits_longest,
    a_lease_that_ends_frees_the_file,
    a_renewed_lease_goes_on,
    who_is_refused_leaves_the_line,
    a_circle_of_waits_costs_the_oldest_lock,
    who_gets_a_lost_file_back_is_told_once,
    only_one_of_many_at_once_wins,
    odd_names_are_kept,
    what_fails_changes_nothing,
)
"""All checks."""

"""What one tenant writes no other one reads, however they are named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from langgraph.store.memory import InMemoryStore

from loopguard_lg.adapters.shared_pad import SharedScratchpad
from loopguard_lg.adapters.shared_store import Entry, place
from loopguard_lg.budgets import Budget
from loopguard_lg.errors import PolicyError
from loopguard_lg.fleet import FleetBudget
from loopguard_lg.fleet.limits import claims

LABELS = [
    "acme", "acme.corp", "acme_corp", "acme/corp", "acme|corp", "acme=corp", "acme%7C",
    "ACME", "аcme", "ａcme", "acme\u200b", " acme", "acme ", "*", "%", "..", "../acme",
    "acme\0", "\ud800", "loopguard-0", "acme:corp", "'; DROP TABLE store; --",
]  # fmt: skip
labels = st.sampled_from(LABELS) | st.text(min_size=1, max_size=12)
namespaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
PAD = SharedScratchpad(namespace=("unused",))


@given(namespaces, namespaces)
def test_two_namespaces_are_two_places(one: Any, other: Any) -> None:
    """And no place lies below another one, so that no search finds both."""
    mine, theirs = place(one), place(other)

    assert (mine == theirs) == (one == other)
    assert one == other or theirs[: len(mine)] != mine
    assert not any("." in label for label in mine)


@given(namespaces, namespaces)
def test_no_entry_is_read_from_another_namespace(one: Any, other: Any) -> None:
    """Also where the store itself finds what only begins alike."""
    store = InMemoryStore()
    PAD.write(store, one, [Entry("a secret of one")])

    assert PAD.read(store, one) == [Entry("a secret of one")]
    assert one == other or PAD.read(store, other) == []


@pytest.mark.parametrize("wrong", [(), ("",), ("acme", ""), "acme", None, ("acme", 7)])
def test_a_namespace_without_a_name_is_refused(wrong: Any) -> None:
    """Rather than shared by all whose name is missing."""
    with pytest.raises(PolicyError, match="namespace"):
        place(wrong)


def _keys(tenant: str, project: str) -> set[str]:
    budget = FleetBudget(Budget(usd=1), per=("tenant", "project"), name="f")
    found = claims([budget], {"tenant": tenant, "project": project}, {}, 0.0)
    return {claim.key for claim in found}


@given(labels, labels, labels, labels)
def test_two_tenants_draw_from_two_sums(a: str, b: str, c: str, d: str) -> None:
    """No pair of labels runs into another one, whatever separators are in them."""
    assert _keys(a, b).isdisjoint(_keys(c, d)) == ((a, b) != (c, d))


@pytest.mark.parametrize("missing", [{}, {"tenant": ""}, {"tenant": None}])
def test_a_run_without_its_label_draws_from_nobody_s_sum(missing: Any) -> None:
    """It is refused, with the label that it lacks."""
    budget = FleetBudget(Budget(usd=1), per=("tenant",), name="f")

    with pytest.raises(PolicyError, match="'tenant'"):
        claims([budget], missing, {}, 0.0)

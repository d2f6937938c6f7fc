from __future__ import annotations

from hypothesis import given, strategies as st

from loopguard_lg.contracts import Contract, is_same, settled

TAX = "work out the tax of order 17"


def contract(owner: str, by: str, what: str = TAX, answer: str = "") -> Contract:
    """A subtask handed from one agent to another."""
    return Contract(what=what, owner=owner, by=by, answer=answer)


def test_a_new_subtask_is_handed_over() -> None:
    """Nothing was said of it before."""
    old = [contract("bob", "alice", "find the order")]

    assert settled(contract("bob", "alice"), old) is None


def test_an_answer_that_is_there_comes_back() -> None:
    """Whoever asks, and whomever."""
    old = [contract("bob", "alice", answer="42")]

    assert settled(contract("carol", "alice"), old) == ("answered", old[0])


def test_a_subtask_has_one_owner() -> None:
    """A second agent does not get it while the first one has it."""
    old = [contract("bob", "alice")]

    assert settled(contract("carol", "alice"), old) == ("owned", old[0])
    assert settled(contract("carol", "bob"), old) == ("owned", old[0])


def test_the_owner_may_be_reminded_and_may_return_it() -> None:
    """It goes to its owner again, or back to who handed it over."""
    old = [contract("bob", "alice")]

    assert settled(contract("bob", "alice"), old) is None
    assert settled(contract("alice", "bob"), old) is None


def test_another_number_is_another_subtask() -> None:
    """Short tasks that differ in one word are told apart."""
    assert is_same(TAX, "Work out the tax of order 17.")
    assert not is_same("tax of order 17", "tax of order 18")


@given(st.text(), st.text())
def test_being_the_same_has_no_direction(one: str, other: str) -> None:
    """It does not matter which was said first."""
    assert is_same(one, other) == is_same(other, one)

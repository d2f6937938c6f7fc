"""What nodes beside the model's have spent adds up, however they run."""

from __future__ import annotations

from functools import reduce
from typing import Any

from hypothesis import given, strategies as st

from loopguard_lg.adapters.graph_state import add_beside, unseen

AMOUNTS = st.integers(min_value=1, max_value=9)


def write(step: int, calls: int, seconds: int, word: str = "w") -> dict[str, Any]:
    """What one node writes."""
    spend = {"model_calls": calls, "seconds": seconds}
    return {"word": word, "spend": spend, "step": step, "said": []}


STEPS = st.lists(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=4))


def total(steps: list[list[tuple[int, int]]]) -> Any:
    """The value after all writes of all supersteps."""
    writes = [write(n, *spent) for n, step in enumerate(steps) for spent in step]
    return reduce(add_beside, writes, None)


@given(STEPS.filter(bool))
def test_no_count_is_lost_and_the_slowest_of_a_step_counts(steps: Any) -> None:
    """Calls of all writers are summed; seconds are the longest of each superstep."""
    run = total(steps)["run"]

    assert run["model_calls"] == sum(calls for step in steps for calls, _ in step)
    assert run["seconds"] == sum(max(s for _, s in step) for step in steps)


@given(STEPS.filter(bool), st.randoms(use_true_random=False))
def test_the_order_of_writers_in_a_step_does_not_matter(steps: Any, order: Any) -> None:
    """Branches end in any order."""
    mixed = [order.sample(step, len(step)) for step in steps]

    assert total(mixed) == total(steps)


@given(STEPS.filter(bool), st.integers(min_value=0))
def test_what_was_seen_is_not_counted_again(steps: Any, at: int) -> None:
    """What is new and what was seen before are the whole together."""
    cut = at % len(steps)
    seen, value = total(steps[:cut]), total(steps)

    new = unseen(value, seen, "w")["run"].get("model_calls", 0)

    before = seen["run"]["model_calls"] if seen else 0
    assert new + before == value["run"]["model_calls"]
    assert unseen(value, value, "w") == {"run": {}, "thread": {}}


def test_a_new_word_starts_the_run_afresh_and_not_the_thread() -> None:
    """Run and thread are counted apart."""
    value = add_beside(add_beside(None, write(1, 3, 1)), write(2, 2, 1, word="next"))

    assert unseen(value, None, "next")["run"]["model_calls"] == 2
    assert unseen(value, None, "next")["thread"]["model_calls"] == 5
    assert unseen(value, None, "other")["run"] == {}

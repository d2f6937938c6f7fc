from __future__ import annotations

import pytest

from loopguard_lg import Policy, Step, Turn, decide


@pytest.mark.parametrize(
    "result",
    [
        "topic {n}: topic {n}-0 topic {n}-1 topic {n}-2",
        "order {n}: 3 items, total {n}.50",
        '{{"id": {n}, "name": "user {n}", "active": true}}',
        "row {n} imported",
    ],
)
def test_items_that_differ_by_their_numbers_are_a_batch(result: str) -> None:
    """Fetching item after item is work, also where only numbers differ."""
    memory: dict[str, object] = {}
    actions = set()
    for n in range(60):
        args = {"topic": f"topic {n}"}
        step = Step(tool="look", args=args, result=result.format(n=n))
        verdict, memory = decide(Policy(), memory, Turn(steps=(step,)))
        actions.add(verdict.action)

    assert actions == {"continue"}

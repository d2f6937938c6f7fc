from __future__ import annotations

from typing import Any

from loopguard_lg import Policy, Step, Turn, decide


def decided(*steps: Step) -> list[tuple[str, bool]]:
    """The action and the progress of each of these turns."""
    memory: dict[str, Any] = {}
    out = []
    for step in steps:
        verdict, memory = decide(Policy(), memory, Turn(steps=(step,)))
        out.append((verdict.action, verdict.progress))
    return out


EMPTY = Step(tool="search", args={"query": "x"}, result="no results")
WRITE = Step(tool="write", args={"path": "n", "text": "z"}, result="wrote 1 bytes to n")


def test_a_write_before_a_loop_does_not_delay_it() -> None:
    """The third equal call after a change is the third one."""
    assert [action for action, _ in decided(WRITE, EMPTY, EMPTY, EMPTY)] == [
        *["continue"] * 3,
        "reflect",
    ]


def test_an_empty_result_is_no_progress() -> None:
    """It is neither new nor old, also right after a change."""
    assert [progress for _, progress in decided(EMPTY)] == [False]
    assert [progress for _, progress in decided(WRITE, EMPTY)][1] is False

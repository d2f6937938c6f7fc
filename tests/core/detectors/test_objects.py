from __future__ import annotations

from typing import Any

import pytest

from loopguard_lg import Policy, Step, Turn, decide


def acts(tool: str, args: list[dict[str, Any]], result: str) -> set[str]:
    """What is done over calls of one tool with these arguments."""
    memory: dict[str, Any] = {}
    out = set()
    for given in args:
        step = Step(tool=tool, args=given, result=result)
        verdict, memory = decide(Policy(), memory, Turn(steps=(step,)))
        out.add(verdict.action)
    return out


@pytest.mark.parametrize("key", ["request_id", "trace_id", "call_id", "explanation"])
def test_an_id_may_be_what_a_call_is_about(key: str) -> None:
    """Request after request is approved: each is another one."""
    args = [{key: str(n), "decision": "yes"} for n in range(12)]

    assert acts("approve", args, "approved") == {"continue"}


def test_an_id_that_is_drawn_at_random_is_noise() -> None:
    """The same search with a new id each time is the same search."""
    ids = [f"{n * 2654435761 % 2**32:08x}-4bbb-{n:06x}" for n in range(6)]
    args = [{"query": "x", "request_id": drawn} for drawn in ids]

    assert "reflect" in acts("search", args, "no results")


@pytest.mark.parametrize("folder", ["/tmp", "/data"])
def test_files_of_a_folder_are_a_batch(folder: str) -> None:
    """Also where the folder is for temporary files: their names tell them apart."""
    args = [{"path": f"{folder}/holiday{n}.png", "width": 100} for n in range(20)]

    assert acts("resize_image", args, "ok") == {"continue"}

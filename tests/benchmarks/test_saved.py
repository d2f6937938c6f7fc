"""What a replay says of steps saved and lost, on made runs."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.saved import Loops, Reached, costs, loops, lost, reached, table
from loopguard_lg import Policy
from loopguard_lg.analysis.labels import Label
from loopguard_lg.traces.model import from_dict


def recorded(*queries: str, success: bool | None = None) -> Any:
    """A run of searches that find nothing."""
    calls = [{"tool": "search", "args": {"q": q}, "result": "none"} for q in queries]
    steps = [{"i": i, "agent": "a", "calls": [c]} for i, c in enumerate(calls)]
    return from_dict({"id": "r", "source": "s", "success": success, "steps": steps})


def test_each_rung_is_taken_where_the_replay_takes_it() -> None:
    """Seven equal calls: told at the third, rerouted at the fourth, then the end."""
    run = reached(Policy(), recorded(*"aaaaaaa"))

    assert run.turns == tuple(range(7))
    assert run.rungs == {"reflect": 2, "escalate": 3, "exit": 5}
    assert [run.after(r, 2) for r in ("reflect", "escalate", "exit")] == [4, 3, 1]


def test_a_repeat_after_the_reflection_is_held() -> None:
    """It is asked for, and would not have been executed."""
    assert 3 in reached(Policy(), recorded(*"aaaa")).held


def test_turns_before_the_onset_are_not_saved() -> None:
    """Whoever acts too early saves no more than the loop."""
    run = Reached(id="r", turns=tuple(range(8)), rungs={"reflect": 1})

    assert run.after("reflect", 5) == 3
    assert run.after("exit", 5) == 0


def test_a_turn_is_saved_once() -> None:
    """A held call at which the run ends counts as held, those after it as ended."""
    found = Loops()
    run = Reached(id="r", turns=tuple(range(8)), held=(4, 5, 6), rungs={"exit": 5})
    found.add(run, 3)

    assert found.total == [5]
    assert found.saved["exit or held"] == [2 + 2]


@pytest.mark.parametrize("loop", [False, "unclear"])
def test_only_loops_with_an_onset_are_counted(loop: Any) -> None:
    """The others have no turns that could be saved."""
    run = reached(Policy(), recorded(*"aaaa"))
    by_id = {"r": Label(loop=loop)}

    assert loops([run], by_id)["all"].total == []


def test_the_tables_name_sources_kinds_and_runs_that_were_ended() -> None:
    """A run that went well and would have been ended is named with its label."""
    run = reached(Policy(), recorded(*"aaaaaaa", success=True))
    labels = {"r": Label(loop=True, kind="repeat", onset=2, reason="seven times")}
    lines = [*table(loops([run], labels)), *costs([run]), *lost([run], labels)]

    assert [line.split()[0] for line in lines if line.split()[0] in ("s", "kind:")]
    assert "80.0%" in lines[1]
    assert lines[-1].startswith("ended: r after turn 5 of 7; label: loop True")

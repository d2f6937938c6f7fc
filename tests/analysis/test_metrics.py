from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from loopguard_lg import Budget, Policy
from loopguard_lg.analysis import metrics
from loopguard_lg.analysis.labels import Label
from loopguard_lg.analysis.metrics import Group, groups, loops, stored
from loopguard_lg.errors import LoopGuardError
from loopguard_lg.traces.store import Store
from tests.analysis.made import circles, facts_of, run, works

V2, V3 = {"prompt": "2"}, {"prompt": "3", "tools": "1"}
FLEET = [
    works("a", 3, each={"cost": 0.1}, model="small", source="x"),
    works(
        "b", 5, each={"cost": 0.2}, model="big", source="x", versions={"prompt": "2"}
    ),
    circles("c", 6, each={"cost": 0.3}, model="small", source="y"),
    works("d", 2, success=False, model="small", versions=V3),
]


def all_of(*runs: dict[str, Any], **options: Any) -> Group:
    """The metrics of all runs together."""
    (group,) = groups(stored(facts_of(*runs), **options))
    return group


def values(group: Group) -> dict[str, float | None]:
    """The figures without their intervals."""
    return {key: found.value for key, found in group.metrics.items()}


def test_every_metric_is_what_a_hand_computes() -> None:
    """Four runs: one loops, two succeed in 3 and 5 steps, three say what they cost."""
    found = values(all_of(*FLEET))

    assert found == {
        "loop_rate": 1 / 4,
        "hard_cap_rate": 0,
        "success_rate": 2 / 4,
        "steps_p50": 3,
        "steps_p95": 5,
        "cost_per_resolved": pytest.approx((0.3 + 1.0 + 1.8) / 2),
        "wasted_steps": pytest.approx(5 / 16),
        "correct_exits": None,
    }


def test_a_run_that_ends_on_a_budget_is_capped() -> None:
    """Two of three runs have more steps than the policy allows."""
    runs = [works("a", 3), works("b", 6), works("c", 9)]
    policy = Policy(budget=Budget(steps=5))

    (group,) = groups(stored(facts_of(*runs, policy=policy)))

    assert group.metrics["hard_cap_rate"][:1] == (pytest.approx(2 / 3),)
    assert group.metrics["loop_rate"].value == 0


def test_an_exit_is_right_where_the_label_says_so() -> None:
    """Of runs that the guard would have left, those labelled clearly count."""
    runs = [circles(name, 12) for name in "abcd"] + [works("e")]
    labels = {
        "a": Label(loop=True),
        "b": Label(loop=False),
        "c": Label(loop="unclear"),
        "e": Label(loop=True),
    }

    found = all_of(*runs, labels=labels).metrics["correct_exits"]

    assert (found.value, found.n) == (0.5, 2)


def test_success_counts_where_it_is_known() -> None:
    """A run that nobody judged is a task, but neither success nor failure."""
    found = all_of(works("a"), works("b", success=None)).metrics

    assert (found["success_rate"].value, found["success_rate"].n) == (1, 1)
    assert found["loop_rate"].n == 2


def test_a_tool_has_its_own_part_of_a_run() -> None:
    """Its calls, its share of the cost, and the loop only where it is the one."""
    calls = [("read", 1, "page one of the book"), *[("search", "x", "no results")] * 4]
    store = stored(facts_of(run("a", *calls, each={"cost": 1}, success=True)))

    found = {group.name: group for group in groups(store, "tool")}

    assert set(found) == {"search", "read"}
    assert found["search"].metrics["loop_rate"].value == 1
    assert found["read"].metrics["loop_rate"].value == 0
    assert found["search"].metrics["wasted_steps"].value == 3 / 4
    assert found["read"].metrics["cost_per_resolved"].value == 1
    assert found["search"].steps == 4


def test_runs_are_grouped_by_model_version_and_source() -> None:
    """The largest group comes first; a run is in a group for each of its versions."""
    store = stored(facts_of(*FLEET))

    sizes = {
        by: {g.name: g.runs for g in groups(store, by)} for by in metrics.DIMENSIONS
    }

    assert sizes["model"] == {"small": 3, "big": 1}
    assert sizes["version"] == {"prompt 2": 1, "prompt 3": 1, "tools 1": 1}
    assert sizes["source"] == {"x": 2, "y": 1}
    assert sizes["agent"] == {"main": 4}
    assert [g.name for g in groups(store, "model")] == ["small", "big"]
    assert len(list(groups(store, "version", most=2))) == 2


def test_no_runs_make_no_group() -> None:
    """An empty store has nothing to say."""
    assert list(groups(stored([]))) == []


def test_loops_are_counted_by_day_where_it_is_known() -> None:
    """Kind, tool and model of the loop; no day where the run has no time."""
    when = "2026-03-01T23:30:00+00:00"
    store = stored(facts_of(circles("a", t0=when), circles("b", t0=when), circles("c")))

    assert loops(store, "kind") == [
        {"name": "repeat", "kind": "repeat", "day": "2026-03-01", "runs": 2},
        {"name": "repeat", "kind": "repeat", "day": None, "runs": 1},
    ]
    assert {row["name"] for row in loops(store, "model")} == {"(none)"}


def test_a_day_is_the_same_in_every_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Days are those of UTC, wherever the machine stands and the run says it began."""
    monkeypatch.setenv("TZ", "America/New_York")
    store = stored(facts_of(circles("a", t0="2026-03-02T01:30:00+01:00")))

    assert [row["day"] for row in loops(store, "kind")] == ["2026-03-02"]


def test_a_store_is_kept_as_parquet(tmp_path: Path) -> None:
    """What was saved and loaded has the same metrics."""
    store = stored(facts_of(*FLEET))
    store.save(tmp_path)

    again = Store().load(tmp_path)

    for by in metrics.DIMENSIONS:
        assert list(groups(again, by)) == list(groups(store, by))


def test_a_step_log_in_json_lines_is_read(tmp_path: Path) -> None:
    """The same columns, one object a line; what is missing is null."""
    rows = [{"run": 0, "i": i, "tool": "t", "repeat": i > 0} for i in range(4)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "steps.jsonl").write_text(lines)
    (tmp_path / "runs.jsonl").write_text('{"run": 0, "id": "a", "success": true}\n')

    (group,) = groups(Store().load(tmp_path))

    assert (group.steps, group.metrics["wasted_steps"].value) == (4, 0.75)


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A folder without the tables, or with other things in them, is one clear error."""
    with pytest.raises(LoopGuardError, match="has no runs.parquet"):
        Store().load(tmp_path)
    (tmp_path / "runs.jsonl").write_text("{")
    with pytest.raises(LoopGuardError, match="runs.jsonl: "):
        Store().load(tmp_path)


def test_the_figures_agree_with_pandas(tmp_path: Path) -> None:
    """The same from the bare recordings, computed another way."""
    runs = [works(f"w{i}", 2 + i % 7, each={"cost": i / 9}) for i in range(40)]
    runs += [circles(f"c{i}", 4 + i % 5, each={"cost": 0.5}) for i in range(25)]
    frame = pd.json_normalize(runs, "steps", ["id", "success"])
    frame["call"] = [json.dumps(c[0]["args"]) + c[0]["tool"] for c in frame["calls"]]
    frame["again"] = frame.duplicated(["id", "call"])
    by_run = frame.groupby("id").agg(
        ok=("success", "first"), n=("i", "size"), cost=("cost", "sum"),
        same=("again", "sum"), longest=("call", lambda c: c.value_counts().max()),
    )  # fmt: skip
    steps = by_run.loc[by_run.ok.astype(bool), "n"]

    found = values(all_of(*runs))

    assert found["loop_rate"] == (by_run.longest >= 3).mean()
    assert found["success_rate"] == by_run.ok.mean()
    assert found["steps_p50"] == steps.quantile(0.5, interpolation="lower")
    assert found["steps_p95"] == steps.quantile(0.95, interpolation="higher")
    assert found["wasted_steps"] == pytest.approx(by_run.same.sum() / by_run.n.sum())
    cost = by_run.cost.sum() / by_run.ok.sum()
    assert found["cost_per_resolved"] == pytest.approx(cost)

"""How a fleet of agents does: the metrics by group, each with its interval.

| metric | definition |
|---|---|
| `loop_rate` | tasks whose run trips a detector / tasks |
| `hard_cap_rate` | tasks that end on a budget / tasks |
| `success_rate` | tasks completed correctly / tasks of which that is known |
| `steps_p50`, `steps_p95` | quantiles of the steps of successful runs |
| `cost_per_resolved` | total spend / successful tasks, over runs whose cost is known |
| `wasted_steps` | steps that repeat an earlier (tool, args) pair or make no measurable progress / steps |
| `correct_exits` | escalations and exits with a right diagnosis / those that were judged |

A run is a task. In a group of agents, models or tools only its part counts: their own
steps, their own cost, and the loop only where they are in it.
"""  # noqa: E501  # a table's row is a line

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from loopguard_lg.analysis import intervals
from loopguard_lg.analysis.facts import RunFacts
from loopguard_lg.analysis.intervals import Estimate
from loopguard_lg.traces.store import RUNS, Store

if TYPE_CHECKING:
    from loopguard_lg.analysis.labels import Labels

Dimension: TypeAlias = Literal["all", "agent", "tool", "model", "version", "source"]
"""What runs can be grouped by."""

DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

NAMES = {
    "loop_rate": "Loop rate",
    "hard_cap_rate": "Hard-cap rate",
    "success_rate": "Success rate",
    "steps_p50": "Steps to success, p50",
    "steps_p95": "Steps to success, p95",
    "cost_per_resolved": "Cost per resolved task",
    "wasted_steps": "Wasted steps",
    "correct_exits": "Correct exits",
}
"""The metrics by key, as a person reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The metrics of some runs.

    Attributes:
        name: What they have in common; `all` for all.
        runs: How many they are.
        steps: Their tool calls.
        metrics: The estimates, by the keys of `NAMES`.
    """

    name: str
    runs: int
    steps: int
    metrics: Mapping[str, Estimate]

    def as_dict(self) -> dict[str, Any]:
        """The group for a machine to read."""
        figures = {key: found.as_dict() for key, found in self.metrics.items()}
        return {"name": self.name, "runs": self.runs, "steps": self.steps, **figures}


def stored(
    runs: Iterable[RunFacts], labels: Labels | None = None, store: Store | None = None
) -> Store:
    """The facts of runs in a store.

    Args:
        runs: The facts.
        labels: Which runs do go in circles: an exit from one of them is right.
        store: Where they go; a new one in memory if `None`.
    """
    known = labels or {}
    return (store or Store()).add(
        (tuple(_column(run, known, name) for name in RUNS), run.rows) for run in runs
    )


def _column(run: RunFacts, labels: Labels, name: str) -> Any:
    if name != "right":
        return getattr(run, name)
    label = labels.get(run.id)
    return label and label.loops


_PARTS = "count(tool) AS steps, count(*) FILTER (tool IS NOT NULL AND (repeat OR idle))"

# Nothing but our own words is put into these queries.
_OF_STEPS = f"""
  SELECT {{value}} AS name, run, {_PARTS} AS wasted,
    bool_or(loop) AS loops, sum(cost) AS cost
  FROM steps WHERE {{value}} IS NOT NULL GROUP BY ALL"""  # noqa: S608

_OF_RUNS = f"""
  SELECT {{value}} AS name, run, coalesce(s.steps, 0) AS steps,
    coalesce(s.wasted, 0) AS wasted, kind IS NOT NULL AS loops, cost
  FROM (SELECT *, {{more}} AS value FROM runs)
  LEFT JOIN (SELECT run, {_PARTS} AS wasted FROM steps GROUP BY run) s USING (run)
  WHERE {{value}} IS NOT NULL"""  # noqa: S608

_VERSION = "unnest(map_entries(versions))"

_MEMBERS: dict[Dimension, str] = {
    "all": _OF_RUNS.format(value="'all'", more="NULL"),
    "agent": _OF_STEPS.format(value="nullif(agent, '')"),
    "tool": _OF_STEPS.format(value="tool"),
    "model": _OF_STEPS.format(value="model"),
    "version": _OF_RUNS.format(value="value.key || ' ' || value.value", more=_VERSION),
    "source": _OF_RUNS.format(value="source", more="NULL"),
}

_GROUPS = """
WITH members AS ({members})
SELECT m.name, m.steps, m.wasted, r.success, m.cost,
  m.loops AND r.kind IS NOT NULL AS looped, coalesce(r.capped, false) AS capped,
  coalesce(r."left", false) AS "left", r."right"
FROM members m JOIN runs r USING (run) ORDER BY m.name, run
"""


def groups(store: Store, by: Dimension = "all", most: int = 50) -> Iterator[Group]:
    """The metrics of each group of runs, the largest first.

    Args:
        store: The runs.
        by: What they are grouped by; `version` has a group for each of `versions`.
        most: So many groups at most.
    """
    import numpy as np

    found = store.arrays(_GROUPS.format(members=_MEMBERS[by]))
    columns = {key: _plain(values) for key, values in found.items()}
    names = columns.pop("name")
    # The rows come by name: a group begins where the name changes.
    starts = np.flatnonzero(np.r_[len(names) > 0, names[1:] != names[:-1]])
    ends = zip(starts, [*starts[1:], len(names)], strict=False)
    for start, end in sorted(ends, key=lambda ends: ends[0] - ends[1])[:most]:
        part = {key: values[start:end] for key, values in columns.items()}
        yield _group(str(names[start]), part)


def _plain(values: Any) -> Any:
    """A column with NaN where nothing is known, so that it is one of numbers."""
    import numpy as np

    if values.dtype == object:
        return values
    return np.ma.filled(np.ma.asarray(values).astype(float), np.nan)


def _group(name: str, part: Mapping[str, Any]) -> Group:
    import numpy as np

    n = len(part["steps"])
    ok = part["success"] == 1
    known = ~np.isnan(part["success"])
    priced = ~np.isnan(part["cost"])
    judged = (part["left"] == 1) & (part["looped"] == 1) & ~np.isnan(part["right"])
    counted = part["steps"] > 0
    steps = part["steps"][ok]
    return Group(
        name=name,
        runs=n,
        steps=int(part["steps"].sum()),
        metrics={
            "loop_rate": intervals.share(int(part["looped"].sum()), n),
            "hard_cap_rate": intervals.share(int(part["capped"].sum()), n),
            "success_rate": intervals.share(int(ok.sum()), int(known.sum())),
            "steps_p50": intervals.quantile(steps, 0.5),
            "steps_p95": intervals.quantile(steps, 0.95),
            "cost_per_resolved": intervals.ratio(part["cost"][priced], ok[priced]),
            "wasted_steps": intervals.ratio(
                part["wasted"][counted], part["steps"][counted]
            ),
            "correct_exits": intervals.share(
                int((part["right"][judged] == 1).sum()), int(judged.sum())
            ),
        },
    )


_LOOPS = """
SELECT coalesce({value}, '(none)') AS name, kind, {day} AS day, count(*) AS runs
FROM runs WHERE kind IS NOT NULL GROUP BY ALL ORDER BY runs DESC, name, kind, day
"""


def loops(store: Store, by: Literal["kind", "tool", "model"]) -> list[dict[str, Any]]:
    """How many runs trip, by kind of loop, tool or model.

    Each has `name`, `kind`, `day` (null where no run says when it began) and `runs`.
    """
    day = "strftime(try_cast(t0 AS TIMESTAMPTZ), '%Y-%m-%d')"
    return list(store.ask(_LOOPS.format(value=by, day=day)))

"""What a report tells: metrics, loops, and the worst runs with their timelines."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice, zip_longest
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import orjson

from loopguard_lg.analysis import metrics
from loopguard_lg.analysis.causes import breakdown
from loopguard_lg.analysis.facts import RunFacts, facts
from loopguard_lg.analysis.metrics import DIMENSIONS, Dimension, Group
from loopguard_lg.analysis.timeline import Timeline, timeline
from loopguard_lg.policy import Policy
from loopguard_lg.traces.model import Trajectory, from_dict
from loopguard_lg.traces.store import Store

if TYPE_CHECKING:
    from loopguard_lg.analysis.labels import Labels

By: TypeAlias = Literal["kind", "tool", "model"]
"""What loops are counted by."""

Looked: TypeAlias = tuple[RunFacts, bytes | None]
"""The facts of a run, and the run itself where it may be one of the worst."""


_Entry: TypeAlias = tuple[int, int, RunFacts, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that a page shows.

    Attributes:
        groups: The metrics, by what runs are grouped by.
        loops: How many runs trip, by kind, tool and model, with the day.
        worst: The runs that wasted most, each with its facts.
        causes: Root causes that people name, of the loops among these runs.
        under: The policy's name, as it was given.
        made: When the report was made.
        unreadable: What could not be read.
    """

    groups: Mapping[Dimension, Sequence[Group]]
    loops: Mapping[By, Sequence[Mapping[str, Any]]]
    worst: Sequence[tuple[RunFacts, Timeline]]
    causes: Sequence[Mapping[str, Any]] = ()
    under: str = ""
    made: str = ""
    unreadable: Sequence[str] = ()

    @property
    def all(self) -> Group | None:
        """The metrics of all runs; `None` where there are none."""
        return next(iter(self.groups["all"]), None)

    def as_dict(self) -> dict[str, Any]:
        """The figures for a machine to read."""
        return {
            "runs": self.all.runs if self.all else 0,
            "policy": self.under,
            "made": self.made,
            "metrics": {
                by: [g.as_dict() for g in self.groups[by]] for by in DIMENSIONS
            },
            "loops": {by: list(rows) for by, rows in self.loops.items()},
            "causes": list(self.causes),
            "worst": [_told(run) for run, _ in self.worst],
            "unreadable": list(self.unreadable),
        }


def _told(run: RunFacts) -> dict[str, Any]:
    known = {"id": run.id, "kind": run.kind, "step": run.step, "steps": run.steps}
    return {**known, "wasted": run.wasted, "success": run.success}


def look(policy: Policy, run: Trajectory) -> Looked:
    """What a report needs of one run."""
    found = facts(policy, run)
    tripped = found.looped or found.capped
    return found, orjson.dumps(run.as_dict()) if tripped else None


class Worst:
    """The runs that wasted most steps, so many of each kind of loop.

    Args:
        most: How many are kept of a kind, and shown in all.
    """

    def __init__(self, most: int = 12) -> None:
        self._most = most
        self._order = count()
        self._kept: dict[str, list[tuple[int, int, RunFacts, bytes]]] = defaultdict(
            list
        )

    def watch(self, runs: Iterable[Looked]) -> Iterator[RunFacts]:
        """The facts of `runs`; the worst of them are kept."""
        for found, data in runs:
            if data is not None and self._most:
                self._keep(found, data)
            yield found

    def _keep(self, found: RunFacts, data: bytes) -> None:
        kept = self._kept[found.kind or "budget"]
        # Of equals the first one stays: the count falls as runs come.
        heapq.heappush(kept, (found.wasted, -next(self._order), found, data))
        if len(kept) > self._most:
            heapq.heappop(kept)

    def runs(self) -> list[tuple[RunFacts, Trajectory]]:
        """The worst of each kind first, then the second of each, ..."""
        kinds = [sorted(kept, reverse=True) for kept in self._kept.values()]
        # One kind that is wasteful everywhere would else fill the page.
        kinds.sort(key=lambda kept: -kept[0][0])
        ranks = chain.from_iterable(zip_longest(*kinds))
        best = islice((entry for entry in ranks if entry is not None), self._most)
        return [(found, from_dict(orjson.loads(data))) for _, _, found, data in best]


def gather(
    policy: Policy,
    runs: Iterable[Looked],
    *,
    labels: Labels | None = None,
    worst: int = 12,
    store: Store | None = None,
    **about: Any,
) -> Report:
    """The report of runs.

    Args:
        policy: Under which they were looked at.
        runs: What `look` gave for each.
        labels: What a person says of them.
        worst: How many runs are shown one by one.
        store: Where their facts go; in memory if `None`.
        **about: `under`, `made`, `unreadable`.
    """
    heap = Worst(worst)
    held = metrics.stored(heap.watch(runs), labels, store)
    return Report(
        groups={by: tuple(metrics.groups(held, by)) for by in DIMENSIONS},
        loops={by: metrics.loops(held, by) for by in get_args(By)},
        worst=[(found, timeline(policy, run)) for found, run in heap.runs()],
        causes=_causes(held, labels or {}),
        **about,
    )


def _causes(store: Store, labels: Labels) -> list[dict[str, Any]]:
    """The root causes of labelled loops, of runs that are there."""
    if not labels:
        return []
    names = [row["id"] for row in store.ask("SELECT DISTINCT id FROM runs")]
    return breakdown({name: labels[name] for name in names if name in labels})

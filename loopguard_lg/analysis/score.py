"""How right the verdicts are: outcomes of replay against labels given by hand."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from loopguard_lg.analysis.labels import KINDS, Label, Labels
from loopguard_lg.analysis.replay import Outcome


@dataclass(slots=True)
class Confusion:
    """Loops and honest runs, tripped and not."""

    tp: int = 0
    fp: int = 0
    fn: int = 0
    tn: int = 0

    def add(self, loop: bool, tripped: bool) -> None:
        """Count one run."""
        if loop:
            self.tp, self.fn = self.tp + tripped, self.fn + (not tripped)
        else:
            self.fp, self.tn = self.fp + tripped, self.tn + (not tripped)

    @property
    def precision(self) -> float | None:
        """Share of the tripped runs that are loops; `None` where nothing tripped."""
        return _share(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> float | None:
        """Share of the loops that tripped; `None` where there is no loop."""
        return _share(self.tp, self.tp + self.fn)

    @property
    def f1(self) -> float | None:
        """Harmonic mean of both; `None` where there is neither."""
        return _share(2 * self.tp, 2 * self.tp + self.fp + self.fn)

    def as_dict(self) -> dict[str, Any]:
        """The figures, with what they are made of."""
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "tp": self.tp,
            "fp": self.fp,
            "fn": self.fn,
            "tn": self.tn,
        }


@dataclass(slots=True)
class Group:
    """The figures of one source, or of everything."""

    confusion: Confusion = field(default_factory=Confusion)
    delays: list[int] = field(default_factory=list)
    successes: int = 0
    false_trips: int = 0

    def add(self, outcome: Outcome, label: Label | None) -> None:
        """Count one run; one without a label counts only if it was a success."""
        if outcome.success:
            self.successes += 1
            self.false_trips += outcome.tripped
        if label is None or label.loops is None:
            return
        self.confusion.add(label.loops, outcome.tripped)
        if label.loops and outcome.step is not None and label.onset is not None:
            self.delays.append(outcome.step - label.onset)

    def as_dict(self) -> dict[str, Any]:
        """The figures as `loopguard score --json` prints them."""
        counts = self.confusion
        return {
            **counts.as_dict(),
            "false_trip_rate": _share(self.false_trips, self.successes),
            "delay_p50": median(self.delays) if self.delays else None,
            "delay_p90": _p90(self.delays),
            "n_loop": counts.tp + counts.fn,
            "n_ok": counts.fp + counts.tn,
            "n_success": self.successes,
        }


def score(outcomes: Iterable[Outcome], labels: Labels) -> dict[str, Any]:
    """All figures as `loopguard score --json` prints them.

    Per kind, a loop belongs to the kind of its label, whatever it tripped as, and a
    false trip to the kind that it tripped as. The false-trip rate is over all runs
    with `success: true`, labelled or not. A delay is negative where the guard would
    have acted before the onset. `unmatched` lists labels without a run.
    """
    total = Group()
    sources: dict[str, Group] = defaultdict(Group)
    kinds: dict[str, Confusion] = defaultdict(Confusion)
    errors: list[dict[str, Any]] = []
    seen: set[str] = set()
    for outcome in outcomes:
        label = labels.get(outcome.id)
        seen.add(outcome.id)
        total.add(outcome, label)
        sources[outcome.source or ""].add(outcome, label)
        if label is not None and label.loops is not None:
            _count_kind(kinds, outcome, label)
            errors.extend(_error(outcome, label))
    measured = {kind for kind, counts in kinds.items() if counts.recall is not None}
    return {
        **total.as_dict(),
        "by_kind": _told(kinds),
        "by_source": _told(sources),
        "unmeasured": [k for k in KINDS if k not in measured and k != "other"],
        "errors": errors,
        "unmatched": sorted(labels.keys() - seen),
    }


def _told(groups: Mapping[str, Confusion | Group]) -> dict[str, Any]:
    return {name: groups[name].as_dict() for name in sorted(groups)}


def _count_kind(kinds: dict[str, Confusion], outcome: Outcome, label: Label) -> None:
    kind = label.kind if label.loop else outcome.kind
    if label.loop or outcome.tripped:
        kinds[kind or "other"].add(bool(label.loop), outcome.tripped)


def _error(outcome: Outcome, label: Label) -> Iterator[dict[str, Any]]:
    if label.loop == outcome.tripped:
        return
    yield {
        "id": outcome.id,
        "error": "missed" if label.loop else "false_trip",
        "kind": label.kind if label.loop else outcome.kind,
        "step": outcome.step,
        "onset_step": label.onset,
        "detail": outcome.detail,
        "reason": label.reason,
    }


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _p90(values: list[int]) -> int | None:
    """The smallest value that nine of ten do not pass."""
    return sorted(values)[math.ceil(0.9 * len(values)) - 1] if values else None

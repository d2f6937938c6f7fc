"""Do the detectors' thresholds carry over to runs that they were not chosen on?

Splits labelled recordings in halves by their ids. On one half the thresholds with the
best F1 are chosen from a small grid around the defaults; the other half says how good
they are on runs they have not seen. Both directions, and the defaults beside them.

    python benchmarks/crossval.py RECORDINGS_DIR LABELS.jsonl
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from loopguard_lg.detectors import (
    DEFAULTS,
    Churn,
    Detector,
    NearRepeat,
    Oscillation,
    RecurringError,
    Repeat,
)
from loopguard_lg.history import History
from loopguard_lg.steps import Compaction, Event, Human, Step, Turn

GRID = {
    "repeat": (2, 3, 4),
    "near_repeat": (3, 4, 6),
    "recurring_error": (2, 3, 4),
    "churn": (4, 5, 7),
    "oscillation": (2, 3, 4),
}
"""Thresholds to choose from; the default is the one in the middle."""

Choice = tuple[int, ...]


def detectors(choice: Choice) -> tuple[Detector, ...]:
    """The default detectors with other thresholds."""
    repeat, near, error, churn, laps = choice
    changed: tuple[Detector, ...] = (
        Repeat(times=repeat),
        NearRepeat(times=near),
        RecurringError(times=error),
        Churn(steps=churn),
        Oscillation(laps=laps),
    )
    by_kind = {detector.kind: detector for detector in changed}
    return tuple(by_kind.get(detector.kind, detector) for detector in DEFAULTS)


def event(step: dict[str, Any]) -> Event:
    """One step of a recording as an event."""
    if step.get("event") == "compaction":
        return Compaction(i=step["i"])
    if step["agent"] == "user":
        return Human(text=step.get("text") or "", i=step["i"])
    calls = tuple(
        Step(
            tool=call["tool"],
            args=call["args"],
            result=call.get("result") or "",
            error=call.get("error"),
            state=call.get("state"),
            changed_state=call.get("changed_state"),
        )
        for call in step["calls"]
    )
    text = step.get("text") or ""
    return Turn(agent=step["agent"], text=text, steps=calls, i=step["i"])


def runs(folder: Path, wanted: set[str]) -> Iterator[tuple[str, list[Event]]]:
    """The wanted recordings of a folder."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            for line in lines:
                run = json.loads(line)
                if run["id"] in wanted:
                    yield run["id"], [event(step) for step in run["steps"]]


def trips(events: Sequence[Event], chosen: Sequence[Detector]) -> bool:
    """Does any detector find something?"""
    history = History()
    for one in events:
        history = history.push(one)
        if any(detector.observe(history) for detector in chosen):
            return True
    return False


def score(
    truth: dict[str, bool], found: dict[str, bool], ids: set[str]
) -> Sequence[float]:
    """Precision, recall and F1 on some of the runs."""
    hit = sum(truth[i] and found[i] for i in ids)
    precision = hit / max(1, sum(found[i] for i in ids))
    recall = hit / max(1, sum(truth[i] for i in ids))
    return precision, recall, 2 * precision * recall / max(1e-9, precision + recall)


def main() -> None:
    """Choose on one half, print on the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("labels", type=Path)
    args = parser.parse_args()
    labels = map(json.loads, args.labels.read_text().splitlines())
    truth = {row["id"]: row["loop"] for row in labels if row["loop"] in (True, False)}
    recorded = dict(runs(args.folder, set(truth)))
    default: Choice = tuple(values[1] for values in GRID.values())
    found = {
        choice: {i: trips(run, detectors(choice)) for i, run in recorded.items()}
        for choice in itertools.product(*GRID.values())
        if sum(a != b for a, b in zip(choice, default, strict=True)) <= 2
    }
    odd = {i for i in recorded if sha256(i.encode()).digest()[0] % 2}
    for name, train, test in (
        ("even -> odd", set(recorded) - odd, odd),
        ("odd -> even", odd, set(recorded) - odd),
    ):
        best = max(
            found, key=lambda c: (score(truth, found[c], train)[2], c == default)
        )
        for what, choice in (("chosen", best), ("default", default)):
            told = dict(zip(GRID, choice, strict=True))
            here, there = (score(truth, found[choice], s) for s in (train, test))
            print(
                f"{name} {what:8} {told}\n"
                f"    seen   P {here[0]:.3f} R {here[1]:.3f} F1 {here[2]:.3f}\n"
                f"    unseen P {there[0]:.3f} R {there[1]:.3f} F1 {there[2]:.3f}"
            )


if __name__ == "__main__":
    main()

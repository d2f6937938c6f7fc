"""Steps that the guard saves in loops, and that it costs runs that went well.

    python benchmarks/saved.py RECORDINGS/*.jsonl.gz --labels RECORDINGS/labels.jsonl

A recording goes on as it was, whatever the guard decides, so that it can be said where
a rung would have stepped in, and not what the agent would have done then. Of the turns
from a loop's onset on, those *after* the turn at which a rung steps in are counted, for
each rung apart:

* `at once`: the guard would have stepped in at the onset itself; nothing can save more.
* `reflect`: the model would have been told; saved if it listens.
* `escalate`: what followed would have been made by another model, from another point.
* `exit`: the run would have been over. This needs nobody's obedience.
* `exit or held`: or the turn's call would not have been executed, as it repeats what
  the ladder holds; its reply is still paid for.

In a run that went well, the turns after a rung are at stake (`reflect`, `escalate`), or
lost for certain (`exit`). Intervals are bootstraps over runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from loopguard_lg import Policy
from loopguard_lg.admission import admit
from loopguard_lg.analysis.intervals import Estimate, ratio
from loopguard_lg.analysis.labels import Label, read_labels
from loopguard_lg.analysis.replay import judged, map_runs
from loopguard_lg.errors import TraceFormatError
from loopguard_lg.memory import Memory
from loopguard_lg.steps import Turn
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import lines

RUNGS = ("reflect", "escalate", "exit")
COLUMNS = ("at once", "reflect", "escalate", "exit or held", "exit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How far up the ladder a recorded run would have come, and when.

    Attributes:
        id: Of the run.
        source: Where it is from.
        success: Did its task succeed.
        turns: The `i` of each reply, in order.
        held: The `i` of the replies with a call that would not have been executed.
        rungs: The `i` of the reply after which each rung was first taken.
    """

    id: str
    source: str = ""
    success: bool | None = None
    turns: tuple[int, ...] = ()
    held: tuple[int, ...] = ()
    rungs: Mapping[str, int] = field(default_factory=dict)

    def after(self, rung: str, onset: int | None = None) -> int:
        """The turns after a rung was taken, those before the onset left out."""
        at = self.rungs.get(rung)
        return 0 if at is None else self.since(max(at + 1, onset or 0))

    def since(self, i: int) -> int:
        """The turns from `i` on."""
        return sum(turn >= i for turn in self.turns)


def reached(policy: Policy, run: Trajectory) -> Reached:
    """How far up the ladder of a policy a recorded run would have come."""
    turns: list[int] = []
    held: list[int] = []
    rungs: dict[str, int] = {}
    memory: Memory = {}
    for event, verdict, after in judged(policy, run):
        i = verdict.i if event.i is None else event.i
        if isinstance(event, Turn):
            turns.append(i)
            held += [i] * _is_held(policy, memory, event)
        if verdict.action != "continue":
            rungs.setdefault(verdict.action, i)
        memory = after
    return Reached(
        id=run.id,
        source=run.source or "",
        success=run.success,
        turns=tuple(turns),
        held=tuple(held),
        rungs=rungs,
    )


def _is_held(policy: Policy, memory: Memory, turn: Turn) -> bool:
    asked = ((step.tool, step.args) for step in turn.steps)
    return bool(memory) and any(admit(policy, memory, *call) for call in asked)


@dataclass(slots=True)
class Loops:
    """Turns of labelled loops from their onset on, and those after each rung."""

    total: list[int] = field(default_factory=list)
    all: list[int] = field(default_factory=list)
    """All turns of the runs, those before the onset included."""
    saved: dict[str, list[int]] = field(default_factory=dict)

    def add(self, run: Reached, onset: int) -> None:
        """Count one run."""
        self.all.append(len(run.turns))
        self.total.append(run.since(onset))
        self.saved.setdefault("at once", []).append(run.since(onset + 1))
        for rung in RUNGS:
            self.saved.setdefault(rung, []).append(run.after(rung, onset))
        held = sum(i >= onset for i in run.held if i <= run.rungs.get("exit", i))
        self.saved.setdefault("exit or held", []).append(
            held + run.after("exit", onset)
        )


def loops(runs: Iterable[Reached], labels: Mapping[str, Label]) -> dict[str, Loops]:
    """The labelled loops: all of them, by source, and by kind."""
    found: dict[str, Loops] = {"all": Loops()}
    for run in runs:
        label = labels.get(run.id)
        if label is None or label.loop is not True or label.onset is None:
            continue
        for name in ("all", run.source, f"kind: {label.kind}"):
            found.setdefault(name, Loops()).add(run, label.onset)
    return dict(sorted(found.items(), key=lambda pair: pair[0].startswith("kind")))


def percent(figure: Estimate) -> str:
    """A share with its interval."""
    if figure.value is None:
        return "-"
    ends = (figure.low, figure.high)
    low, high = ("?" if end is None else f"{100 * end:.1f}" for end in ends)
    return f"{100 * figure.value:.1f}% [{low}, {high}]"


def table(found: Mapping[str, Loops]) -> Iterator[str]:
    """What is saved in loops, line by line."""
    yield f"{'loops':24}{'runs':>5}{'turns':>7}" + "".join(f"{c:>21}" for c in COLUMNS)
    for name, group in found.items():
        yield f"{name:24}{len(group.total):>5}{sum(group.total):>7}" + "".join(
            f"{percent(ratio(group.saved[c], group.total)):>21}" for c in COLUMNS
        )


def costs(runs: Sequence[Reached]) -> Iterator[str]:
    """What runs that went well would lose, line by line."""
    sources = ["all", *sorted({run.source for run in runs})]
    yield f"{'went well':24}{'runs':>5}{'turns':>7}" + "".join(
        f"{rung:>24}{'in':>5}" for rung in RUNGS
    )
    for name in sources:
        own = [run for run in runs if name in ("all", run.source)]
        turns = [len(run.turns) for run in own]
        yield f"{name:24}{len(own):>5}{sum(turns):>7}" + "".join(
            f"{percent(ratio([run.after(rung) for run in own], turns)):>24}"
            f"{sum(rung in run.rungs for run in own):>5}"
            for rung in RUNGS
        )


def lost(runs: Iterable[Reached], labels: Mapping[str, Label]) -> Iterator[str]:
    """The runs that went well and would have been ended, by name."""
    for run in runs:
        if "exit" in run.rungs:
            label = labels.get(run.id)
            said = f"label: loop {label.loop}, {label.reason}" if label else "no label"
            yield (
                f"ended: {run.id} after turn {run.rungs['exit']} of "
                f"{len(run.turns)}; {said}"
            )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    labels = read_labels(args.labels)
    source: Any = (line for path in args.paths for line in lines(str(path)))
    every = map_runs(partial(reached, Policy()), source, args.jobs)
    runs = [run for run in every if not isinstance(run, TraceFormatError)]
    found = loops(runs, labels)
    total = found["all"]
    print(f"after the onset: {percent(ratio(total.total, total.all))} of the turns\n")
    well = [run for run in runs if run.success]
    print(*table(found), "", *costs(well), "", *lost(well, labels), sep="\n")


if __name__ == "__main__":
    main()

"""What the recorded runs say of loops and of honest work, as the simulator needs it.

    python -m benchmarks.recovery.fit RECORDINGS/*.gz --labels RECORDINGS/labels.jsonl

prints it, and beside it the same of simulated unguarded runs; `--write` keeps it in
`fitted.json`, so that the simulator runs without the recordings.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

from loopguard_lg.analysis.labels import Label, read_labels
from loopguard_lg.digests import call_digest
from loopguard_lg.steps import Turn
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import read

FITTED = Path(__file__).parent / "fitted.json"
ALIKE = 0.8
"""Share of calls that come again after a period, from which on it counts as one."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A recorded loop.

    Attributes:
        kind: In which way it went in circles.
        onset: Turns before the one at which one would say so.
        since: Turns from that one to the end of the run.
        period: Turns after which the calls come again; 0 where they do not.
        success: The task succeeded in the end.
    """

    kind: str
    onset: int
    since: int
    period: int
    success: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What the simulator draws from.

    Attributes:
        loops: The loops; each is as likely as the others.
        honest: Turns of honest runs that succeeded, by source, at 21 quantiles.
    """

    loops: tuple[Loop, ...]
    honest: Mapping[str, Sequence[float]]


def loop_of(run: Trajectory, label: Label) -> Loop:
    """A labelled run as a loop."""
    turns = [event for event in run.events if isinstance(event, Turn)]
    at = sum((turn.i or 0) < (label.onset or 0) for turn in turns)
    return Loop(
        kind=label.kind or "other",
        onset=at,
        since=len(turns) - at,
        period=period(turns[max(0, at - 2) :]),
        success=bool(run.success),
    )


def period(turns: Sequence[Turn]) -> int:
    """The least number of turns after which most calls come again; 0 for none."""
    calls = [[call_digest(s.tool, s.args) for s in turn.steps] for turn in turns]
    for lag in range(1, 7):
        pairs = [*zip(calls, calls[lag:], strict=False)]
        alike = sum(a == b and bool(a) for a, b in pairs)
        if len(pairs) > 1 and alike >= ALIKE * len(pairs):
            return lag
    return 0


def fitted(paths: Sequence[Path], labels: Mapping[str, Label]) -> Fitted:
    """What the runs of some files say."""
    loops: list[Loop] = []
    honest: dict[str, list[int]] = {}
    for path in paths:
        for run in read(path):
            if not isinstance(run, Trajectory):
                continue
            label = labels.get(run.id)
            if label is not None and label.loop is True and label.onset is not None:
                loops.append(loop_of(run, label))
            elif run.success and (label is None or label.loop is False):
                turns = sum(isinstance(event, Turn) for event in run.events)
                honest.setdefault(run.source or "", []).append(turns)
    cuts = {name: _quantiles(lengths) for name, lengths in sorted(honest.items())}
    return Fitted(loops=tuple(loops), honest=cuts)


def _quantiles(values: Sequence[float]) -> list[float]:
    inner = quantiles(values, n=20, method="inclusive") if len(values) > 1 else []
    return [float(min(values)), *inner, float(max(values))]


def load() -> Fitted:
    """What was kept in `fitted.json`."""
    data = json.loads(FITTED.read_text())
    loops = tuple(Loop(*row) for row in data["loops"])
    return Fitted(loops=loops, honest=data["honest"])


def kept(found: Fitted) -> str:
    """The contents of `fitted.json`."""
    rows = [json.dumps([*asdict(loop).values()]) for loop in found.loops]
    cuts = [f'  "{name}": {json.dumps([*c])}' for name, c in found.honest.items()]
    loops, honest = ",\n  ".join(rows), ",\n".join(cuts)
    return f'{{"loops": [\n  {loops}],\n "honest": {{\n{honest}}}}}\n'


def shares(values: Sequence[Any], of: Sequence[Any]) -> str:
    """How large a share of some values is each of these."""
    counts = Counter(values)
    return "  ".join(f"{v} {100 * counts[v] / max(1, len(values)):.0f}%" for v in of)


def spread(values: Sequence[float]) -> str:
    """Quartiles and the tenth part at both ends."""
    if len(values) < 2:
        return "-"
    cuts = quantiles(values, n=20, method="inclusive")
    return " ".join(f"{cuts[n]:6.1f}" for n in (1, 4, 9, 14, 17))


def compared(real: Fitted, made: Fitted) -> Iterator[str]:
    """Recorded and simulated side by side, line by line."""
    kinds = sorted({loop.kind for loop in real.loops})
    both = (("recorded", real), ("simulated", made))
    for what in ("kind", "period", "onset", "since", "success"):
        for name, one in both:
            values = [getattr(loop, what) for loop in one.loops]
            yield f"{name:10} {what:8} {_told(what, values, kinds)}"
    for name, one in both:
        for source, cuts in one.honest.items():
            yield f"{name:10} honest   {source:20} {spread(cuts)}"


def _told(what: str, values: Sequence[Any], kinds: Sequence[str]) -> str:
    """How one thing is distributed."""
    if what in ("onset", "since"):
        return f"p10 p25 p50 p75 p90: {spread(values)}"
    every = {"kind": kinds, "period": range(7), "success": (True, False)}
    return shares(values, every[what])


def main() -> None:
    """Print the fit, and keep it."""
    from benchmarks.recovery.population import unguarded

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("--labels", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seeds", type=int, default=400)
    args = parser.parse_args()
    found = fitted(args.paths, read_labels(args.labels)) if args.paths else load()
    if args.write:
        FITTED.write_text(kept(found))
    print(*compared(found, unguarded(found, range(args.seeds))), sep="\n")


if __name__ == "__main__":
    main()

"""What budgets ought to be: from what successful runs have used.

A cap at the 99th percentile cuts about one good run in a hundred, and a loop long
before the default. With `max_false_stop` the line carries a guarantee instead, by split
conformal prediction (see `stop_line`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from loopguard_lg.analysis import intervals
from loopguard_lg.analysis.facts import RunFacts
from loopguard_lg.analysis.intervals import Estimate
from loopguard_lg.analysis.told import Told

ENOUGH = 100
"""Successful runs below which a 99th percentile is a guess."""

Q = 0.99
"""The quantile of a cap without a guarantee."""

LIMITS = ("steps", "model_calls", "tool_calls", "total_tokens", "seconds", "usd")
"""The limits of `Budget` that are calibrated, where the runs say what they used."""

_WHOLE = frozenset(LIMITS) - {"seconds", "usd"}

_COUNTED = frozenset({"steps", "model_calls", "tool_calls"})
"""Limits that every recording tells; where one is missing it was not used."""

_HARD = 0.5
"""A task is hard if at most this share of its runs succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut(Told):
    """How many successful runs a cap would have cut short."""

    cut: int
    of: int

    def __str__(self) -> str:
        return f"{self.cut} of {self.of}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap(Told):
    """One limit, with its evidence.

    Attributes:
        limit: Its name in `Budget`.
        cap: What it ought to be: the first amount that is not allowed any more.
        line: The quantile it is made of, with its interval.
        cuts: The successful runs that it would have cut: `all`, `hard`, `long`.
    """

    limit: str
    cap: float
    line: Estimate
    cuts: Mapping[str, Cut]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(Told):
    """Budgets, and what they rest on.

    Attributes:
        model: The model of the runs, where it is one.
        runs: Successful runs.
        of: All runs.
        max_false_stop: The guarantee asked for, if any.
        caps: A cap for each limit that the runs say something of.
        warnings: What is to be known before the caps are used.
    """

    model: str | None
    runs: int
    of: int
    max_false_stop: float | None = None
    caps: tuple[Cap, ...]
    warnings: tuple[str, ...] = ()


def stop_line(values: Sequence[float], false_stops: float) -> float:
    """The line that a further good run passes with at most this probability.

    It is the k-th smallest of `n` values, k = ceil((n + 1)(1 - false_stops)); infinite
    where k > n, that is for n < (1 - false_stops) / false_stops. Holds for any
    distribution, as long as the new run is exchangeable with those measured (same kind
    of tasks, same agent), on average over all samples. Source: V. Vovk, A. Gammerman,
    G. Shafer, Algorithmic Learning in a Random World (2005); J. Lei et al.,
    Distribution-free predictive inference for regression, JASA 113 (2018), split form.
    """
    n = len(values)
    # Rounded first: 100 * 0.99 is not quite 99 in binary.
    k = math.ceil(round((n + 1) * (1 - false_stops), 9))
    return sorted(values)[k - 1] if k <= n else math.inf


def needed(false_stops: float) -> int:
    """How many good runs a line with that guarantee takes at least."""
    return math.ceil(round((1 - false_stops) / false_stops, 9))


def calibrate(
    runs: Sequence[RunFacts], max_false_stop: float | None = None
) -> Calibration:
    """Budgets from recorded runs.

    Args:
        runs: All of them: failed ones tell which tasks are hard.
        max_false_stop: The probability that a good run may be stopped with, by all caps
            together: each of m caps gets an m-th of it (Bonferroni). Runs that a budget
            had ended, and that nobody calls failures, count as if they had gone on for
            ever: a mistaken stop can only raise the line.
    """
    good = [run for run in runs if run.success]
    known = _known(good)
    # The chances that each cap stops a good run add up at the most (Bonferroni).
    share = max_false_stop and max_false_stop / max(1, len(known))
    kinds = _kinds(runs, good)
    stopped = _stopped(runs)
    lines = {limit: _line(limit, good, stopped, share) for limit in known}
    caps = [_cap(limit, line, kinds) for limit, line in lines.items() if line]
    lacking = [limit for limit, line in lines.items() if line is None]
    models = sorted(set(filter(None, (run.model for run in good))))
    return Calibration(
        caps=tuple(caps),
        model=models[0] if len(models) == 1 else None,
        runs=len(good),
        of=len(runs),
        max_false_stop=max_false_stop,
        warnings=tuple(_warnings(good, models, caps, lacking, share)),
    )


def _stopped(runs: Iterable[RunFacts]) -> int:
    """Runs that a budget ended, and that nobody calls failures."""
    return sum(run.capped and run.success is None for run in runs)


def _known(runs: Iterable[RunFacts]) -> list[str]:
    """The limits that any of the runs has used something of."""
    used = {limit for run in runs for limit, amount in run.used.items() if amount}
    return [limit for limit in LIMITS if limit in used]


def _line(
    limit: str, good: Sequence[RunFacts], stopped: int, share: float | None
) -> Estimate | None:
    values = [amount for run in good if (amount := _used(run, limit)) is not None]
    if share is None:
        return intervals.quantile_bootstrap(values, Q)
    line = stop_line([*values, *[math.inf] * stopped], share)
    return Estimate(line, None, None, len(values)) if math.isfinite(line) else None


def _cap(limit: str, line: Estimate, kinds: Mapping[str, Sequence[RunFacts]]) -> Cap:
    cap = _above(limit, line.value or 0)
    cuts = {}
    for name, runs in kinds.items():
        known = [used for run in runs if (used := _used(run, limit)) is not None]
        cuts[name] = Cut(cut=sum(used >= cap for used in known), of=len(known))
    return Cap(limit=limit, cap=cap, line=line, cuts=cuts)


def _used(run: RunFacts, limit: str) -> float | None:
    """What a run used of a limit; `None` where it does not say."""
    return run.used.get(limit, 0 if limit in _COUNTED else None)


def _above(limit: str, line: float) -> float:
    """The cap under which a run that uses just as much is not cut: a budget is out when
    what is spent reaches it.
    """
    if limit in _WHOLE:
        return math.floor(line) + 1
    digits = 3 - math.ceil(math.log10(line)) if line > 0 else 0
    step = 10.0**-digits
    above = math.floor(line / step) + 1
    cap = round(above * step, max(digits, 0))
    return cap if cap > line else round((above + 1) * step, max(digits, 0))


def _kinds(
    runs: Sequence[RunFacts], good: Sequence[RunFacts]
) -> dict[str, Sequence[RunFacts]]:
    """The successful runs: all, those of hard tasks, and the longest quarter."""
    hard = _hard_tasks(runs)
    upper = intervals.quantile([run.steps for run in good], 0.75).value or 0
    return {
        "all": good,
        "hard": [run for run in good if (run.source, run.task) in hard],
        "long": [run for run in good if run.steps >= upper],
    }


def _hard_tasks(runs: Iterable[RunFacts]) -> set[Any]:
    """Tasks with several runs, of which few succeed."""
    outcomes: dict[Any, list[bool]] = defaultdict(list)
    for run in runs:
        if run.task and run.success is not None:
            outcomes[run.source, run.task].append(run.success)
    several = {task: known for task, known in outcomes.items() if len(known) > 1}
    return {task for task, known in several.items() if fmean(known) <= _HARD}


def _warnings(
    good: Sequence[RunFacts],
    models: Sequence[str],
    caps: Sequence[Cap],
    lacking: Sequence[str],
    share: float | None,
) -> Iterator[str]:
    if len(good) < ENOUGH:
        yield (
            f"only {len(good)} successful runs: with fewer than {ENOUGH}, a 99th "
            "percentile is a guess"
        )
    few = [cap.limit for cap in caps if cap.line.n < min(ENOUGH, len(good))]
    if few:
        names = ", ".join(few)
        yield f"fewer than {ENOUGH} successful runs say what they used of {names}"
    if len(models) > 1:
        names = ", ".join(models[:5])
        yield f"the runs are of {len(models)} models ({names}): calibrate each"
    if lacking and share is not None:
        yield (
            f"no line for {', '.join(lacking)}: a guarantee of {share:.3g} for each "
            f"takes at least {needed(share)} good runs that no budget had stopped"
        )


def of_model(runs: Iterable[RunFacts], model: str | None) -> list[RunFacts]:
    """The runs of one model, or all."""
    return [run for run in runs if model in (None, run.model)]

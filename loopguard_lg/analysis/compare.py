"""Did it get worse? Two sets of runs against each other, as a gate for CI.

Tasks that both sets have are compared with themselves, which takes out how hard they
are; where few are in common, the sets are compared as they are. Each figure comes with
the interval and the test that fit (see `intervals`). What is beyond its margin fails.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, Literal, TypeAlias

from loopguard_lg.analysis import intervals
from loopguard_lg.analysis.blame import Cause, causes
from loopguard_lg.analysis.facts import RunFacts
from loopguard_lg.analysis.intervals import Estimate
from loopguard_lg.analysis.told import Told

Runs: TypeAlias = Sequence[RunFacts]
Figure: TypeAlias = Literal["loop rate", "hard caps", "success", "steps", "cost"]

_PAIRED = 0.5
"""Share of the smaller set's tasks that both must have to be compared task by task."""

_TINY = 1e-9
"""What rounding may add to a difference of exactly the margin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Margins:
    """How much worse each figure may get.

    Attributes:
        loops: Rise of the loop rate, in shares of all runs.
        caps: Rise of the share that ends on a budget.
        success: Drop of the success rate.
        steps: Rise of the steps of successful runs, as a share of what they were.
        cost: Rise of the cost of a run, likewise.
        chance: Fail only where the test gives chance less than this; 1: always.
    """

    loops: float = 0.02
    caps: float = 0.02
    success: float = 0.0
    steps: float = 0.1
    cost: float = 0.1
    chance: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Told):
    """One figure before and after.

    Attributes:
        figure: Which one.
        before: What it was; `None` where nothing says.
        after: What it is.
        difference: After minus before, with its interval.
        p: How likely so large a difference is by chance alone.
        test: The test that says so.
        margin: How much worse it may get, in the figure's own unit.
        worse: It is worse by more than that.
    """

    figure: Figure
    before: float | None
    after: float | None
    difference: Estimate
    p: float
    test: str
    margin: float
    worse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Told):
    """The changes in some of the tasks.

    Attributes:
        name: Which tasks: `all`, or `long`.
        paired: They are compared task by task.
        runs: How many runs there are, before and after.
        left_out: Runs of tasks that only one set has, where tasks are paired.
        changes: What became of each figure.
    """

    name: str
    paired: bool
    runs: tuple[int, int]
    left_out: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Told):
    """What became of a set of runs.

    Attributes:
        long: So many steps make a task long.
        slices: The changes in all tasks, and in those that are long for good reason.
        causes: What may be behind it, the likeliest first.
    """

    long: int
    slices: tuple[Slice, ...]
    causes: tuple[Cause, ...]

    @property
    def regressed(self) -> bool:
        """Is a figure worse by more than its margin?"""
        return any(change.worse for part in self.slices for change in part.changes)

    def as_dict(self) -> dict[str, Any]:
        """The comparison for a machine to read."""
        # A dataclass with slots is not the class that a bare `super()` looks for.
        return {"regressed": self.regressed, **Told.as_dict(self)}


def compare(
    base: Runs,
    current: Runs,
    margins: Margins | None = None,
    *,
    long: int | None = None,
) -> Comparison:
    """What became of the runs in `base`.

    Args:
        base: The runs before.
        current: The runs after.
        margins: How much worse it may get.
        long: So many steps make a task long; by default a quarter of those that
            succeed in `base` have as many, at least five. Such tasks need their
            steps: a guard that is too eager, or a cap too low, shows there first.
    """
    margins = margins or Margins()
    least = long or _long(base)
    parts = {"all": (base, current)}
    if all(some := _long_tasks(base, current, least)):
        parts["long"] = some
    slices = tuple(_slice(name, *runs, margins) for name, runs in parts.items())
    worse = ((part.name, c.figure) for part in slices for c in part.changes if c.worse)
    where, figure = next(worse, _USUAL)
    found = causes(*parts[where], partial(_harm, figure))
    return Comparison(slices=slices, long=least, causes=tuple(found))


def _task(run: RunFacts) -> tuple[str | None, str]:
    return run.source, run.task or run.id


def _long_tasks(base: Runs, current: Runs, least: int) -> tuple[Runs, Runs]:
    """The runs, before and after, of tasks that are long for good reason.

    These are tasks that a run of either set did in so many steps: if only `base` said
    which they are, those that it solved by luck would make `current` look worse. Where
    a task is in one set alone, its own steps say whether it is long.
    """
    runs = (*base, *current)
    tasks = {_task(run) for run in runs if run.success and run.steps >= least}
    common = {_task(run) for run in base} & {_task(run) for run in current}

    def is_long(run: RunFacts) -> bool:
        task = _task(run)
        return task in tasks if task in common else run.steps >= least

    return [*filter(is_long, base)], [*filter(is_long, current)]


def _long(runs: Runs) -> int:
    steps = [run.steps for run in runs if run.success]
    upper = intervals.quantile(steps, 0.75).value
    return max(5, int(upper or 0))


def _success(run: RunFacts) -> float | None:
    return None if run.success is None else float(run.success)


def _steps(run: RunFacts) -> float | None:
    return float(run.steps) if run.success else None


_VALUES: dict[Figure, Callable[[RunFacts], float | None]] = {
    "loop rate": lambda run: float(run.looped),
    "hard caps": lambda run: float(run.capped),
    "success": _success,
    "steps": _steps,
    "cost": lambda run: run.cost,
}
"""What a run says of each figure; `None` for nothing."""

_SHARES = frozenset({"loop rate", "hard caps", "success"})


_USUAL: tuple[str, Figure] = ("all", "loop rate")
"""Where no figure is worse: the slice and the figure that causes are told by."""


def _harm(figure: Figure, run: RunFacts) -> float | None:
    """How bad a run is by a figure."""
    value = _VALUES[figure](run)
    return -value if figure == "success" and value is not None else value


def _slice(name: str, base: Runs, current: Runs, margins: Margins) -> Slice:
    tasks = [{_task(run) for run in runs} for runs in (base, current)]
    common = tasks[0] & tasks[1]
    # Few common tasks would speak for sets that are mostly something else.
    paired = len(common) >= max(1.0, _PAIRED * min(map(len, tasks)))
    left = sum(_task(run) not in common for run in (*base, *current))
    return Slice(
        name=name,
        paired=paired,
        runs=(len(base), len(current)),
        left_out=left if paired else 0,
        changes=tuple(
            _judged(figure, margins, *_changed(figure, base, current, paired))
            for figure in _VALUES
        ),
    )


_Found: TypeAlias = tuple[Sequence[float], Sequence[float], Estimate, float, str]


def _changed(figure: Figure, base: Runs, current: Runs, paired: bool) -> _Found:
    """The values before and after, their difference, its p-value, and the test."""
    value = _VALUES[figure]
    if paired:
        before, after, single = _pairs(_by_task(base, value), _by_task(current, value))
        if figure in _SHARES and single:
            return before, after, *intervals.pairs_differ(before, after), "McNemar"
        test = intervals.paired_amounts_differ
        return before, after, *test(before, after), "Wilcoxon, paired"
    before, after = [*_known(base, value)], [*_known(current, value)]
    if figure in _SHARES:
        counts = int(sum(before)), len(before), int(sum(after)), len(after)
        return before, after, *intervals.shares_differ(*counts), "Fisher"
    return before, after, *intervals.amounts_differ(before, after), "Mann-Whitney"


def _known(runs: Runs, value: Callable[[RunFacts], float | None]) -> Iterator[float]:
    return (found for run in runs if (found := value(run)) is not None)


def _by_task(
    runs: Iterable[RunFacts], value: Callable[[RunFacts], float | None]
) -> dict[Any, list[float]]:
    found: dict[Any, list[float]] = defaultdict(list)
    for run in runs:
        known = value(run)
        if known is not None:
            found[_task(run)].append(known)
    return found


def _pairs(
    before: Mapping[Any, list[float]], after: Mapping[Any, list[float]]
) -> tuple[list[float], list[float], bool]:
    """The means by task of what both have; whether each is of a single run."""
    both = [task for task in before if task in after]
    single = all(len(before[task]) == len(after[task]) == 1 for task in both)
    pairs = [[fmean(side[task]) for task in both] for side in (before, after)]
    return pairs[0], pairs[1], single


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


_MARGINS: Mapping[Figure, str] = {
    "loop rate": "loops",
    "hard caps": "caps",
    "success": "success",
    "steps": "steps",
    "cost": "cost",
}
"""The margin of each figure in `Margins`."""


def _judged(
    figure: Figure,
    margins: Margins,
    before: Sequence[float],
    after: Sequence[float],
    difference: Estimate,
    p: float,
    test: str,
) -> Change:
    was, now = _mean(before), _mean(after)
    margin: float = getattr(margins, _MARGINS[figure])
    allowed = margin if figure in _SHARES else margin * (was or 0)
    risen = difference.value or 0.0
    harm = -risen if figure == "success" else risen
    likely = p < margins.chance or margins.chance >= 1
    return Change(
        figure=figure,
        before=was,
        after=now,
        difference=difference,
        p=p,
        test="" if difference.value is None else test,
        margin=allowed,
        worse=likely and harm > allowed + _TINY,
    )

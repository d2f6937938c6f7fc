"""How tools were used in recorded runs, as far as it tells of the tools themselves."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import NamedTuple

from loopguard_lg.acts import advisors
from loopguard_lg.analysis.replay import check
from loopguard_lg.digests import args_hash, result_hash
from loopguard_lg.policy import Policy
from loopguard_lg.progress import Outcome
from loopguard_lg.scratchpad import describe, quote
from loopguard_lg.steps import TEXT_LIMIT, Step, Turn
from loopguard_lg.traces.model import Trajectory

SHOWN = 3
"""Calls that are kept as evidence of one fault, and results of one length."""

LONG = 500
"""Characters from which on a result may have been cut."""

_HELPS = re.compile(
    r"\b(?:try|use|using|instead|must|should|expects?(?:ed)?|need(?:s|ed)?|require[sd]?"
    r"|available|valid|allowed|supported|one of|choose|provide|check|see|usage|example"
    r"|e\.g|did you mean|similar|closest|options?|first|retry|wait|at most|at least"
    r"|between|but|only|please|missing|line \d+)\b|:\d+",
    re.I,
)
"""Words by which an error names what to do, or where to look."""


class Evidence(NamedTuple):
    """A call in a recorded run that shows a fault."""

    run: str
    step: int
    text: str


@dataclass(slots=True)
class Fault:
    """How often something is wrong with a tool's results.

    Attributes:
        calls: So many calls show it.
        runs: In so many runs.
        loops: So many of these go in circles.
        shown: The first of the calls.
    """

    calls: int = 0
    runs: int = 0
    loops: int = 0
    shown: list[Evidence] = field(default_factory=list)

    def add(self, other: Fault) -> None:
        """Count what others have seen."""
        self.calls += other.calls
        self.runs += other.runs
        self.loops += other.loops
        self.shown += other.shown[: SHOWN - len(self.shown)]


@dataclass(slots=True)
class Cut:
    """The longest results of a tool, among those without a mark of a cut."""

    length: int = 0
    results: set[str] = field(default_factory=set)
    fault: Fault = field(default_factory=Fault)

    def add(self, other: Cut) -> None:
        """Keep the longer, or both where they are equal."""
        if other.length > self.length:
            self.length, self.results, self.fault = 0, set(), Fault()
        if other.length >= self.length:
            self.length = other.length
            self.results = set(sorted(self.results | other.results)[:SHOWN])
            self.fault.add(other.fault)


@dataclass(slots=True)
class ToolUse:
    """How one tool was used.

    Attributes:
        calls: How often.
        failed: So many calls failed, for no passing reason.
        mute: Of these, so many say nothing of what to do.
        blank: So many results are empty, without a word.
        cut: Results that may have been cut.
    """

    calls: int = 0
    failed: int = 0
    mute: Fault = field(default_factory=Fault)
    blank: Fault = field(default_factory=Fault)
    cut: Cut = field(default_factory=Cut)

    def add(self, other: ToolUse) -> None:
        """Count the use in other runs."""
        self.calls += other.calls
        self.failed += other.failed
        self.mute.add(other.mute)
        self.blank.add(other.blank)
        self.cut.add(other.cut)


@dataclass(slots=True)
class Uses:
    """How all tools were used.

    Attributes:
        runs: In how many runs.
        tools: The use of each.
        alike: Pairs of tools called with the same arguments in a run, in name order.
    """

    runs: int = 0
    tools: dict[str, ToolUse] = field(default_factory=lambda: defaultdict(ToolUse))
    alike: dict[tuple[str, str], Fault] = field(
        default_factory=lambda: defaultdict(Fault)
    )

    def add(self, other: Uses) -> None:
        """Count other runs."""
        self.runs += other.runs
        for tool, use in other.tools.items():
            self.tools[tool].add(use)
        for pair, fault in other.alike.items():
            self.alike[pair].add(fault)


def uses(runs: Iterable[Uses]) -> Uses:
    """The uses of tools in all runs."""
    total = Uses()
    for run in runs:
        total.add(run)
    return total


def look(policy: Policy, run: Trajectory) -> Uses:
    """The uses of tools in one run."""
    found, loops = Uses(runs=1), check(policy, run).tripped
    asked: dict[str, dict[str, int]] = defaultdict(dict)
    for i, step in _steps(run):
        use = found.tools[step.tool]
        use.calls += 1
        _read(use, step, partial(_one, run.id, i, step))
        if step.args:
            asked[args_hash(step.args)].setdefault(step.tool, i)
    for tools in asked.values():
        for a, b in combinations(sorted(tools), 2):
            text = f"{a} and {b} with the same arguments"
            shown = [Evidence(run.id, max(tools[a], tools[b]), text)]
            found.alike[a, b].add(Fault(1, 0, 0, shown))
    for fault in _faults(found):
        fault.runs, fault.loops = int(fault.calls > 0), int(fault.calls > 0 and loops)
    return found


def _faults(found: Uses) -> Iterator[Fault]:
    for use in found.tools.values():
        yield from (use.mute, use.blank, use.cut.fault)
    yield from found.alike.values()


def _steps(run: Trajectory) -> Iterator[tuple[int, Step]]:
    """Every call that was executed, with its position."""
    for event in run.events:
        for step in event.steps if isinstance(event, Turn) else ():
            if not (step.blocked or step.cached):
                yield event.i or 0, step


def _read(use: ToolUse, step: Step, one: Callable[[], Fault]) -> None:
    """Add a call to the use of its tool; `one` makes a fault of it."""
    result = advisors.result_of(step)
    text = result.text.strip()
    if _has_failed(result.outcome):
        use.failed += 1
        # What to do stands at the ends of an error; a traceback fills its middle.
        use.mute.add(Fault() if _HELPS.search(text[:1000] + text[-1000:]) else one())
    elif text in _BLANK and result.role not in ("plan", "exit", "wait"):
        use.blank.add(one())
    elif _may_be_cut(step) and advisors.cut_output(step, result, _NOTHING) is None:
        use.cut.add(_cut(step, one()))


def _cut(step: Step, fault: Fault) -> Cut:
    digest = step.result_hash or result_hash(step.result)
    return Cut(step.result_bytes or len(step.result), {digest}, fault)


def _one(run: str, i: int, step: Step) -> Fault:
    return Fault(1, 0, 0, [Evidence(run, i, _shown(step))])


def _has_failed(outcome: Outcome) -> bool:
    """Is it an error for no passing reason, and not a check that says so?"""
    return outcome.failed and outcome.ok is None and not outcome.transient


_BLANK = frozenset(("", "[]", "{}", "null", "None"))
_NOTHING = advisors.Facts()
_ENDS = tuple(".!?)]}>\"'`\n")
_TRIMMED = TEXT_LIMIT - 200
"""Characters from which on it may be the recording that was trimmed."""


def _may_be_cut(step: Step) -> bool:
    """Is a result long, whole in the recording, and without an end?"""
    text = step.result
    known = LONG <= len(text) < _TRIMMED or step.result_bytes
    return bool(known) and not text.endswith(_ENDS)


def _shown(step: Step) -> str:
    """A call and what came back, in one line."""
    came = quote(step.result, 120) or "nothing"
    return f"{describe(step.tool, step.args)} -> {came}"

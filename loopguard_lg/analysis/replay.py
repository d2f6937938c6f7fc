"""What the guard would have done with a recorded run.

Replay is observe-only: the recording goes on as it was, whatever the verdicts.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from loopguard_lg.engine import Verdict, decide
from loopguard_lg.errors import TraceFormatError
from loopguard_lg.findings import Finding
from loopguard_lg.memory import Memory
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Event
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import Line, parse

BATCH = 64
"""Runs that a worker process gets at a time; fewer are not worth a process."""

Source: TypeAlias = Iterable[Line | TraceFormatError]

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one replayed run.

    Attributes:
        id: Of the run.
        source: Where the run is from.
        success: Did its task succeed.
        length: Events of the run.
        step: The `i` at which the guard would first have acted; `None`: never.
        kind: The kind of finding it would have acted on, `budget` for a budget.
        count: How often it had happened by then.
        detail: What it was, for a person.
        findings: Every loop that was seen, acted on or not, where it was first seen.
    """

    id: str
    source: str | None = None
    success: bool | None = None
    length: int = 0
    step: int | None = None
    kind: str | None = None
    count: int | None = None
    detail: str | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def tripped(self) -> bool:
        """Would the guard have acted?"""
        return self.step is not None

    def as_dict(self) -> dict[str, Any]:
        """The outcome as `loopguard check --json` prints it."""
        return {
            "id": self.id,
            "tripped": self.tripped,
            "kind": self.kind,
            "step": self.step,
            "count": self.count,
            "detail": self.detail,
            "findings": [finding.as_dict() for finding in self.findings],
        }


def verdicts(policy: Policy, run: Trajectory) -> Iterator[tuple[Event, Verdict]]:
    """Every event of a run with what the guard decides on it."""
    for event, verdict, _ in judged(policy, run):
        yield event, verdict


def judged(policy: Policy, run: Trajectory) -> Iterator[tuple[Event, Verdict, Memory]]:
    """The same, with what the engine remembers after each event."""
    memory: Memory = {}
    for event in run.events:
        verdict, memory = decide(policy, memory, event)
        yield event, verdict, memory


def acted_on(verdict: Verdict) -> Finding | None:
    """The loop that the guard acts on; `None` where it does not, or for a budget."""
    acts = verdict.action != "continue" and not verdict.exceeded
    return verdict.finding if acts else None


def check(policy: Policy, run: Trajectory) -> Outcome:
    """Where the guard would first have acted in a run, and what it saw in all of it.

    What it takes grows with the run; the engine's memory does not. Each loop is in
    `findings` once, as it was first seen.
    """
    first: dict[str, Any] = {}
    seen: dict[tuple[str, int], Finding] = {}
    for _, verdict in verdicts(policy, run):
        for finding in verdict.findings:
            seen.setdefault((finding.kind, finding.key), finding)
        if not first:
            first = _trip(verdict)
    return Outcome(
        id=run.id,
        source=run.source,
        success=run.success,
        length=len(run.events),
        findings=tuple(seen.values()),
        **first,
    )


def _trip(verdict: Verdict) -> dict[str, Any]:
    if verdict.action == "continue":
        return {}
    finding = acted_on(verdict)
    if finding is None:
        return {"step": verdict.i, "kind": "budget", "detail": str(verdict.exceeded)}
    return {
        "step": verdict.i,
        "kind": finding.kind,
        "count": finding.count,
        "detail": finding.detail,
    }


def map_runs(
    look: Callable[[Trajectory], R], lines: Source, jobs: int = 1
) -> Iterator[R | TraceFormatError]:
    """`look` at the run of every line, in order; what can't be read comes as its error.

    Args:
        look: What to do with a run; with more than one job it has to pickle.
        lines: What `readers.lines` gives, of any number of files.
        jobs: Processes to share the work; they start with the second batch.
    """
    work = partial(_look_at_batch, look)
    batches = iter(partial(_batch, iter(lines)), [])
    first = next(batches, [])
    yield from work(first)
    results = map(work, batches) if jobs < 2 else _spread(work, batches, jobs)
    for batch in results:
        yield from batch


def _batch(lines: Iterator[Line | TraceFormatError]) -> list[Line | TraceFormatError]:
    return list(islice(lines, BATCH))


def _look_at_batch(
    look: Callable[[Trajectory], R], lines: Source
) -> list[R | TraceFormatError]:
    runs = map(parse, lines)
    return [r if isinstance(r, TraceFormatError) else look(r) for r in runs]


def _spread(work: Callable[[T], R], items: Iterable[T], jobs: int) -> Iterator[R]:
    """`map` in processes, in order, with a bounded number of items under way."""
    # Not forked: the caller may have threads (a progress bar).
    context = multiprocessing.get_context("spawn")
    waiting: deque[Future[R]] = deque()
    quiet = (signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to answer
    with ProcessPoolExecutor(jobs, context, signal.signal, quiet) as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            # Two batches a worker: the next one is at hand, and memory stays bounded.
            if len(waiting) > 2 * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

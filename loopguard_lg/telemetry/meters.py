"""Metrics of what the guard sees, with few labels, each of few values.

A task is what one word of a person's sets off. It is counted with its first turn, and
as tripped with the first finding that the guard acts on.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from opentelemetry.metrics import Meter

from loopguard_lg.hooks import GuardEvent
from loopguard_lg.steps import Human, Step, Turn
from loopguard_lg.telemetry import names

LABELS = 100
"""Names of agents, tools and models that are told apart, each."""

_TASKS = 10_000
"""Tasks that are known at a time; one that was forgotten is counted again."""


@dataclass(slots=True)
class _Task:
    """A task under way: what was counted of it."""

    model: str = ""
    begun: bool = False
    tripped: bool = False
    capped: bool = False


class Meters:
    """The instruments, and the tasks under way.

    Args:
        meter: What makes the instruments.
        labels: Names that are told apart; more are `names.OTHER`, as models make up
            names of tools.
    """

    def __init__(self, meter: Meter, labels: int = LABELS) -> None:
        counter, histogram = meter.create_counter, meter.create_histogram
        self._tasks = counter(names.TASKS, "{task}", "tasks that were begun")
        self._tripped = counter(
            names.TRIPPED, "{task}", "tasks that tripped a detector"
        )
        self._capped = counter(names.CAPPED, "{task}", "tasks that ended on a budget")
        self._steps = counter(names.STEPS, "{step}", "calls of tools")
        self._acts = counter(names.ACTS, "{act}", "what the guard saw or did")
        self._spent = counter(names.SPENT, "USD", "what models cost")
        self._tokens = histogram(names.TOKENS, "{token}", "tokens of a model call")
        self._latency = histogram(names.LATENCY, "s", "how long a call took")
        self._limit = labels
        self._known: dict[str, set[str]] = {}
        self._under_way: OrderedDict[tuple[str, str], _Task] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, event: GuardEvent) -> None:
        """Count one event."""
        with self._lock:
            task = self._task(event)
            agent = {"agent": self._label("agent", event.agent)}
            if event.name != "seen":
                self._act(event, task, agent)
            elif isinstance(event.event, Turn):
                self._turn(event.event, task, agent)

    def _task(self, event: GuardEvent) -> _Task:
        """The task that an event belongs to."""
        key = event.thread, event.agent
        word = isinstance(event.event, Human) and not event.event.answer
        if event.name == "seen" and word:
            self._under_way.pop(key, None)
        task = self._under_way.setdefault(key, _Task())
        self._under_way.move_to_end(key)
        if len(self._under_way) > _TASKS:
            self._under_way.popitem(last=False)
        return task

    def _label(self, of: str, value: str | None) -> str:
        """The value, or `names.OTHER` where too many are known already."""
        known = self._known.setdefault(of, set())
        if value and value not in known and len(known) >= self._limit:
            return names.OTHER
        known.add(value or "")
        return value or ""

    def _turn(self, turn: Turn, task: _Task, agent: dict[str, str]) -> None:
        task.model = self._label("model", turn.model) or task.model
        about = {**agent, "model": task.model}
        if not task.begun:
            task.begun = True
            self._tasks.add(1, about)
        if turn.cost:
            self._spent.add(turn.cost, about)
        told = {names.OPERATION: names.CHAT, names.MODEL: task.model}
        if turn.tokens is not None:
            for kind in ("input", "output"):
                count = getattr(turn.tokens, kind)
                self._tokens.record(count, {**told, names.TOKEN_TYPE: kind})
        if turn.seconds is not None:
            self._latency.record(turn.seconds, told)
        for step in turn.steps:
            self._step(step, about)

    def _step(self, step: Step, about: dict[str, str]) -> None:
        tool = self._label("tool", step.tool)
        failed = "true" if step.error else "false"
        self._steps.add(1, {**about, "tool": tool, "error": failed})
        if step.seconds is not None:
            told = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL: tool}
            self._latency.record(step.seconds, told)

    def _act(self, event: GuardEvent, task: _Task, agent: dict[str, str]) -> None:
        finding = event.verdict.finding
        kind = {"kind": finding.kind if finding else ""}
        self._acts.add(1, {**agent, **kind, "act": event.name})
        about: dict[str, Any] = {**agent, "model": task.model}
        if event.name == "detected" and finding and not task.tripped:
            task.tripped = True
            tool = self._label("tool", finding.tool)
            self._tripped.add(1, {**about, **kind, "tool": tool})
        if event.name == "exited" and event.verdict.exceeded and not task.capped:
            task.capped = True
            self._capped.add(1, about)

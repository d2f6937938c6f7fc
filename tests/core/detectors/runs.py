"""Small runs for the tests of detectors, and what comes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loopguard_lg.detectors import DEFAULTS, Detector, arbiter
from loopguard_lg.findings import Finding
from loopguard_lg.history import History
from loopguard_lg.steps import Event, Human, Role, Step, Touch, Turn
from loopguard_lg.tools import ToolPolicy


def call(
    tool: str,
    result: str = "",
    *,
    error: bool | None = None,
    role: Role | None = None,
    state: str | None = None,
    **args: Any,
) -> Step:
    """A call; keywords are its arguments."""
    return Step(
        tool=tool, args=args, result=result, error=error, role=role, state=state
    )


def turn(*steps: Step, text: str = "", agent: str = "agent") -> Turn:
    """A reply with these calls."""
    return Turn(steps=steps, text=text, agent=agent)


def does(tool: str, result: str = "", **options: Any) -> Turn:
    """A reply with one call."""
    return turn(call(tool, result, **options))


def at(t: float, event: Turn, *touched: Touch) -> Turn:
    """The reply at a time, with the changes of files that a watcher saw."""
    return replace(event, t=t, touched=touched)


def says(text: str, agent: str = "agent") -> Turn:
    """A reply without calls."""
    return turn(text=text, agent=agent)


def asks(text: str) -> Human:
    """A person speaks."""
    return Human(text=text)


def verdicts(
    events: Iterable[Event],
    detectors: Sequence[Detector] = DEFAULTS,
    tools: Mapping[str, ToolPolicy] | None = None,
    tests: Sequence[str] = (),
) -> list[Finding | None]:
    """The finding after each event."""
    history, found = History(), []
    for event in events:
        history = history.push(event, tools or {}, tests)
        seen = [f for d in detectors if (f := d.observe(history))]
        found.append(arbiter(seen, history))
    return found


def trip(events: Iterable[Event], **options: Any) -> tuple[int, str] | None:
    """Where the first finding is, and its kind."""
    for at, finding in enumerate(verdicts(events, **options)):
        if finding:
            return at, finding.kind
    return None

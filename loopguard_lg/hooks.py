"""Observers: who is told what the guard saw and did.

An observer is called with a `GuardEvent` after the fact. What it raises is logged and
swallowed: an observer can never break a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from loopguard_lg.engine import Verdict
from loopguard_lg.errors import PolicyError
from loopguard_lg.redaction.logs import (
    failures as failures,
    logger as logger,
    note_failure,
)
from loopguard_lg.steps import Event

Name: TypeAlias = Literal[
    "seen",
    "detected",
    "reflected",
    "escalated",
    "blocked",
    "asked",
    "exited",
    "recovered",
    "budget_warned",
    "faulted",
]
"""The closed list of events; `seen` is sent for every event fed to the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardEvent:
    """One thing that the guard saw or did.

    Attributes:
        name: What happened.
        thread: The thread, where there is one, else the run.
        agent: Who acts.
        event: What the engine was fed.
        verdict: What it decided.
        text: What was said to the model or the person.
    """

    name: Name
    thread: str
    agent: str
    event: Event | None
    verdict: Verdict
    text: str = ""


class Observer(Protocol):
    """Is told of every `GuardEvent`."""

    def __call__(self, event: GuardEvent, /) -> object:
        """Take note of `event`; its answer is ignored."""


def checked(observers: Iterable[Observer] | Observer) -> tuple[Observer, ...]:
    """The observers as a tuple; one may stand alone.

    Raises:
        PolicyError: One of them can't be called.
    """
    if not callable(observers) and not isinstance(observers, Iterable):
        raise PolicyError(f"observers={observers!r}: give callables in a list")
    found = (observers,) if callable(observers) else tuple(observers)
    for at, observer in enumerate(found):
        if not callable(observer):
            raise PolicyError(f"observers[{at}]={observer!r}: give a callable")
    return found


def notify(observers: Iterable[Observer], event: GuardEvent) -> None:
    """Tell every observer; what one raises does not reach the run: the first time is
    logged, and `failures` counts.
    """
    for observer in observers:
        try:
            observer(event)
        except Exception:
            note_failure(observer, f"an observer failed on {event.name}")

"""A small world with files, a job, a service that is down for a while, and letters.

    text, world = respond(world, call, now)

Pure: time comes in, and what happened is in the world that is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

FILES = {
    "docs/a.md": "first draft: see the report for figures",
    "docs/b.md": "second draft: see the report for figures",
    "docs/report.md": "the report: 17 sold, 4 returned",
}
JOB = 45.0
"""Seconds after which the job is finished."""

OUTAGE = 4.0
"""Seconds after its first call during which the service is down."""


@dataclass(frozen=True, slots=True)
class World:
    """What has happened.

    Attributes:
        letters: The letters that were sent, as (receiver, text).
        down: When the service was called first.
    """

    letters: tuple[tuple[str, str], ...] = ()
    down: float | None = None

    @property
    def doubled(self) -> int:
        """Letters that were sent more than once."""
        return len(self.letters) - len({*self.letters})


def respond(
    world: World, tool: str, args: Mapping[str, Any], now: float
) -> tuple[str, World]:
    """What comes of a call at a time."""
    return _TOOLS[tool](world, args, now)


def _search(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    found = "docs/report.md: the report" if args["query"] == "report" else "no results"
    return found, world


def _read(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    return FILES.get(args["path"], "Error: no such file"), world


def _send(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    letters = (*world.letters, (args["to"], args["text"]))
    return f"sent to {args['to']}", replace(world, letters=letters)


def _order(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    return f"ordered {args['count']} {args['item']}", world


def _job(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    return ("finished" if now >= JOB else "still running"), world


def _fetch(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    down = now if world.down is None else world.down
    world = replace(world, down=down)
    if now < down + OUTAGE:
        return "Error: 503 Service Unavailable", world
    return "the report: 17 sold, 4 returned", world


def _hand_over(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    return "handed over", world


_TOOLS: Mapping[str, Callable[[World, Mapping[str, Any], float], tuple[str, World]]] = {
    "search": _search,
    "read": _read,
    "send_mail": _send,
    "order": _order,
    "job_status": _job,
    "fetch": _fetch,
    "transfer_to_sales": _hand_over,
    "transfer_to_support": _hand_over,
}

"""A small world with files, a job, a service that is down for a while, and letters.

    text, world = respond(world, call, now)

Pure: time comes in, and what happened is in the world that is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

FILES = {
    "docs/a.md": "first draft: see the report for figures",
    "docs/b.md": "second draft: see the report for figures",
    "docs/report.md": "the report: 17 sold, 4 returned",
}
PARTS = "docs/part-"
"""How the paths of any number of files begin, each with words of its own."""

BUGS = ("total", "header", "order", "date")
"""What the tests of `src/report.py` find; an edit "fix NAME" mends one."""

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
        fixed: The bugs that were mended.
        slept: Seconds that its agent has waited.
    """

    letters: tuple[tuple[str, str], ...] = ()
    down: float | None = None
    fixed: tuple[str, ...] = ()
    slept: float = 0.0

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
    query: str = args["query"]
    if query.startswith(PARTS):
        return f"{query}: {_words(query)[:20]}", world
    return "docs/report.md: the report" if query == "report" else "no results", world


def _read(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    path: str = args["path"]
    if path.startswith(PARTS):
        return f"{path} says {_words(path)}", world
    return FILES.get(path, "Error: no such file"), world


def _words(text: str) -> str:
    """Words that no other text has."""
    digest = sha256(text.encode()).hexdigest()
    return " ".join(digest[n : n + 6] for n in range(0, 60, 6))


def _edit(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    known = args["text"].removeprefix("fix ")
    fixed = {*world.fixed, known} if known != args["text"] else world.fixed
    return f"edited {args['path']}", replace(world, fixed=tuple(sorted(fixed)))


def _check(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    left = [name for name in BUGS if name not in world.fixed]
    lines = [f"FAILED tests/test_report.py::test_{name}" for name in left]
    passed = len(BUGS) - len(left)
    failed = f"{len(left)} failed, " if left else ""
    return "\n".join([*lines, f"{failed}{passed} passed in 0.1s"]), world


def _todos(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    return f"Updated todo list to {args['todos']}", world


def _send(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    letters = (*world.letters, (args["to"], args["text"]))
    return f"sent to {args['to']}", replace(world, letters=letters)


def _order(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    return f"ordered {args['count']} {args['item']}", world


def _job(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    return ("finished" if now + world.slept >= JOB else "still running"), world


def _wait(world: World, args: Mapping[str, Any], now: float) -> tuple[str, World]:
    slept = world.slept + args["seconds"]
    return f"waited {args['seconds']} s", replace(world, slept=slept)


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
    "edit": _edit,
    "run_tests": _check,
    "write_todos": _todos,
    "send_mail": _send,
    "order": _order,
    "job_status": _job,
    "wait": _wait,
    "fetch": _fetch,
    "transfer_to_sales": _hand_over,
    "transfer_to_support": _hand_over,
}

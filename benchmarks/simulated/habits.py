"""What an agent with a bad habit does next: a pure function of what it sees.

    action, mind = act(agent, mind, seen, rng)

An agent has a plan that is right. At one step of it a habit makes it do something else,
again and again, until something frees it: a clue in a result, a word of a guard's that
it heeds, a warmer temperature, the lack of the tool, or a stronger model. What it keeps
in mind is plain data, so that a run can be stopped, copied and fitted to recorded ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Call:
    """A call that an agent makes."""

    tool: str
    args: Mapping[str, Any]


Action: TypeAlias = tuple[Call, ...]
"""The calls of one reply; none is the final answer."""

Mind: TypeAlias = Mapping[str, int]
"""`{"at": step of the plan, "times": how often the habit has struck, "free": whether it
is over, "habit": whether the last call was made by habit}`"""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a call, as the agent sees it."""

    call: Call
    text: str
    error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What an agent sees when it is its turn.

    Attributes:
        results: What came of its last calls.
        note: What a guard says to it, if anything.
        tools: The tools that it is offered.
        temperature: How warm it is.
        strong: It is a stronger model.
    """

    results: tuple[Result, ...] = ()
    note: str = ""
    tools: frozenset[str] = frozenset()
    temperature: float = 0.0
    strong: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent: its plan, and the habit that keeps it from it.

    Attributes:
        habit: A key of `HABITS`, or `honest`.
        plan: What is right, call by call.
        at: The step of the plan at which the habit strikes.
        heed: How likely a note or an answer of a guard's frees it.
        clue: How likely a result does that names what is right.
        ideas: How likely warmth does.
    """

    habit: str
    plan: tuple[Call, ...]
    at: int = 1
    heed: float = 0.5
    clue: float = 0.9
    ideas: float = 0.4


MARK = "[loop guard]"
"""By this an agent knows what a guard says in a result."""

BLOCKED = ("Not executed", "Made before", "Not made twice")


def act(agent: Agent, mind: Mind, seen: Seen, rng: Random) -> tuple[Action, Mind]:
    """What an agent does next, and what it keeps in mind.

    Args:
        agent: Who acts.
        mind: What it kept in mind; `{}` at the start of a run.
        seen: What it sees.
        rng: Chance; the same seed gives the same run.
    """
    at = mind.get("at", 0) + _moved(agent, mind, seen)
    if at >= len(agent.plan):
        return (), {**mind, "at": at, "habit": 0}
    right, times = agent.plan[at], mind.get("times", 0)
    wrong = None
    if at == agent.at and agent.habit in HABITS and not mind.get("free"):
        wrong = HABITS[agent.habit](right, times)
        if times and _is_freed(agent, wrong, right, seen, rng):
            wrong = None
    free = int(bool(mind.get("free")) or (at == agent.at and wrong is None))
    known = {"at": at, "times": times + (wrong is not None), "free": free}
    return (wrong or right,), {**known, "habit": int(wrong is not None)}


def _moved(agent: Agent, mind: Mind, seen: Seen) -> int:
    """One step of the plan, if the last call was the right one and has worked."""
    if mind.get("habit") or not seen.results or mind.get("at", 0) >= len(agent.plan):
        return 0
    last = seen.results[-1]
    own = last.text.partition(MARK)[0]
    vain = last.error or own.startswith(("Error", *BLOCKED)) or "running" in own
    return int(not vain)


def _is_freed(agent: Agent, wrong: Call, right: Call, seen: Seen, rng: Random) -> bool:
    """Whether something gets the agent out of its habit now."""
    if seen.strong or (wrong.tool not in seen.tools and seen.tools):
        return True
    text = "\n".join(result.text for result in seen.results)
    said = bool(seen.note) or MARK in text or any(word in text for word in BLOCKED)
    named = any(isinstance(v, str) and v in text for v in right.args.values())
    chances = (
        agent.clue * (said and named),
        agent.heed * said,
        agent.ideas * (seen.temperature >= 0.5),
    )
    return any(rng.random() < chance for chance in chances)


def _repeat(right: Call, times: int) -> Call:
    """The same vain search."""
    return Call("search", {"query": "the figures"})


def _oscillate(right: Call, times: int) -> Call:
    """One file, another one, the first one again."""
    return Call("read", {"path": ("docs/a.md", "docs/b.md")[times % 2]})


_WORDS = ("figures", "numbers", "sales figures", "data", "statistics", "results")


def _paraphrase(right: Call, times: int) -> Call:
    """The same vain search in other words."""
    return Call("search", {"query": f"{_WORDS[times % 6]} of {2010 + times // 6}"})


def _forget(right: Call, times: int) -> Call:
    """A file that it has read, as if its view had been cut."""
    return Call("read", {"path": "docs/a.md"})


def _ping_pong(right: Call, times: int) -> Call:
    """A hand-over to one colleague, and from that to the other."""
    name = ("sales", "support")[times % 2]
    return Call(f"transfer_to_{name}", {"reason": "this is for you"})


def _mistype(right: Call, times: int) -> Call:
    """The right call with an argument of a wrong type."""
    return Call(right.tool, {**right.args, "count": "some"})


def _wrong_path(right: Call, times: int) -> Call:
    """The right call with a path that is guessed."""
    return Call(right.tool, {"path": "docs/reports.md"})


def _unsure(right: Call, times: int) -> Call:
    """A letter that was sent is sent once more."""
    return Call("send_mail", {"to": "Ann", "text": "the report is coming"})


HABITS: Mapping[str, Callable[[Call, int], Call]] = {
    "repeat": _repeat,
    "oscillate": _oscillate,
    "paraphrase": _paraphrase,
    "forget": _forget,
    "ping_pong": _ping_pong,
    "mistype": _mistype,
    "wrong_path": _wrong_path,
    "unsure": _unsure,
}
"""What each habit makes of the right call, at the nth time."""


_LOOK = Call("search", {"query": "report"})
_READ = Call("read", {"path": "docs/report.md"})
_MAIL = Call("send_mail", {"to": "Bob", "text": "here it is"})
_ORDER = Call("order", {"item": "paper", "count": 2})
_POLL = Call("job_status", {"job": "7"})
_FETCH = Call("fetch", {"url": "https://example.com/report"})

PLANS: Mapping[str, tuple[Call, ...]] = {
    "mistype": (_LOOK, _ORDER, _MAIL),
    "poll": (_LOOK, _POLL, _MAIL),
    "outage": (_LOOK, _FETCH, _MAIL),
}
"""Plans of agents for whom the world itself is the trouble, or that order something."""

NAMES = (*HABITS, "poll", "outage", "honest")
"""All agents by habit: `poll` does not wait, `outage` meets one, `honest` has none."""


def agent_of(habit: str, **chances: float) -> Agent:
    """The agent with this habit; `chances` are those of `Agent`."""
    plan = PLANS.get(habit, (_LOOK, _READ, _MAIL))
    settings: dict[str, Any] = {"habit": habit, "plan": plan, **chances}
    return Agent(**settings)

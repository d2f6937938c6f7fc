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
"""Plain data:

    {"at": step of the plan, "times": how often the habit has struck,
     "free": whether it is over, "habit": whether the last call was made by habit,
     "waits": whether that only waited, "fell": how often it fell into another loop,
     "quit": it has answered without an end of the plan,
     "knows": whether it does as a stronger model, where it was asked as one}
"""


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
        relapse: How likely it falls into another loop where a word, warmth, or the lack
            of a tool has freed it from one.
        strong: How likely a stronger model knows what is right; drawn once a run.
        messy: How likely a call by habit is another vain one than the habit's own.
        patience: Calls by habit after which the loop ends by itself; `None`: never.
        sober: It then does what is right; else it answers with what it has.
    """

    habit: str
    plan: tuple[Call, ...]
    at: int = 1
    heed: float = 0.5
    clue: float = 0.9
    ideas: float = 0.4
    relapse: float = 0.0
    strong: float = 1.0
    messy: float = 0.0
    patience: int | None = None
    sober: bool = False


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
    known = {**mind, "at": at, "times": mind.get("times", 0)}
    if agent.habit == "honest" and any("running" in r.text for r in seen.results):
        return (Call("wait", {"seconds": 15}),), {**known, "waits": 1}
    if at != agent.at or agent.habit not in HABITS or mind.get("free"):
        rest = {"free": mind.get("free", 0), "habit": 0, "waits": 0}
        return (agent.plan[at],), {**known, **rest}
    return _by_habit(agent, known, seen, rng)


def _by_habit(
    agent: Agent, mind: dict[str, int], seen: Seen, rng: Random
) -> tuple[Action, Mind]:
    """What an agent does at the step at which its habit strikes."""
    right, times = agent.plan[mind["at"]], mind["times"]
    if agent.patience is not None and times >= agent.patience:
        if not agent.sober:
            return (), {**mind, "habit": 0, "quit": 1}
        return (right,), {**mind, "free": 1, "habit": 0}
    if seen.strong and "knows" not in mind and agent.strong < 1:
        mind["knows"] = int(rng.random() < agent.strong)
    wrong = _wrong(agent, mind, right, seen)
    freed = times and _freed(agent, mind, wrong, right, seen, rng)
    if freed == "fell":
        mind["fell"] = mind.get("fell", 0) + 1
        wrong = _elsewhere(mind["fell"], seen)
    elif freed:
        return (right,), {**mind, "free": 1, "habit": 0}
    if times and agent.messy > rng.random() and "search" in seen.tools:
        wrong = _paraphrase(right, times)
    return (wrong,), {**mind, "times": times + 1, "free": 0, "habit": 1}


def _wrong(agent: Agent, mind: Mind, right: Call, seen: Seen) -> Call:
    """The call that the agent's loop asks for next."""
    fell = mind.get("fell")
    return _elsewhere(fell, seen) if fell else HABITS[agent.habit](right, mind["times"])


def _elsewhere(number: int, seen: Seen) -> Call:
    """The call of another loop, with a tool that there is."""
    if "search" in seen.tools or not seen.tools:
        return Call("search", {"query": _WORDS[number % len(_WORDS)]})
    return Call("read", {"path": ("docs/a.md", "docs/b.md")[number % 2]})


def _moved(agent: Agent, mind: Mind, seen: Seen) -> int:
    """One step of the plan, if the last call was the right one and has worked."""
    if (
        mind.get("habit")
        or mind.get("waits")
        or not seen.results
        or mind.get("at", 0) >= len(agent.plan)
    ):
        return 0
    last = seen.results[-1]
    own = last.text.partition(MARK)[0]
    vain = last.error or own.startswith(("Error", *BLOCKED)) or "running" in own
    return int(not vain)


def _freed(
    agent: Agent, mind: Mind, wrong: Call, right: Call, seen: Seen, rng: Random
) -> str:
    """What becomes of an agent's loop now: nothing, it is "free", or it "fell" into
    another one.
    """
    if seen.strong and mind.get("knows", 1):
        return "free"
    text = "\n".join(result.text for result in seen.results)
    said = bool(seen.note) or MARK in text or any(word in text for word in BLOCKED)
    named = any(isinstance(v, str) and v in text for v in right.args.values())
    if agent.clue * (said and named) > rng.random():
        return "free"
    chances = (agent.heed * said, agent.ideas * (seen.temperature >= 0.5))
    barred = bool(seen.tools) and wrong.tool not in seen.tools
    if not barred and not any(chance > rng.random() for chance in chances):
        return ""
    return "fell" if agent.relapse > rng.random() else "free"


def _repeat(right: Call, times: int) -> Call:
    """The same vain search."""
    return Call("search", {"query": "the figures"})


def _oscillate(right: Call, times: int) -> Call:
    """One file, another one, the first one again."""
    return Call("read", {"path": ("docs/a.md", "docs/b.md")[times % 2]})


_WORDS = ("figures", "numbers", "sales figures", "data", "statistics", "results")
_OF = ("the shop", "the house", "us", "our trade", "the company", "the business")


def _paraphrase(right: Call, times: int) -> Call:
    """The same vain search in other words."""
    return Call("search", {"query": f"{_WORDS[times % 6]} of {_OF[times // 6 % 6]}"})


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


def _vain_edit(right: Call, times: int) -> Call:
    """Another guess at the same line, and the check that fails again."""
    if times % 2:
        return Call("run_tests", {})
    return Call("edit", {"path": "src/report.py", "text": f"total = {times}"})


def _plan_again(right: Call, times: int) -> Call:
    """The plan, worded anew, and none of it done."""
    return Call(
        "write_todos", {"todos": f"{_WORDS[times % 6]}, then {_OF[times // 6 % 6]}"}
    )


def _guess_paths(right: Call, times: int) -> Call:
    """One path after the other, none of which exists."""
    path = f"docs/{_WORDS[times % 6]} of {_OF[times // 6 % 6]}.md"
    return Call("read", {"path": path.replace(" ", "_")})


HABITS: Mapping[str, Callable[[Call, int], Call]] = {
    "repeat": _repeat,
    "oscillate": _oscillate,
    "paraphrase": _paraphrase,
    "forget": _forget,
    "ping_pong": _ping_pong,
    "mistype": _mistype,
    "wrong_path": _wrong_path,
    "unsure": _unsure,
    "vain_edit": _vain_edit,
    "plan_again": _plan_again,
    "guess_paths": _guess_paths,
}
"""What each habit makes of the right call, at the nth time."""


_LOOK = Call("search", {"query": "report"})
_READ = Call("read", {"path": "docs/report.md"})
_MAIL = Call("send_mail", {"to": "Bob", "text": "here it is"})
_ORDER = Call("order", {"item": "paper", "count": 2})
_POLL = Call("job_status", {"job": "7"})
_FETCH = Call("fetch", {"url": "https://example.com/report"})

PLANS: Mapping[str, tuple[Call, ...]] = {
    "usual": (_LOOK, _READ, _MAIL),
    "mistype": (_LOOK, _ORDER, _MAIL),
    "poll": (_LOOK, _POLL, _MAIL),
    "outage": (_LOOK, _FETCH, _MAIL),
}
"""The usual plan, and those for which the world itself, or an order, is the trouble."""

NAMES = (*HABITS, "poll", "outage", "honest")
"""All agents by habit: `poll` does not wait, `outage` meets one, `honest` has none."""


def agent_of(habit: str, **chances: float) -> Agent:
    """The agent with this habit; `chances` are those of `Agent`."""
    plan = PLANS.get(habit, PLANS["usual"])
    settings: dict[str, Any] = {"habit": habit, "plan": plan, **chances}
    return Agent(**settings)

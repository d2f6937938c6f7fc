"""Agents drawn as recorded loops and honest runs are, and how they react to a guard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

from benchmarks.recovery.fast import Host
from benchmarks.recovery.fit import Fitted, Loop, period
from benchmarks.simulated.habits import PLANS, Agent, Call
from benchmarks.simulated.world import BUGS, PARTS
from loopguard_lg import Policy
from loopguard_lg.steps import Step, Turn

LIMIT = 200
"""Model calls after which a simulated run is stopped; recorded ones have up to 129."""

MESSY = 0.35
"""How often another vain call comes in between in loops without a period."""

KINDS: Mapping[str, Sequence[str]] = {
    "repeat": ("repeat", "repeat", "forget", "unsure"),
    "recurring_error": ("guess_paths", "guess_paths", "wrong_path", "mistype"),
    "churn": ("paraphrase",),
    "oscillation": ("oscillate",),
    "ping_pong": ("ping_pong",),
    "failing_edits": ("vain_edit",),
    "planner": ("plan_again",),
}
"""The habits that make loops of each kind."""

REACTIONS: Mapping[str, Mapping[str, float]] = {
    "obeys, loops on": {"heed": 29 / 33, "relapse": 1.0, "strong": 0.3},
    "hardly obeys": {"heed": 3 / 55, "relapse": 1.0, "strong": 0.3},
    "as hoped": {"heed": 0.9, "relapse": 0.2, "clue": 0.9, "ideas": 0.4, "strong": 0.9},
}
"""How agents react. The first two are small models, of 1.5 and 0.5 billion weights, as
measured on ten tasks with one wording of the note: 29 of 33 notes and 3 of 55 changed
the next call, and none of them solved a task; the larger one solved 3 of 10 tasks from
the start. What was not measured, clues in results and warmth, counts for nothing there.
The third is a guess at what a large model does."""

_UNMEASURED = {"clue": 0.0, "ideas": 0.0}


def looping(found: Fitted, seed: int, **chances: float) -> Agent:
    """The agent of a seed, made after a recorded loop."""
    rng = Random(seed)
    loop = rng.choice(found.loops)
    habit = rng.choice(KINDS.get(loop.kind, ("repeat",)))
    # One would say that it goes in circles at the third call by habit.
    at = max(0, loop.onset - 2)
    steps = [*_parts(at), *PLANS.get(habit, PLANS["usual"])[1:]]
    settings: dict[str, Any] = {**_UNMEASURED, **chances}
    return Agent(
        habit=habit,
        plan=tuple(steps),
        at=at,
        patience=loop.onset - at + loop.since - (0 if loop.success else 1),
        sober=loop.success,
        messy=0.0 if loop.period else MESSY,
        **settings,
    )


def _parts(count: int, start: int = 0) -> list[Call]:
    """Different files, each with something new."""
    paths = (f"{PARTS}{start + n}.md" for n in range(count))
    return [Call("read", {"path": path}) for path in paths]


def honest(found: Fitted, seed: int) -> Agent:
    """The honest agent of a seed, about as long as a recorded run.

    Its plan is made of stretches of work that look like loops and are none: reading on,
    mending one thing after the other under the same check, looking twice, searches that
    find nothing, and at times a job that takes long.
    """
    rng = Random(seed)
    cuts = found.honest[rng.choice(sorted(found.honest))]
    wanted = max(2, round(rng.choice(cuts)))
    plan: list[Call] = []
    stretches = [_reading, _looking, _searching, _mending]
    while len(plan) < wanted:
        stretch = rng.choice(stretches)
        plan += stretch(rng, len(plan))
        if stretch is _mending:  # whoever has mended it all does not begin again
            stretches.remove(_mending)
    plan = plan[:wanted]
    if rng.random() < 0.1:
        plan.append(Call("job_status", {"job": "7"}))
    return Agent(habit="honest", plan=(*plan, Call("search", {"query": "report"})))


def _reading(rng: Random, start: int) -> list[Call]:
    return _parts(rng.randint(1, 6), start)


def _mending(rng: Random, start: int) -> list[Call]:
    """Edit and check, until the check passes: what is mended stays so."""
    check = Call("run_tests", {})
    fixes = (Call("edit", {"path": "src/report.py", "text": f"fix {b}"}) for b in BUGS)
    return [check, *(call for fix in fixes for call in (fix, check))]


def _looking(rng: Random, start: int) -> list[Call]:
    """A file is looked at, and again after the next ones."""
    first, *others = _parts(rng.randint(2, 4), start)
    return [first, *others, first]


def _searching(rng: Random, start: int) -> list[Call]:
    """Up to three searches find nothing, then one finds something."""
    words = rng.sample(("sales", "invoice", "returns", "annual figures"), 3)
    queries = [f"{word} {start}" for word in words[: rng.randint(1, 3)]]
    found = Call("search", {"query": f"{PARTS}{start}.md"})
    return [*(Call("search", {"query": q}) for q in queries), found, *_parts(1, start)]


def unguarded(found: Fitted, seeds: Iterable[int]) -> Fitted:
    """Simulated unguarded runs as if they were recorded ones, to compare the fit."""
    host = Host(Policy(observe_only=True), LIMIT)
    loops, turns = [], []
    for seed in seeds:
        agent, kind = looping(found, seed), Random(seed).choice(found.loops).kind
        run = host.run(agent, seed)
        calls = [Turn(steps=(Step(tool=c, args=a),)) for c, a in run.calls]
        onset = agent.at + 2
        lag = period(calls[agent.at :][: agent.patience or 0])
        loops.append(Loop(kind, onset, max(1, run.turns - onset), lag, run.done))
        turns.append(float(host.run(honest(found, seed), seed).turns))
    return Fitted(loops=tuple(loops), honest={"(simulated)": turns})

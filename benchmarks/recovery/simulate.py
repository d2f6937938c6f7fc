"""What the guard changes for simulated agents that loop as recorded ones do.

    python -m benchmarks.recovery.simulate [--seeds 1000] [--reaction "as hoped"]
        arms       the ladder, rung by rung, and acts one by one, paired by seed
        grid       the best of some thresholds
        heed       how much an agent must listen for a rung to pay off
        honest     runs without a loop that the guard would cost their success

Agents are drawn from `fitted.json`; about 100 runs a second on one core.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from tenacity import wait_exponential

from benchmarks.recovery.fast import Host
from benchmarks.recovery.fit import Fitted, load
from benchmarks.recovery.population import LIMIT, REACTIONS, honest, looping
from benchmarks.simulated.agents import CountedModel, Run, stronger
from loopguard_lg import Escalate, GiveUp, Ladder, Policy, Reflect, Repeat, ToolPolicy
from loopguard_lg.analysis.intervals import (
    Estimate,
    mean,
    paired_amounts_differ,
    pairs_differ,
)
from loopguard_lg.detectors import DEFAULTS, Churn, Detector, RecurringError
from loopguard_lg.policy import Act

ACTS: tuple[Act, ...] = get_args(Act)

TOOLS = {
    "read": ToolPolicy(role="read", cache=True),
    "search": ToolPolicy(role="read", cache=True),
    "send_mail": ToolPolicy(role="write", once=True),
    "job_status": ToolPolicy(role="poll", wait=wait_exponential(max=30)),
    "fetch": ToolPolicy(retry=True),
}

LIMITER = 25
"""Model calls of an agent that has nothing but a limit."""

UNGUARDED = Policy(observe_only=True)


def ladders(strong: CountedModel) -> Iterator[tuple[str, Policy]]:
    """The ladder without acts: whole, and with a rung left out or changed."""
    told, other, end = Reflect(), Escalate(model=strong), GiveUp()
    rungs: Mapping[str, Sequence[Any]] = {
        "whole ladder": (told, other, end),
        "reflect only": (told, end),
        "reflect twice": (told, told, end),
        "escalate only": (other, end),
        "exit only": (end,),
        "same model": (told, Escalate(), end),
        "two escalations": (told, other, other, end),
        "escalate first": (other, told, end),
    }
    for name, chosen in rungs.items():
        yield name, Policy(ladder=Ladder(*chosen), acts_off=ACTS)


def with_acts(strong: CountedModel) -> Iterator[tuple[str, Policy]]:
    """The whole ladder with all acts, and with one of them left out."""
    warm = Reflect(temperature=0.7, hide_tool=True)
    ladder = Ladder(warm, Escalate(model=strong), GiveUp())
    full = Policy(ladder=ladder, tools=TOOLS)
    yield "ladder and acts", full
    for act in ACTS:
        yield f"  without {act}", full.replace(acts_off=(act,))


class Trial:
    """Policies on the same agents, run by run.

    Args:
        found: What agents are drawn from.
        seeds: How many.
        chances: How they react.
    """

    def __init__(self, found: Fitted, seeds: int, chances: Mapping[str, float]) -> None:
        self.strong = stronger()
        self.agents = [looping(found, seed, **chances) for seed in range(seeds)]

    def runs(self, policy: Policy, limit: int = LIMIT) -> list[Run]:
        """The runs of all agents under a policy."""
        host = Host(policy, limit, self.strong)
        return [host.run(agent, seed) for seed, agent in enumerate(self.agents)]

    def right(self, runs: Sequence[Run]) -> list[bool]:
        """Whether each run was left where it should be: at its end, if it came to
        one, and by the guard where it never would have.
        """
        ends = zip(runs, self.agents, strict=True)
        return [bool(r.done or (r.told.get("exited") and not a.sober)) for r, a in ends]


def figure(found: Estimate, scale: float = 1.0, digits: int = 0) -> str:
    """A figure with its interval."""
    if found.value is None or found.low is None or found.high is None:
        return "-"
    return (
        f"{scale * found.value:.{digits}f} [{scale * found.low:.{digits}f}, "
        f"{scale * found.high:.{digits}f}]"
    )


HEAD = (
    f"{'':22}{'done %':>16}{'more than alone':>18}{'lost':>6}{'vain calls':>20}"
    f"{'turns':>20}{'strong':>8}{'tokens':>8}{'exits':>7}{'right end %':>13}"
)


def row(name: str, runs: Sequence[Run], alone: Sequence[Run], right: list[bool]) -> str:
    """A policy's line: what it did, and what it changed beside no guard."""
    done, before = ([run.done for run in group] for group in (runs, alone))
    lost = sum(b and not a for a, b in zip(done, before, strict=True))
    vain, turns = ([getattr(r, what) for r in runs] for what in ("vain", "turns"))
    strong, tokens, exits = (
        sum(values) / len(runs)
        for values in zip(
            *((r.strong, r.tokens, r.told.get("exited", 0)) for r in runs), strict=True
        )
    )
    more = figure(pairs_differ(before, done)[0], 100)
    saved = figure(mean(vain), digits=1)
    return (
        f"{name:22}{figure(mean(done), 100):>16}{more:>18}{lost:>6}{saved:>20}"
        f"{figure(mean(turns), digits=1):>20}{strong:>8.1f}{tokens:>8.0f}"
        f"{100 * exits:>6.0f}%{figure(mean(right), 100):>13}"
    )


def arms(trial: Trial) -> Iterator[str]:
    """Every policy on the same agents."""
    alone = trial.runs(UNGUARDED)
    limited = trial.runs(UNGUARDED, LIMITER)
    yield HEAD
    yield row("no guard", alone, alone, trial.right(alone))
    yield row(f"limit of {LIMITER} calls", limited, alone, trial.right(limited))
    for name, policy in (*ladders(trial.strong), *with_acts(trial.strong)):
        runs = trial.runs(policy)
        yield row(name, runs, alone, trial.right(runs))


GRID = {
    "repeat": (2, 3, 4),
    "error": (2, 3, 4),
    "churn": (4, 5, 7),
    "turns": (3, 5, 8),
    "patience": (1, 2, 3),
}
"""Thresholds to choose from: of `Repeat`, `RecurringError`, `Churn`, `Escalate`."""


def tuned(strong: CountedModel, **knobs: int) -> Policy:
    """The whole ladder with other thresholds."""
    changed: dict[str, Detector] = {
        "repeat": Repeat(times=knobs["repeat"]),
        "recurring_error": RecurringError(times=knobs["error"]),
        "churn": Churn(steps=knobs["churn"]),
    }
    other = Escalate(model=strong, turns=knobs["turns"], patience=knobs["patience"])
    detectors = [changed.get(detector.kind, detector) for detector in DEFAULTS]
    return Policy(detectors=detectors, ladder=Ladder(Reflect(), other, GiveUp()))


def grid(trial: Trial, found: Fitted, honest_seeds: int) -> Iterator[str]:
    """Each knob alone, then all pairs: what is done, turns, and honest runs lost."""
    default = {"repeat": 3, "error": 3, "churn": 5, "turns": 5, "patience": 2}
    base = trial.runs(tuned(trial.strong, **default))
    yield f"{'':44}{'done %':>16}{'than default':>16}{'turns':>20}{'than default':>20}"
    for knobs in _choices(default):
        policy = tuned(trial.strong, **knobs)
        runs = trial.runs(policy)
        done, was = ([r.done for r in group] for group in (runs, base))
        turns, had = ([r.turns for r in group] for group in (runs, base))
        names = " ".join(f"{k} {v}" for k, v in knobs.items())
        hurt = len([*spoiled(found, policy, honest_seeds, trial.strong)])
        yield (
            f"{names:44}{figure(mean(done), 100):>16}"
            f"{figure(pairs_differ(was, done)[0], 100, 1):>16}"
            f"{figure(mean(turns), digits=1):>20}"
            f"{figure(paired_amounts_differ(had, turns)[0], digits=1):>20}"
            f"  {hurt} honest runs lost"
        )


def _choices(default: Mapping[str, int]) -> Iterator[dict[str, int]]:
    yield dict(default)
    for name, values in GRID.items():
        yield from ({**default, name: v} for v in values if v != default[name])
    for repeat, patience in itertools.product((2, 4), (1, 3)):
        yield {**default, "repeat": repeat, "patience": patience}


def heed(found: Fitted, seeds: int) -> Iterator[str]:
    """What a note and a reroute change by how much agents listen and fall again."""
    yield f"{'heed':>5}{'relapse':>9}{'strong':>8}{'alone':>8}" + "".join(
        f"{name:>18}" for name in ("whole ladder", "reflect only", "escalate only")
    )
    for heeds, falls, knows in itertools.product((0.1, 0.5, 0.9), (0, 0.5, 1), (0, 1)):
        trial = Trial(found, seeds, {"heed": heeds, "relapse": falls, "strong": knows})
        before = [run.done for run in trial.runs(UNGUARDED)]
        known = dict(ladders(trial.strong))
        cells = ""
        for name in ("whole ladder", "reflect only", "escalate only"):
            done = [run.done for run in trial.runs(known[name])]
            cells += f"{figure(pairs_differ(before, done)[0], 100):>18}"
        alone = f"{100 * sum(before) / seeds:.0f}%"
        yield f"{heeds:>5}{falls:>9}{knows:>8}{alone:>8}{cells}"


def spoiled(
    found: Fitted, policy: Policy, seeds: int, strong: CountedModel
) -> Iterator[str]:
    """The honest runs that end otherwise than without the guard, or are told things."""
    alone, kept = Host(UNGUARDED, LIMIT), Host(policy, LIMIT, strong)
    for seed in range(seeds):
        agent = honest(found, seed)
        before, after = alone.run(agent, seed), kept.run(agent, seed)
        if before.done and not after.done:
            yield f"lost: seed {seed}, {len(agent.plan)} calls, {after.told}"


def spared(found: Fitted, seeds: int) -> Iterator[str]:
    """How many honest runs are lost under each policy, and which."""
    strong = stronger()
    whole, acting = (next(named(strong)) for named in (ladders, with_acts))
    for name, policy in (("default", Policy()), whole, acting):
        lost = [*spoiled(found, policy, seeds, strong)]
        yield f"{name}: {len(lost)} of {seeds} honest runs lost"
        yield from lost


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("arms", "grid", "heed", "honest"))
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--reaction", choices=REACTIONS, action="append")
    args = parser.parse_args()
    found = load()
    if args.what in ("honest", "heed"):
        print(*(spared if args.what == "honest" else heed)(found, args.seeds), sep="\n")
        return
    for name in args.reaction or REACTIONS:
        trial = Trial(found, args.seeds, REACTIONS[name])
        lines = arms(trial) if args.what == "arms" else grid(trial, found, args.seeds)
        print(f"\n{name}, {args.seeds} agents")
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    main()

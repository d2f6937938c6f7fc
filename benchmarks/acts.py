"""What each act changes: runs of simulated agents with bad habits, one act at a time.

Every agent of `simulated/habits.py` is run with the same seeds under the same ladder:
unguarded, with no act, with each act alone, and with all of them.

    python -m benchmarks.acts [--seeds 10] [--habits] [--heed 0.5]

Of recorded runs nobody can tell how they would have gone on, but in how many of their
calls each act would have had a part:

    python -m benchmarks.acts --recorded RECORDINGS/*.jsonl.gz
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from tenacity import wait_exponential

from benchmarks.recovery.fast import Host
from benchmarks.simulated.agents import Run
from benchmarks.simulated.habits import NAMES, agent_of
from loopguard_lg import Escalate, GiveUp, Ladder, Policy, Reflect, ToolPolicy
from loopguard_lg.acts import advisors, cache, calls, decoding, polling, state
from loopguard_lg.acts.advisors import Facts
from loopguard_lg.policy import Act
from loopguard_lg.steps import Human, Turn
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import read

ACTS: tuple[str, ...] = get_args(Act)

LADDER = Ladder(
    Reflect(temperature=0.7, hide_tool=True),
    Escalate(temperature=1.0, samples=3),
    GiveUp(),
)

TOOLS = {
    "read": ToolPolicy(role="read", cache=True),
    "search": ToolPolicy(role="read", cache=True),
    "send_mail": ToolPolicy(role="write", once=True),
    "job_status": ToolPolicy(role="poll", wait=wait_exponential(max=30)),
    "fetch": ToolPolicy(retry=True),
}


def policies() -> Iterator[tuple[str, Policy]]:
    """The policies to compare, by what is on."""
    full = Policy(ladder=LADDER, tools=TOOLS)
    yield "unguarded", Policy(observe_only=True)
    yield "ladder alone", full.replace(acts_off=ACTS)
    for act in ACTS:
        yield f"{act}", full.replace(acts_off=[other for other in ACTS if other != act])
    yield "all acts", full


def share(runs: Sequence[Run], name: str) -> float:
    """The mean of one figure."""
    return sum(float(getattr(run, name)) for run in runs) / len(runs)


def row(name: str, runs: Sequence[Run]) -> str:
    """A line of the table."""
    done, circled = (f"{100 * share(runs, n):5.0f}%" for n in ("done", "circled"))
    turns, doubled = (f"{share(runs, n):7.2f}" for n in ("turns", "doubled"))
    tokens, waited = f"{share(runs, 'tokens'):8.0f}", f"{share(runs, 'waited'):7.1f}"
    return f"{name:22}{done}{circled:>9}{turns:>8}{tokens:>9}{doubled:>9}{waited:>9}"


HEAD = f"{'on':22}{'done':>6}{'circled':>9}{'turns':>8}{'tokens':>9}{'doubled':>9}"


@dataclass(slots=True)
class Reach:
    """In how many calls of recorded runs the acts would have had a part."""

    calls: int = 0
    advice: int = 0
    cache: int = 0
    poll: int = 0
    retry: int = 0

    def row(self, name: str) -> str:
        """A line of the table."""
        counts = (self.advice, self.cache, self.poll, self.retry)
        shares = "".join(f"{100 * n / max(1, self.calls):8.1f}%" for n in counts)
        return f"{name:26}{self.calls:>8}{shares}"


class _Cached(dict[str, ToolPolicy]):
    """Settings by which all tools that read, by their name, are cached."""

    def get(self, name: str, default: Any = None) -> Any:
        """The settings of a tool."""
        return ToolPolicy(cache=decoding.role(name, None, None) == "read")


def reach(trajectory: Trajectory, found: Reach) -> None:
    """Count the calls of one run."""
    tools, known = _Cached(), Facts(tools=[*_names(trajectory)])
    remembered: dict[str, Any] = {}
    for event in trajectory.events:
        if not isinstance(event, Turn):
            remembered = {} if isinstance(event, Human) else remembered
            continue
        batch = [calls.made(step, tools, "message") for step in event.steps]
        for at, (step, one) in enumerate(zip(event.steps, batch, strict=True)):
            result = advisors.result_of(step)
            heard = advisors.advise(advisors.DEFAULTS, step, result, known)
            found.calls += 1
            found.advice += bool(heard)
            found.retry += result.outcome.transient
            found.poll += polling.pause(remembered.get("polls", []), one) > 0
            answer = cache.find(remembered.get("cache", []), one, batch[:at])
            found.cache += answer is not None
        remembered = state.after(remembered, batch)


def _names(trajectory: Trajectory) -> set[str]:
    turns = (event for event in trajectory.events if isinstance(event, Turn))
    return {step.tool for turn in turns for step in turn.steps}


def recorded(paths: Sequence[Path]) -> None:
    """Print in how many calls of recorded runs each act would have had a part."""
    print(f"{'calls with a part for':26}{'of':>8}{'advice':>9}{'cache':>9}", end="")
    print(f"{'poll':>9}{'retry':>9}")
    for path in paths:
        found = Reach()
        for trajectory in read(path):
            if isinstance(trajectory, Trajectory):
                reach(trajectory, found)
        print(found.row(path.name.partition(".")[0]))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--heed", type=float, default=0.5, help="of a guard's words")
    parser.add_argument("--habits", action="store_true", help="a table for each habit")
    parser.add_argument("--recorded", type=Path, nargs="+", help="recorded runs")
    args = parser.parse_args()
    if args.recorded:
        recorded(args.recorded)
        return
    found: dict[tuple[str, str], list[Run]] = {}
    for on, policy in policies():
        host = Host(policy)
        for habit in NAMES:
            agent = agent_of(habit, heed=args.heed)
            found[on, habit] = [host.run(agent, seed) for seed in range(args.seeds)]
    tables = [("all habits", NAMES)]
    tables += [(habit, (habit,)) for habit in NAMES] if args.habits else []
    for title, habits in tables:
        print(f"\n{title}, {args.seeds} seeds, heed {args.heed}")
        print(f"{HEAD}{'waited s':>9}")
        for on, _ in policies():
            print(row(on, [run for habit in habits for run in found[on, habit]]))


if __name__ == "__main__":
    main()

"""The engine beside public loop detectors: microseconds a step, early and late.

The peers live in an environment of their own; one that is not installed there is left
out. All get the same made steps, as calls with their results, for 20 seconds at most:

    python -m venv PEERS
    PEERS/bin/pip install agent-loop-guard agent-patrol agent-loop-detector
    python benchmarks/peers.py --python PEERS/bin/python [--steps 1000]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import time

import engine

from loopguard_lg import Policy, Turn, decide

_CHILD = """
import json, statistics, sys, time

def loop_guard():
    from loop_guard import LoopGuard
    guard = LoopGuard()
    return lambda tool, args, result: guard.check(tool, args, result)

def patrol():
    from agent_patrol import PatrolMonitor
    monitor = PatrolMonitor()
    return lambda tool, args, result: monitor.observe(tool + json.dumps(args), result)

def detector():
    from agent_loop_detector import LoopDetector
    found = LoopDetector()
    return lambda tool, args, result: found.check(result)

steps = json.load(sys.stdin)
peers = {
    "agent-loop-guard": loop_guard,
    "agent-patrol": patrol,
    "agent-loop-detector": detector,
}
for name, make in peers.items():
    try:
        look = make()
    except ImportError:
        continue
    times, ends = [], time.process_time() + 20
    for step in steps:
        if time.process_time() > ends:
            break
        started = time.process_time()
        look(*step)
        times.append((time.process_time() - started) * 1e6)
    print(json.dumps([name, times]))
"""


def own(events: list[Turn]) -> list[float]:
    """What the engine takes for each event, every detector on."""
    policy, memory, times = Policy(), {}, []
    for event in events:
        started = time.process_time()
        _, memory = decide(policy, memory, event)
        times.append((time.process_time() - started) * 1e6)
    return times


def told(name: str, times: list[float]) -> str:
    """A row: the median over all, early and late."""
    part = max(1, min(100, len(times) // 4))
    parts = [times, times[part : 2 * part], times[-part:]]
    row = " ".join(f"{statistics.median(found):>10.1f}" for found in parts)
    return f"{name:<22} {row}"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--steps", type=int, default=1_000)
    given = parser.parse_args()
    rng = random.Random(1)
    events = [engine.turn(rng, n) for n in range(1, given.steps + 1)]
    calls = [(step.tool, step.args, step.result) for e in events for step in e.steps]
    print(f"{'µs a step':<22} {'median':>10} {'early':>10} {'late':>10}")
    print(told("loopguard_lg", own(events)))
    out = subprocess.run(
        [given.python, "-c", _CHILD],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for line in out.splitlines():
        print(told(*json.loads(line)))


if __name__ == "__main__":
    main()

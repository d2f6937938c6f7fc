"""What was spent beside the model's turns, told as part of one.

Nodes without the guard's model spend too. A recording has turns and no nodes: so what
was spent since the turn before goes into the next one, as the usage of agents inside it
does, and a replay counts what the run has counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from loopguard_lg import budgets
from loopguard_lg.adapters.past import with_host
from loopguard_lg.adapters.scene import Scene
from loopguard_lg.budgets import Exceeded, Used
from loopguard_lg.memory import Memory
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Event, Nested, Tokens, Turn


def told(
    events: Sequence[Event], beside: Mapping[str, Used]
) -> tuple[list[Event], dict[str, Used]]:
    """The events with what was spent beside the first turn, and what is left to charge.

    Args:
        events: What has happened.
        beside: What was spent, by scope.
    """
    out, run = list(events), beside.get("run") or {}
    for at, event in enumerate(events):
        if run and isinstance(event, Turn):
            out[at] = _with(event, run)
            return out, {"run": {}, "thread": _earlier(beside.get("thread") or {}, run)}
    return out, dict(beside)


def _with(turn: Turn, run: Used) -> Turn:
    """The turn with what the run has spent beside it."""
    seconds = (turn.seconds or 0) + run.get("seconds", 0)
    nested = (*turn.nested, *_nested(run))
    return replace(turn, nested=nested, seconds=seconds or turn.seconds)


def _earlier(thread: Used, run: Used) -> Used:
    """What earlier runs of a thread have spent."""
    earlier = budgets.add(thread, {name: -amount for name, amount in run.items()})
    return {name: amount for name, amount in earlier.items() if amount}


def charged(
    policy: Policy, memory: Memory, scene: Scene, left: Mapping[str, Used]
) -> tuple[Exceeded | None, Memory]:
    """The budget that is out with what is `left`, and the memory.

    What is left waits for the next turn, unless the run ends here or there is none.
    """
    if not scene.beside:
        return None, memory
    out, waits = None, any(left.values())
    if waits:
        used = {s: budgets.add(u, left.get(s, {})) for s, u in memory["used"].items()}
        out = budgets.exceeded(policy.budgets, used)
        if out is not None or not left.get("run"):
            memory, waits = {**memory, "used": used}, False
    return out, memory if waits else with_host(memory, beside=scene.counted_beside)


def _nested(spent: Used) -> Iterator[Nested]:
    """Model calls with a known price, and those without."""
    calls, free = int(spent.get("model_calls", 0)), int(spent.get("unpriced", 0))
    if not calls:
        return
    tokens = Tokens(
        input=int(spent.get("input_tokens", 0)),
        output=int(spent.get("output_tokens", 0)),
        estimated=bool(spent.get("estimated")),
    )
    cost = spent.get("usd", 0.0)
    if calls > free:
        yield Nested(model_calls=calls - free, tokens=tokens, cost=cost)
        tokens = Tokens()
    if free:
        yield Nested(model_calls=free, tokens=tokens)

"""What is done with an agent that has ended badly: start it again, park it, escalate.

A start that fails is no loop: nothing was done, and the next start may work (a server
that is full, a quota). It is tried again after a growing pause, up to a budget; then
the agent is parked, and nobody starts it until somebody says so. An agent that went in
circles or broke gets a fresh start or two; then it is its orchestrator's to decide.

State is plain data:

    {"spawns": starts that failed, in a row, "runs": fresh starts so far,
     "parked": why it is parked, or ""}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tenacity import RetryCallState, wait_exponential

from loopguard_lg.acts import strategies
from loopguard_lg.errors import PolicyError

Ending: TypeAlias = Literal["done", "spawn_failed", "loop", "budget", "failed"]
"""How a run of an agent ended: `spawn_failed` before its first step, `failed` after."""

Act: TypeAlias = Literal["done", "start", "park", "escalate"]
"""What is done next: nothing, another start, waiting for a person, telling the
orchestrator."""

State: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Respawn:
    """How often an agent is started again.

    Attributes:
        spawns: Starts that may fail in a row before the agent is parked.
        runs: Fresh starts after a loop or an error before it is escalated.
        wait: Seconds before the next start, by tenacity's strategies.
    """

    spawns: int = 5
    runs: int = 1
    wait: Callable[[RetryCallState], float] = wait_exponential(multiplier=0.5, max=60)

    def __post_init__(self) -> None:
        for name, least in (("spawns", 1), ("runs", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise PolicyError(
                    f"Respawn.{name}={value!r}: give a whole number of at least {least}"
                )
        if not callable(self.wait):
            raise PolicyError(f"Respawn.wait={self.wait!r}: give a wait of tenacity's")


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """What is done next.

    Attributes:
        act: What.
        after: Seconds to wait before it.
        reason: Why, for people.
    """

    act: Act
    after: float = 0.0
    reason: str = ""


def after(
    respawn: Respawn, state: Mapping[str, Any], ending: Ending, detail: str = ""
) -> tuple[State, Next]:
    """What to do when a run of an agent has ended, and the state after it.

    Args:
        respawn: The settings.
        state: As it was; `{}` at first.
        ending: How the run ended.
        detail: What is known about it.
    """
    if ending == "done":
        return {}, Next(act="done")
    if ending == "spawn_failed":
        return _unspawned(respawn, {**state}, detail)
    runs = state.get("runs", 0)
    spent = ending == "budget" or runs >= respawn.runs
    if spent:
        return {**state, "spawns": 0}, Next(act="escalate", reason=detail or ending)
    return {**state, "spawns": 0, "runs": runs + 1}, Next(act="start", reason=detail)


def _unspawned(respawn: Respawn, state: State, detail: str) -> tuple[State, Next]:
    spawns = state.get("spawns", 0) + 1
    state["spawns"] = spawns
    if spawns >= respawn.spawns:
        reason = f"{spawns} starts in a row failed: {detail}"
        return {**state, "parked": reason}, Next(act="park", reason=reason)
    now = strategies.state(spawns, 0.0)
    pause = float(strategies.asked(respawn.wait, now, 1.0))
    return state, Next(act="start", after=pause, reason=detail)


def unparked(state: Mapping[str, Any]) -> State:
    """The state of an agent that may be started again."""
    return {**state, "spawns": 0, "parked": ""}

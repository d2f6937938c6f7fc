"""Troubles that pass by themselves: the call is tried again before anyone counts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenacity import RetryCallState, stop_after_attempt, wait_exponential

from loopguard_lg.acts.advisors import result_of
from loopguard_lg.acts.calls import Made
from loopguard_lg.acts.strategies import asked, state, stopping, waiting
from loopguard_lg.steps import Step

STOP = stop_after_attempt(3)
"""Tries of a call whose policy says nothing of them."""

WAIT = wait_exponential(max=10)
"""Pauses between its tries."""

_EFFECTS = ("write", "handoff")


def is_retried(call: Made, *, idempotent: bool = False) -> bool:
    """Whether a call may be tried again at all.

    One that has effects only where the policy names its role, it takes an idempotency
    key, or its tool says that to call it twice is to call it once: that a shell command
    may be retried must not retry a deployment.
    """
    policy = call.policy
    if policy.retry in (None, False):
        return False
    declared = policy.role == call.role or policy.idempotency_key is not None
    return declared or idempotent or call.role not in _EFFECTS


def pause(
    call: Made,
    attempt: int,
    seconds: float,
    *,
    idle: float,
    left: float | None,
    step: Step | None,
    error: BaseException | None,
) -> float | None:
    """Seconds before the next try of a call; `None`: this was the last one.

    Args:
        call: The call.
        attempt: How many tries there were.
        seconds: How long they took together.
        idle: How long the pauses between them were.
        left: Seconds left in the budget; a pause does not pass them.
        step: The newest try, if it gave a result.
        error: What it raised, if anything.
    """
    policy = call.policy
    now = state(attempt, seconds, idle=idle, result=step, error=error)
    again = policy.retry if callable(policy.retry) else is_transient
    if not asked(again, now, False):
        return None
    polls = call.role == "poll"  # there, wait and stop are about the polls
    wait = waiting(None if polls else policy.wait, WAIT)
    stop = stopping(None if polls else policy.stop, STOP)
    now.upcoming_sleep = pause = max(0.0, float(asked(wait, now, 0.0)))
    out = left is not None and pause >= left
    return None if out or asked(stop, now, True) else pause


_PASSING = (408, 425, 429)
_NAMES = ("timeout", "connect", "ratelimit", "serviceunavailable", "overloaded")


def is_transient(now: RetryCallState) -> bool:
    """Whether the newest try failed in a way that may pass: the default for `retry`.

    Raised: timeouts, connection errors, the status 408, 425, 429 or 5xx. Returned: an
    error that says so.
    """
    outcome = now.outcome
    if outcome is None:
        return False
    error = outcome.exception()
    if error is None:
        step = outcome.result()
        return isinstance(step, Step) and result_of(step).outcome.transient
    return isinstance(error, ConnectionError | TimeoutError) or _passes(error)


def _passes(error: BaseException) -> bool:
    status = _status(error)
    if status is not None:
        return status in _PASSING or status >= 500
    kinds = (kind.__name__.lower() for kind in type(error).__mro__)
    if any(name in kind for kind in kinds for name in _NAMES):
        return True
    told = Step(tool="", result=f"{type(error).__name__}: {error}", error=True)
    return result_of(told).outcome.transient


def _status(error: BaseException) -> int | None:
    """The HTTP status in an error, where clients put it."""
    for owner in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            value: Any = getattr(owner, name, None)
            if isinstance(value, int) and 400 <= value < 600:
                return value
            if isinstance(owner, Mapping) and isinstance(owner.get(name), int):
                return int(owner[name])
    return None

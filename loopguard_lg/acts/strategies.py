"""Tenacity's strategies, asked about calls that are not made by tenacity.

A strategy is any function of a `RetryCallState`. What it may read is filled in:
`attempt_number`, `outcome`, `idle_for`, `upcoming_sleep` and `seconds_since_start`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from tenacity import (
    Future,
    RetryCallState,
    Retrying,
    stop_after_attempt,
    wait_fixed,
)

from loopguard_lg.redaction.logs import note_failure

T = TypeVar("T", bool, int, float)
Strategy: TypeAlias = Callable[[Any], Any] | T | None
"""A strategy of tenacity's, or what stands for a usual one."""


def state(
    attempt: int,
    seconds: float,
    *,
    idle: float = 0.0,
    result: object = None,
    error: BaseException | None = None,
) -> RetryCallState:
    """What a strategy is told.

    Args:
        attempt: How many tries there were.
        seconds: How long they took together, pauses included.
        idle: How long the pauses were.
        result: What the newest try gave.
        error: What it raised, if anything.
    """
    made = RetryCallState(_NOBODY, None, (), {})
    made.attempt_number = attempt
    made.idle_for = idle
    made.start_time = 0.0
    made.outcome_timestamp = seconds
    outcome = Future(attempt)
    if error is None:
        outcome.set_result(result)
    else:
        outcome.set_exception(error)
    made.outcome = outcome
    return made


def waiting(wait: Strategy[float], other: Callable[..., float]) -> Callable[..., float]:
    """The `wait` of a policy as a strategy: a number is seconds, `None` is `other`."""
    if wait is None:
        return other
    return wait if callable(wait) else wait_fixed(wait)


def stopping(stop: Strategy[int], other: Callable[..., bool]) -> Callable[..., bool]:
    """The `stop` of a policy as a strategy: a number is tries, `None` is `other`."""
    if stop is None:
        return other
    return stop if callable(stop) else stop_after_attempt(stop)


_NOBODY = Retrying()


def asked(strategy: Callable[[RetryCallState], T], now: RetryCallState, other: T) -> T:
    """What a strategy of the user's says, and `other` where it fails."""
    try:
        said = type(other)(strategy(now))  # it may say anything
    except Exception:
        note_failure(strategy, "a strategy failed and was left out")
        return other
    return said if said < math.inf else other  # nobody sleeps for ever

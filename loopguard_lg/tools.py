"""What the policy says of single tools."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from loopguard_lg.errors import PolicyError
from loopguard_lg.steps import Role, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """Settings of one tool.

    Attributes:
        role: What its calls are for; found from metadata, name and behaviour if `None`.
        volatile: Argument names that do not tell two calls apart (a free-text
            `description`, a request id).
        off: Kinds of detectors that do not look at this tool.
        advise: Whether its results may be given a line of advice.
        cache: A call that only reads is answered from its earlier result in this run,
            as long as nothing was written since.
        once: A call that has worked is not made again with the same arguments before a
            person says something new; it gets its receipt.
        idempotency_key: Name of the argument that takes an idempotency key; the guard
            fills it in, the same for every try of a call.
        worked: Whether a call has worked, from its `Step`; where nobody says so, it is
            the host's status, else a flag in a JSON result (`success`, `ok`, `error`,
            `status`), else its first words.
        retry: Which outcomes are tried again: `True` for those that may pass by
            themselves, or a tenacity `retry` strategy; an outcome's result is a `Step`.
        wait: The pauses between tries, or between polls where the role is `poll`:
            seconds, or a tenacity `wait` strategy.
        stop: When there were enough tries, or polls: how many, or a tenacity `stop`
            strategy.
        slow: Whether its polls are made at a pace.
    """

    role: Role | None = None
    volatile: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    advise: bool = True
    cache: bool = False
    once: bool = False
    idempotency_key: str | None = None
    worked: Callable[[Step], bool] | None = None
    retry: Callable[[Any], bool] | bool | None = None
    wait: Callable[[Any], float] | float | None = None
    stop: Callable[[Any], bool] | int | None = None
    slow: bool = True

    def __post_init__(self) -> None:
        roles = get_args(Role)
        if self.role is not None and self.role not in roles:
            raise PolicyError(
                f"ToolPolicy.role={self.role!r}: give one of {', '.join(roles)}"
            )
        for name in ("volatile", "off"):
            value = getattr(self, name)
            if not isinstance(value, tuple | list | set | frozenset):
                raise PolicyError(f"ToolPolicy.{name}={value!r}: give a list of names")
            object.__setattr__(self, name, tuple(value))
        _check_flags(self)
        _check_strategies(self)
        if self.idempotency_key and self.idempotency_key not in self.volatile:
            volatile = (*self.volatile, self.idempotency_key)
            object.__setattr__(self, "volatile", volatile)

    def without(self, acts: Collection[str]) -> ToolPolicy:
        """The settings with these acts switched off."""
        off = {name: value for act in acts for name, value in _OFF.get(act, {}).items()}
        return replace(self, **off)


_OFF: Mapping[str, Mapping[str, Any]] = {
    "advice": {"advise": False},
    "cache": {"cache": False},
    "once": {"once": False},
    "poll": {"slow": False},
    "retry": {"retry": None},
}


def _check_flags(policy: ToolPolicy) -> None:
    for name in ("advise", "cache", "once", "slow"):
        value = getattr(policy, name)
        if not isinstance(value, bool):
            raise PolicyError(f"ToolPolicy.{name}={value!r}: give True or False")
    if policy.cache and policy.once:
        raise PolicyError("ToolPolicy: cache is for reads, once is for writes")


def _check_strategies(policy: ToolPolicy) -> None:
    for name, plain in _STRATEGIES.items():
        value = getattr(policy, name)
        if not (value is None or callable(value) or plain(value)):
            raise PolicyError(
                f"ToolPolicy.{name}={value!r}: give {_PLAIN[name]}, or a {name} "
                "strategy of tenacity"
            )
    if not (policy.worked is None or callable(policy.worked)):
        raise PolicyError(
            f"ToolPolicy.worked={policy.worked!r}: give a function of a Step"
        )


def _is_wait(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value < math.inf


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


_STRATEGIES: Mapping[str, Callable[[Any], bool]] = {
    "retry": lambda value: isinstance(value, bool),
    "wait": _is_wait,
    "stop": _is_count,
}
_PLAIN = {"retry": "True or False", "wait": "seconds", "stop": "a number of times"}

"""What a run may spend, what it has spent, and where the two meet.

`Budget` is allowed, `Usage` is spent. A budget is checked before every model call
and before every tool call of a batch, as far as the amount is known beforehand
(calls, steps, hand-offs), and after it where it is not (tokens, seconds, dollars):
those can be passed by what was running when they ran out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from loopguard_lg.errors import PolicyError
from loopguard_lg.steps import Tokens, Turn

Scope = Literal["run", "thread"]
"""What a budget spans: one run (until a person speaks again), or the whole thread."""

Used = dict[str, float]
"""Usage as plain data: amounts by name; a tool's calls are under `tool:<name>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What is allowed; `None` is no limit.

    Attributes:
        steps: Turns that called tools; a parallel batch is one.
        model_calls: Replies of a model, those of agents inside tools included.
        tool_calls: Executed tool calls, each of a batch for itself.
        per_tool: Executed calls of single tools, by name.
        input_tokens: Tokens sent.
        output_tokens: Tokens received.
        total_tokens: Both together.
        seconds: Active time: model calls and tools; waiting for a person is free, and
            the calls of a batch count as long as the slowest.
        usd: US dollars. A model without a known price is refused when the run starts,
            unless `unknown_price="ignore"`.
        handoffs: Hand-overs from one agent to another.
        scope: Whether a new user turn starts afresh.
        warn: Share of a limit at which the agent is told once; 1 for never.
        unknown_price: What a `usd` budget does about a model without a price.
        limits: The limits that are set, as (name in `Used`, allowed).
    """

    steps: int | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    per_tool: Mapping[str, int] = field(default_factory=dict)
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    seconds: float | None = None
    usd: float | None = None
    handoffs: int | None = None
    scope: Scope = "run"
    warn: float = 0.8
    unknown_price: Literal["refuse", "ignore"] = "refuse"
    limits: tuple[tuple[str, float], ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.per_tool, Mapping):
            raise PolicyError(
                f"budget.per_tool={self.per_tool!r}: give limits by name of the tool"
            )
        object.__setattr__(self, "limits", tuple(self._set_limits()))
        for name, allowed in self.limits:
            _check_limit(name, allowed)
        if not _is_amount(self.warn) or not 0 < self.warn <= 1:
            raise PolicyError(
                f"budget.warn={self.warn!r}: give a share above 0, 1 for never"
            )
        _check_choice("scope", self.scope, ("run", "thread"))
        _check_choice("unknown_price", self.unknown_price, ("refuse", "ignore"))

    def _set_limits(self) -> Iterator[tuple[str, float]]:
        for name in _AMOUNTS:
            allowed = getattr(self, name)
            if allowed is not None:
                yield name, allowed
        for tool, allowed in self.per_tool.items():
            yield f"tool:{tool}", allowed


def _check_limit(name: str, allowed: Any) -> None:
    whole = name not in ("seconds", "usd")
    fits = _is_amount(allowed) and allowed > 0
    if not fits or (whole and not isinstance(allowed, int)):
        kind, tool = "whole number" if whole else "number", name.partition("tool:")[2]
        raise PolicyError(
            f"budget.{f'per_tool[{tool!r}]' if tool else name}={allowed!r}: give a "
            f"{kind} above 0, or {'leave it out' if tool else 'None'} for no limit"
        )


def _is_amount(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value < math.inf


def _check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise PolicyError(f"budget.{name}={value!r}: give one of {', '.join(allowed)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars for a million tokens; `cached` is input read from a cache."""

    input: float
    output: float
    cached: float | None = None

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            if not _is_amount(value) and (part.name != "cached" or value is not None):
                raise PolicyError(
                    f"price.{part.name}={value!r}: give US dollars for a million tokens"
                )

    def of(self, tokens: Tokens) -> float:
        """US dollars for `tokens`."""
        cached = self.input if self.cached is None else self.cached
        fresh = max(0, tokens.input - tokens.cached)
        total = (
            fresh * self.input + tokens.cached * cached + tokens.output * self.output
        )
        return total / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What was spent, in the units of `Budget`.

    Attributes:
        unpriced: Model calls whose cost is not in `usd`, as no price is known.
        estimated: Model calls whose tokens were estimated.
    """

    steps: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    usd: float = 0.0
    handoffs: int = 0
    unpriced: int = 0
    estimated: int = 0
    per_tool: Mapping[str, int] = field(default_factory=dict)

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    @classmethod
    def of(cls, used: Mapping[str, float]) -> Usage:
        """The usage behind plain data."""
        known = {f.name for f in fields(cls)}
        amounts: dict[str, Any] = {k: v for k, v in used.items() if k in known}
        tools = {k[5:]: int(v) for k, v in used.items() if k.startswith("tool:")}
        return cls(**amounts, per_tool=tools)


_AMOUNTS = tuple(
    f.name
    for f in fields(Budget)
    if f.init and f.name not in ("per_tool", "scope", "warn", "unknown_price")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceeded:
    """A budget that is out: `limit` by name, how much was `spent` of `allowed`.

    `owner` is the agent around whose budget it is; empty for the agent's own. `why`
    says it in words where the numbers do not tell all, as with a fleet's.
    """

    limit: str
    spent: float
    allowed: float
    scope: Scope | Literal["fleet"]
    owner: str = ""
    why: str = ""

    @property
    def is_raisable(self) -> bool:
        """Whether a person who is asked may raise it: the run's own one."""
        return self.scope == "run" and not self.owner

    def __str__(self) -> str:
        if self.why:
            return self.why
        spent, allowed = (f"{n:.6g}" for n in (self.spent, self.allowed))
        what = in_words(self.limit)
        whose = f", set by `{self.owner}` for what runs inside," if self.owner else ""
        return f"the {self.scope}'s budget of {allowed} {what}{whose} is used ({spent})"

    @property
    def name(self) -> str:
        """The limit for a program: a fleet's stands out as `fleet:...`."""
        return f"fleet:{self.limit}" if self.scope == "fleet" else self.limit


def cut_off(seconds: float, why: str) -> Exceeded:
    """What is out where a call was cut off, though the clock did not see it."""
    return Exceeded(
        limit="seconds", spent=seconds, allowed=seconds, scope="run", why=why
    )


def in_words(limit: str) -> str:
    """What a limit counts: `tool calls`, or "calls of `search`"."""
    tool = limit.partition("tool:")[2]
    return f"calls of `{tool}`" if tool else limit.replace("_", " ")


def model_spend(turn: Turn) -> Used:
    """What the model call of `turn` took, agents inside its tools included."""
    out: Used = {"model_calls": 1}
    _add_call(out, turn.tokens, turn.cost)
    if turn.seconds and turn.seconds > 0:  # a clock may have jumped back
        out["seconds"] = turn.seconds
    for inner in turn.nested:
        out["model_calls"] += inner.model_calls
        _add_call(out, inner.tokens, inner.cost, inner.model_calls)
    return out


def _add_call(
    out: Used, tokens: Tokens | None, cost: float | None, calls: int = 1
) -> None:
    if tokens is not None:
        out["input_tokens"] = out.get("input_tokens", 0) + tokens.input
        out["output_tokens"] = out.get("output_tokens", 0) + tokens.output
        if tokens.estimated:
            out["estimated"] = out.get("estimated", 0) + calls
    if cost is not None:
        out["usd"] = out.get("usd", 0) + cost
    elif calls:
        out["unpriced"] = out.get("unpriced", 0) + calls


def tool_spend(turn: Turn, handoffs: int, watched: frozenset[str]) -> Used:
    """What the calls of `turn` took; `watched` names the tools that are counted."""
    if not turn.steps:
        return {}
    ran = [step for step in turn.steps if not (step.blocked or step.cached)]
    out: Used = {"steps": 1, "tool_calls": len(ran)}
    slowest = max([step.seconds or 0 for step in ran], default=0)
    if slowest > 0:
        out["seconds"] = slowest
    if handoffs:
        out["handoffs"] = handoffs
    if watched:
        out |= Counter(f"tool:{step.tool}" for step in ran if step.tool in watched)
    return out


def add(first: Mapping[str, float], *parts: Mapping[str, float]) -> Used:
    """The sum of usages, as a new one."""
    out: Used = dict(first)
    for part in parts:
        for name, amount in part.items():
            out[name] = out.get(name, 0) + amount
    return out


def spent_of(used: Mapping[str, float], limit: str) -> float:
    """How much of `limit` is used."""
    if limit == "total_tokens":
        return used.get("input_tokens", 0) + used.get("output_tokens", 0)
    return used.get(limit, 0)


RAISED = "to:"
"""What names of limits begin with in `Used` that a person has raised in a run."""


def _limits(
    budgets: Iterable[Budget], used: Mapping[str, Mapping[str, float]]
) -> Iterator[tuple[Budget, str, float, float]]:
    """Each limit, how much of it is used, and what it allows, or was raised to."""
    for budget in budgets:
        amounts = used[budget.scope]
        for limit, allowed in budget.limits:
            raised = amounts.get(RAISED + limit, 0)
            yield budget, limit, spent_of(amounts, limit), max(allowed, raised)


def exceeded(
    budgets: tuple[Budget, ...], used: Mapping[str, Mapping[str, float]]
) -> Exceeded | None:
    """The first budget that is out, wider scope first; checked before a model call."""
    wider_first = sorted(budgets, key=_is_narrow) if len(budgets) > 1 else budgets
    for budget, limit, spent, allowed in _limits(wider_first, used):
        if spent >= allowed and not limit.startswith("tool:"):
            return Exceeded(
                limit=limit, spent=spent, allowed=allowed, scope=budget.scope
            )
    return None


def _is_narrow(budget: Budget) -> bool:
    return budget.scope == "run"


def seconds_left(
    budgets: tuple[Budget, ...],
    used: Mapping[str, Mapping[str, float]],
    spend: Mapping[str, float],
) -> float | None:
    """Seconds left in the narrowest budget; `spend` comes on top of what is used.

    `None`: no budget limits them.
    """
    more = spend.get("seconds", 0)
    left = [
        allowed - spent - more
        for _, limit, spent, allowed in _limits(budgets, used)
        if limit == "seconds"
    ]
    return max(0.0, min(left)) if left else None


def model_calls_left(
    budgets: tuple[Budget, ...], used: Mapping[str, Mapping[str, float]]
) -> float:
    """How many more model calls the budgets have room for."""
    left = [
        allowed - spent
        for _, limit, spent, allowed in _limits(budgets, used)
        if limit == "model_calls"
    ]
    return min(left, default=math.inf)


def refuses_call(
    budgets: tuple[Budget, ...],
    used: Mapping[str, Mapping[str, float]],
    ahead: Mapping[str, int],
) -> Exceeded | None:
    """The budget that has no room for a call, checked before it.

    Args:
        budgets: What is allowed.
        used: What was spent by scope, as it was before the batch.
        ahead: The limits that are counted by call and that this one counts for, with
            what calls before it in its batch take of each.
    """
    for budget, limit, used_up, allowed in _limits(budgets, used):
        if limit in ("steps", "model_calls"):
            continue
        if limit.startswith(("tool:", "handoffs")) and limit not in ahead:
            continue
        spent = used_up + ahead.get(limit, 0)
        if spent >= allowed:
            return Exceeded(
                limit=limit, spent=spent, allowed=allowed, scope=budget.scope
            )
    return None


def warnings(
    budgets: tuple[Budget, ...], used: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """Names of the limits of which more than the warning share is used."""
    return [
        f"{budget.scope}:{limit}"
        for budget, limit, spent, allowed in _limits(budgets, used)
        if budget.warn < 1 and spent >= budget.warn * allowed
    ]

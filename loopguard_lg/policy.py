"""All settings together: `Policy`, its presets, and reading it from a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias

from loopguard_lg.budgets import Budget, Price
from loopguard_lg.detectors import DEFAULTS, Detector
from loopguard_lg.errors import PolicyError
from loopguard_lg.ladder import AskUser, Escalate, GiveUp, Ladder, Reflect
from loopguard_lg.steps import Turn
from loopguard_lg.tools import ToolPolicy

Signal: TypeAlias = Callable[[Turn], bool]
"""Says whether a turn moved the task; pure, as it is called on replay too."""

HOUR = 3600.0


def _default_ladder() -> Ladder:
    return Ladder(Reflect(), Escalate(), GiveUp())


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Every setting of a guard; frozen, `replace` derives another one.

    Attributes:
        detectors: What is looked for; one of each kind.
        ladder: What is done about it.
        budget: What may be spent: one budget, or several of different scope. The
            default bounds only active time, to one hour.
        prices: Prices of models by name, over those of `genai-prices`.
        tools: Settings of single tools, by name.
        progress: Functions that recognise progress beside the built-in signals.
        tool_errors: What happens to an exception of a tool: raised on, so that retry
            and error middlewares see it, or returned to the model as an error result.
        observe_only: Only watch: nothing is said, blocked or ended.
        leave_tools: Tools that the model is given to leave by itself.
    """

    detectors: tuple[Detector, ...] = DEFAULTS
    ladder: Ladder = field(default_factory=_default_ladder)
    budget: Budget | tuple[Budget, ...] = field(
        default_factory=lambda: Budget(seconds=HOUR)
    )
    prices: Mapping[str, Price] = field(default_factory=dict)
    tools: Mapping[str, ToolPolicy] = field(default_factory=dict)
    progress: tuple[Signal, ...] = ()
    tool_errors: Literal["raise", "return"] = "raise"
    observe_only: bool = False
    leave_tools: tuple[Literal["give_up", "ask_user"], ...] = ("give_up",)

    def __post_init__(self) -> None:
        for name in ("detectors", "progress", "leave_tools"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not isinstance(self.budget, Budget):
            object.__setattr__(self, "budget", tuple(self.budget))
        _check(self)

    @classmethod
    def preset(
        cls, name: str, *, stronger_model: Any = None, **settings: Any
    ) -> Policy:
        """A policy for a kind of agent, with settings of your own on top.

        Args:
            name: `coding` (50 steps), `support` (12 steps, asks a person at the end),
                `research` (200 tool calls) or `lenient` (reflects twice before
                it escalates).
            stronger_model: The model of the escalation.
            settings: As for `Policy`.

        Raises:
            PolicyError: There is no such preset, or a setting is wrong.
        """
        if name not in _PRESETS:
            known = ", ".join(sorted(_PRESETS))
            raise PolicyError(f"preset {name!r} is not known: choose one of {known}")
        base = {**_PRESETS[name](stronger_model), **settings}
        return cls().replace(**base)

    def replace(self, **changes: Any) -> Self:
        """This policy with other settings; unknown ones are refused by name."""
        known = [f.name for f in dataclasses.fields(self)]
        for key in changes:
            if key not in known:
                raise PolicyError(
                    f"policy has no setting {key!r}: there are {', '.join(known)}"
                )
        return dataclasses.replace(self, **changes)

    @cached_property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets as a tuple, also where there is one."""
        return (self.budget,) if isinstance(self.budget, Budget) else self.budget

    @cached_property
    def watched_tools(self) -> frozenset[str]:
        """Tools whose calls are counted one by one."""
        return frozenset(tool for budget in self.budgets for tool in budget.per_tool)

    @cached_property
    def counts_tokens(self) -> bool:
        """Whether a budget depends on tokens, so that they are worth an estimate."""
        needs = {"input_tokens", "output_tokens", "total_tokens", "usd"}
        return any(needs & {n for n, _ in budget.limits} for budget in self.budgets)

    @cached_property
    def shadowed(self) -> frozenset[str]:
        """Kinds of the detectors that only watch."""
        return frozenset(d.kind for d in self.detectors if d.shadow)


def _check(policy: Policy) -> None:
    _check_kinds([getattr(d, "kind", None) for d in policy.detectors])
    _check_type("ladder", policy.ladder, Ladder)
    for at, budget in enumerate(policy.budgets):
        _check_type(f"budget[{at}]", budget, Budget)
    for tool, settings in policy.tools.items():
        _check_type(f"tools[{tool!r}]", settings, ToolPolicy)
    for model, price in policy.prices.items():
        _check_type(f"prices[{model!r}]", price, Price)
    _check_choice("tool_errors", policy.tool_errors, ("raise", "return"))
    for name in policy.leave_tools:
        _check_choice("leave_tools", name, ("give_up", "ask_user"))


def _check_kinds(kinds: list[Any]) -> None:
    for at, kind in enumerate(kinds):
        if not isinstance(kind, str):
            raise PolicyError(
                f"detectors[{at}] is not a detector: give one like Repeat(times=3)"
            )
        if kind in kinds[:at]:
            raise PolicyError(f"detectors[{at}]: there is a {kind!r} already")


def _check_type(where: str, value: Any, wanted: type) -> None:
    if not isinstance(value, wanted):
        raise PolicyError(f"{where}={value!r}: give a {wanted.__name__}(...)")


def _check_choice(where: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise PolicyError(f"{where}={value!r}: give one of {', '.join(allowed)}")


def _ladder(model: Any, end: AskUser | GiveUp) -> Ladder:
    return Ladder(Reflect(), Escalate(model=model), end)


_PRESETS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "coding": lambda model: {
        "ladder": _ladder(model, GiveUp()),
        "budget": Budget(steps=50, seconds=HOUR),
    },
    "support": lambda model: {
        "ladder": _ladder(model, AskUser()),
        "budget": Budget(steps=12, seconds=HOUR / 4),
        "leave_tools": ("give_up", "ask_user"),
    },
    "research": lambda model: {
        "ladder": _ladder(model, GiveUp()),
        "budget": Budget(tool_calls=200, seconds=2 * HOUR),
    },
    "lenient": lambda model: {
        "ladder": Ladder(Reflect(), Reflect(), Escalate(model=model), GiveUp()),
    },
}

"""All settings together: `Policy` and its presets."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args

from loopguard_lg.budgets import Budget, Price
from loopguard_lg.detectors import DEFAULTS, Detector
from loopguard_lg.errors import PolicyError
from loopguard_lg.ladder import AskUser, Escalate, GiveUp, Ladder, Reflect
from loopguard_lg.steps import Turn
from loopguard_lg.tools import ToolPolicy

Signal: TypeAlias = Callable[[Turn], bool]
"""Says whether a turn moved the task; pure, as it is called on replay too."""

Act: TypeAlias = Literal["advice", "cache", "once", "poll", "retry", "decoding"]
"""What the guard does beside stopping: lines of advice, answers from a cache, receipts
of what is done once, the pace of polls, retries, and a rung's other way to go on."""

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
        advisors: Functions that say what to do after a result that says too little
            (`acts.advisors`); `None` for the built-in ones, `()` for none.
        acts_off: Acts that are switched off, whatever is said of single tools.
        calibrated_for: The model that the budgets were calibrated for, if any; a run of
            another one is warned about once.
    """

    detectors: Sequence[Detector] = DEFAULTS
    ladder: Ladder = field(default_factory=_default_ladder)
    budget: Budget | Sequence[Budget] = field(
        default_factory=lambda: Budget(seconds=HOUR)
    )
    prices: Mapping[str, Price] = field(default_factory=dict)
    tools: Mapping[str, ToolPolicy] = field(default_factory=dict)
    progress: Sequence[Signal] = ()
    tool_errors: Literal["raise", "return"] = "raise"
    observe_only: bool = False
    leave_tools: Sequence[Literal["give_up", "ask_user"]] = ("give_up",)
    advisors: Sequence[Callable[..., str | None]] | None = None
    acts_off: Sequence[Act] = ()
    calibrated_for: str = ""

    def __post_init__(self) -> None:
        names = ["detectors", "progress", "leave_tools", "budget", "acts_off"]
        for name in names if self.advisors is None else [*names, "advisors"]:
            value = getattr(self, name)
            if not isinstance(value, Budget):
                object.__setattr__(self, name, _items(name, value))
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
        if stronger_model is not None and "ladder" in settings:
            raise PolicyError(
                f"stronger_model={stronger_model!r}: a ladder is given, too; name the "
                "model in its Escalate(model=...)"
            )
        base = {**_PRESETS[name](stronger_model), **settings}
        return cls().replace(**base)

    @classmethod
    def load(
        cls,
        source: str | Path | None = None,
        *,
        graph: str | None = None,
        agent: str | None = None,
        env: Mapping[str, str] = os.environ,
        **settings: Any,
    ) -> Policy:
        """The policy of a preset or file, the environment, and settings of your own.

        The later of these wins: preset, file, `LOOPGUARD_...` variables, `settings`.

        Args:
            source: A preset, or a TOML, YAML or JSON file; if `None`, `loopguard.toml`
                or `[tool.loopguard]` of `pyproject.toml` in the current folder, if any.
            graph: Take the section `[graphs.NAME]`, too.
            agent: Take the section `[agents.NAME]`, too, which wins over the graph's.
            env: The environment; `{}` for none.
            settings: As for `Policy.preset`, `stronger_model` included.

        Raises:
            PolicyError: There is neither file nor preset of that name, it can't be
                read, or a setting is wrong: with its place, key and value, and what is
                allowed.
        """
        # What reads and checks files is imported by those who have one.
        from loopguard_lg.policy_file import load_policy

        return load_policy(source, graph=graph, agent=agent, env=env, **settings)

    @classmethod
    def checked(cls, policy: Policy | None) -> Policy:
        """The policy given, or the default one.

        Raises:
            PolicyError: It is something else.
        """
        if policy is None:
            return cls()
        if not isinstance(policy, Policy):
            raise PolicyError(
                f"policy={policy!r}: give a Policy(...), for example "
                "Policy.preset('coding')"
            )
        return policy

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
    def acting(self) -> Policy:
        """The policy by which the guard acts: without what is switched off."""
        if not self.acts_off:
            return self
        off = frozenset(self.acts_off)
        return self.replace(
            tools={name: tool.without(off) for name, tool in self.tools.items()},
            advisors=() if "advice" in off else self.advisors,
            ladder=self.ladder.plain() if "decoding" in off else self.ladder,
        )

    @cached_property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets as a tuple, also where there is one."""
        if isinstance(self.budget, Budget):
            return (self.budget,)
        return tuple(self.budget)

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
    def test_files(self) -> tuple[str, ...]:
        """Globs of files that hold tests, beside those known by convention."""
        return tuple(g for d in self.detectors for g in getattr(d, "files", ()))

    @cached_property
    def listeners(self) -> tuple[tuple[int, Detector], ...]:
        """The detectors, each with the bits of `Mark` that it hears: all by default."""
        return tuple((_heard_by(d), d) for d in self.detectors)

    @cached_property
    def shadowed(self) -> frozenset[str]:
        """Kinds of the detectors that only watch."""
        return frozenset(d.kind for d in self.detectors if d.shadow)


def _heard_by(detector: Detector) -> Any:
    """The bits that it hears; what another class's `observe` needs says nothing."""
    for cls in type(detector).__mro__:
        if "observe" in vars(cls) and "hears" not in vars(cls):
            return -1  # it looks for itself
        if "hears" in vars(cls):
            break
    return getattr(detector, "hears", -1)


def _items(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        wanted = "a Budget(...), or a list of them" if name == "budget" else "a list"
        raise PolicyError(f"{name}={value!r}: give {wanted}")
    return tuple(value)


def _check(policy: Policy) -> None:
    _check_type("ladder", policy.ladder, Ladder)
    for at, budget in enumerate(policy.budgets):
        _check_type(f"budget[{at}]", budget, Budget)
    _check_values("tools", policy.tools, ToolPolicy)
    _check_values("prices", policy.prices, Price)
    _check_off(policy.tools, _kinds(policy.detectors))
    _check_functions("progress", policy.progress, "a function of a Turn")
    _check_functions("advisors", policy.advisors or (), "an advisor")
    _check_choice("tool_errors", policy.tool_errors, ("raise", "return"))
    if not isinstance(policy.observe_only, bool):
        raise PolicyError(f"observe_only={policy.observe_only!r}: give True or False")
    for name in policy.leave_tools:
        _check_choice("leave_tools", name, ("give_up", "ask_user"))
    for act in policy.acts_off:
        _check_choice("acts_off", act, get_args(Act))


def _check_functions(where: str, functions: Sequence[Any], wanted: str) -> None:
    for at, function in enumerate(functions):
        if not callable(function):
            raise PolicyError(f"{where}[{at}]={function!r}: give {wanted}")


def _kinds(detectors: Sequence[Any]) -> tuple[str, ...]:
    """The kinds that a tool may be spared: those of `detectors`, and the defaults."""
    kinds: list[str] = []
    for at, detector in enumerate(detectors):
        if isinstance(detector, type) or not isinstance(detector, Detector):
            raise PolicyError(
                f"detectors[{at}]={detector!r} is not a detector: give an object like "
                "Repeat(times=3)"
            )
        if detector.kind in kinds:
            raise PolicyError(f"detectors[{at}]: there is a {detector.kind!r} already")
        kinds.append(detector.kind)
    return tuple(dict.fromkeys([*kinds, *(default.kind for default in DEFAULTS)]))


def _check_off(tools: Mapping[str, ToolPolicy], kinds: tuple[str, ...]) -> None:
    for tool, settings in tools.items():
        for kind in settings.off:
            _check_choice(f"tools[{tool!r}].off", kind, kinds)


def _check_values(where: str, value: Any, wanted: type) -> None:
    if not isinstance(value, Mapping):
        raise PolicyError(f"{where}={value!r}: give each by its name in a dict")
    for name, entry in value.items():
        _check_type(f"{where}[{name!r}]", entry, wanted)


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

PRESETS = tuple(_PRESETS)
"""Names for `Policy.preset`."""

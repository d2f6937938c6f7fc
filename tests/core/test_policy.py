"""All settings together, and what is refused of them."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, dataclass
from typing import Any, ClassVar

import pytest

from loopguard_lg import Budget, Churn, Policy, Repeat, ToolPolicy
from loopguard_lg.detectors import DEFAULTS
from loopguard_lg.errors import PolicyError
from loopguard_lg.findings import Finding
from loopguard_lg.history import History
from loopguard_lg.ladder import AskUser, Escalate, GiveUp, Ladder, Reflect
from loopguard_lg.policy import PRESETS
from loopguard_lg.steps import Turn


@dataclass(frozen=True)
class Own:
    """A detector that is not the library's."""

    kind: ClassVar[str] = "own"
    shadow: bool = True

    def observe(self, history: History) -> Finding | None:
        """It never finds anything."""
        return None


def passing(turn: Turn) -> bool:
    """A signal for tests."""
    return False


def test_the_defaults_watch_everything_and_bound_the_time() -> None:
    """All detectors, an hour of active time, and three rungs."""
    policy = Policy()

    assert policy.detectors == DEFAULTS
    assert policy.budget == Budget(seconds=3600)
    assert policy.ladder == Ladder(Reflect(), Escalate(), GiveUp())
    assert not policy.shadowed
    assert not policy.observe_only


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("detectors", [Repeat], r"detectors\[0\]=<class .*Repeat'> is not a detector"),
        (
            "detectors",
            ["repeat"],
            r"detectors\[0\]='repeat' is not a detector: give an",
        ),
        ("detectors", [Churn(), None], r"detectors\[1\]=None is not a detector"),
        ("detectors", Repeat(), r"detectors=Repeat\(.*\): give a list"),
        ("detectors", "repeat", "detectors='repeat': give a list"),
        (
            "detectors",
            [Repeat(), Repeat(times=9)],
            r"\[1\]: there is a 'repeat' already",
        ),
        ("ladder", [Reflect(), GiveUp()], r"ladder=\[.*\]: give a Ladder\(\.\.\.\)"),
        ("ladder", Ladder, r"ladder=<class .*Ladder'>: give a Ladder"),
        ("ladder", None, r"ladder=None: give a Ladder"),
        ("budget", 60, r"budget=60: give a Budget\(\.\.\.\), or a list of them"),
        ("budget", None, r"budget=None: give a Budget"),
        ("budget", {"steps": 60}, r"budget=\{'steps': 60\}: give a Budget"),
        ("budget", [Budget(), 60], r"budget\[1\]=60: give a Budget"),
        ("tools", [ToolPolicy()], r"tools=\[.*\]: give each by its name"),
        ("tools", {"a": "poll"}, r"tools\['a'\]='poll': give a ToolPolicy"),
        (
            "tools",
            {"a": ToolPolicy(off=("repeats",))},
            r"tools\['a'\]\.off='repeats': giv",
        ),
        ("prices", {"a": 1.5}, r"prices\['a'\]=1\.5: give a Price"),
        ("prices", [("a", 1.5)], r"prices=\[.*\]: give each by its name"),
        ("progress", passing, "progress=<function .*>: give a list"),
        ("progress", [passing, "x"], r"progress\[1\]='x': give a function of a Turn"),
        ("tool_errors", "ignore", "tool_errors='ignore': give one of raise, return"),
        ("tool_errors", ["raise"], r"tool_errors=\['raise'\]: give one of"),
        ("observe_only", "yes", "observe_only='yes': give True or False"),
        ("observe_only", 1, "observe_only=1: give True or False"),
        ("leave_tools", "give_up", "leave_tools='give_up': give a list"),
        (
            "leave_tools",
            ["leave"],
            "leave_tools='leave': give one of give_up, ask_user",
        ),
    ],
)
def test_a_wrong_setting_is_refused_by_name(
    setting: str, value: Any, message: str
) -> None:
    """The error has the setting, what was given, and what is right."""
    with pytest.raises(PolicyError, match=message):
        Policy(**{setting: value})


@pytest.mark.parametrize("how", [list, tuple, iter])
def test_any_iterable_of_detectors_will_do(how: Any) -> None:
    """It is kept as a tuple, so that nobody changes it afterwards."""
    policy = Policy(detectors=how([Repeat(), Own()]), progress=how([passing]))

    assert policy.detectors == (Repeat(), Own())
    assert policy.progress == (passing,)
    assert policy.shadowed == {"own"}


def test_a_tool_may_be_spared_any_detector_there_is() -> None:
    """Those of the library by their kinds, also where they are not used, and yours."""
    tools = {"a": ToolPolicy(off=("own", "repeat", "churn"))}

    assert Policy(detectors=[Own()], tools=tools).tools == tools


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("role", "browse"),
        ("role", 5),
        ("volatile", "id"),
        ("off", "repeat"),
        ("off", 5),
    ],
)
def test_a_tool_s_settings_are_checked(setting: str, value: Any) -> None:
    """A string is not a list of names, and roles are a closed list."""
    with pytest.raises(PolicyError, match=rf"ToolPolicy\.{setting}={value!r}: give"):
        ToolPolicy(**{setting: value})


def test_replace_derives_another_policy() -> None:
    """The first one stays as it is, and so do the other settings."""
    base = Policy(tool_errors="return")

    other = base.replace(observe_only=True)

    assert (other.observe_only, other.tool_errors) == (True, "return")
    assert not base.observe_only


def test_replace_refuses_what_is_no_setting() -> None:
    """The error lists the settings."""
    with pytest.raises(
        PolicyError, match="no setting 'budgets': there are detectors, "
    ):
        Policy().replace(budgets=Budget())


def test_a_policy_is_frozen() -> None:
    """It may be shared by threads."""
    with pytest.raises(FrozenInstanceError):
        Policy().observe_only = True  # type: ignore[misc]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_policy(name: str) -> None:
    """It survives processes, and knows its escalation's model."""
    policy = Policy.preset(name, stronger_model="strong")

    assert pickle.loads(pickle.dumps(policy)) == policy
    assert [r.model for r in policy.ladder.rungs if isinstance(r, Escalate)] == [
        "strong"
    ]


def test_settings_of_your_own_win_over_a_preset() -> None:
    """What is not given stays the preset's."""
    policy = Policy.preset("support", budget=Budget(steps=99))

    assert policy.budget == Budget(steps=99)
    assert isinstance(policy.ladder.rungs[-1], AskUser)


def test_a_model_and_a_ladder_are_not_given_both() -> None:
    """One of them would be ignored."""
    with pytest.raises(PolicyError, match="stronger_model='strong': a ladder is given"):
        Policy.preset("coding", stronger_model="strong", ladder=Ladder(GiveUp()))


@pytest.mark.parametrize("name", ["codng", "", None, 5])
def test_an_unknown_preset_is_refused(name: Any) -> None:
    """The error lists those that there are."""
    with pytest.raises(
        PolicyError, match=r"is not known: choose one of coding, lenient"
    ):
        Policy.preset(name)


@pytest.mark.parametrize(
    ("budget", "counts"),
    [
        (Budget(usd=1), True),
        (Budget(total_tokens=1), True),
        ([Budget(steps=1), Budget(output_tokens=5, scope="thread")], True),
        (Budget(steps=1, seconds=1), False),
        ([], False),
    ],
)
def test_tokens_count_where_a_budget_needs_them(budget: Any, counts: bool) -> None:
    """Only then they are worth an estimate."""
    assert Policy(budget=budget).counts_tokens == counts


def test_tools_with_a_limit_are_watched() -> None:
    """Of all budgets together."""
    budgets = [Budget(per_tool={"a": 1}), Budget(per_tool={"b": 1}, scope="thread")]

    assert Policy(budget=budgets).watched_tools == {"a", "b"}

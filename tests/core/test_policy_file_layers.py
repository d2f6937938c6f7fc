"""What wins over what, and where each value comes from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from loopguard_lg import Budget, Churn, Escalate, Ladder, Policy, Reflect, Repeat
from loopguard_lg.errors import PolicyError
from loopguard_lg.ladder import GiveUp
from loopguard_lg.policy_file import read_settings
from loopguard_lg.policy_schema import keys_of

if TYPE_CHECKING:
    from decimal import Decimal

FILE = """
preset = "coding"
[budget]
usd = 2.0
[detectors.repeat]
times = 4
[graphs.triage.budget]
steps = 20
[agents.researcher]
budget = {steps = 200}
detectors = {churn = {shadow = true}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a preset, a common part and sections."""
    path = tmp_path / "loopguard.toml"
    path.write_text(FILE, "utf-8")
    return path


@pytest.mark.parametrize(
    ("names", "env", "steps"),
    [
        ({}, {}, 50),
        ({"graph": "triage"}, {}, 20),
        ({"agent": "researcher"}, {}, 200),
        ({"graph": "triage", "agent": "researcher"}, {}, 200),
        ({"graph": "other", "agent": "other"}, {}, 50),
        ({"agent": "researcher"}, {"LOOPGUARD_BUDGET__STEPS": "7"}, 7),
        ({"agent": "a"}, {"LOOPGUARD_AGENTS__a__BUDGET__STEPS": "8"}, 8),
        ({"agent": "b"}, {"LOOPGUARD_AGENTS__a__BUDGET__STEPS": "8"}, 50),
        ({}, {"LOOPGUARD_BUDGET__STEPS": ""}, 50),
        ({}, {"LOOPGUARD_BUDGET__STEPS": "none"}, None),
        ({}, {"LOOPGUARD_PRESET": "research"}, None),
        ({}, {"loopguard_budget__steps": "7", "PATH": "/bin"}, 50),
    ],
)
def test_the_nearest_setting_wins(
    file: Path, names: dict[str, str], env: dict[str, str], steps: int | None
) -> None:
    """Preset, common part, graph, agent, environment; other limits are kept."""
    (budget,) = Policy.load(file, env=env, **names).budgets

    assert (budget.steps, budget.usd) == (steps, 2.0)


def test_what_is_said_in_code_wins(file: Path) -> None:
    """Over the environment as well; a model may be any object."""
    model = type("Model", (), {"invoke": None})()
    env = {"LOOPGUARD_BUDGET__STEPS": "7", "LOOPGUARD_STRONGER_MODEL": "weaker"}

    policy = Policy.load(
        file, env=env, stronger_model=model, budget=Budget(steps=3), detectors=[Churn()]
    )

    assert policy.budgets == (Budget(steps=3),)
    assert policy.detectors == (Churn(),)
    assert policy.ladder == Ladder(Reflect(), Escalate(model=model), GiveUp())


def test_a_stronger_model_beside_a_ladder_is_refused() -> None:
    """As in `Policy.preset`: the ladder has a place for it."""
    with pytest.raises(PolicyError, match="stronger_model='m': a ladder is given"):
        Policy.load("coding", env={}, stronger_model="m", ladder=Ladder(GiveUp()))


def test_the_environment_alone_makes_a_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file has to be there; the process's environment is the default."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPGUARD_PRESET", "support")
    monkeypatch.setenv("LOOPGUARD_DETECTORS__REPEAT__TIMES", "4")
    monkeypatch.setenv("LOOPGUARD_TOOL_ERRORS", "return")
    monkeypatch.setenv("LOOPGUARD_OBSERVE_ONLY", "True")

    policy = Policy.load()

    expected = Policy.preset("support", tool_errors="return", observe_only=True)
    assert policy.replace(detectors=expected.detectors) == expected
    assert Repeat(times=4) in policy.detectors


@pytest.mark.parametrize("name", ["loopguard.toml", "pyproject.toml"])
def test_a_file_of_the_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """`loopguard.toml`, or `pyproject.toml` where it speaks of loopguard."""
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text("[tool.other]\na = 1")

    assert Policy.load(env={}) == Policy()

    head = "[tool.loopguard]\n" if name == "pyproject.toml" else ""
    Path(name).write_text(f"{head}preset = 'lenient'")
    assert Policy.load(env={}) == Policy.preset("lenient")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.toml", "[budget]\nsteps = 7"),
        ("p.yaml", "budget:\n  steps: 7"),
        ("p.yml", "budget: {steps: 7}"),
        ("p.json", json.dumps({"$schema": "s.json", "budget": {"steps": 7}})),
        ("pyproject.toml", "[tool.loopguard.budget]\nsteps = 7"),
    ],
)
def test_the_formats_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    """A file is read as its name says; JSON may name its schema."""
    (tmp_path / name).write_text(text)

    (budget,) = Policy.load(tmp_path / name, env={}).budgets
    assert budget == Budget(steps=7, seconds=3600.0)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("p.yaml", "a: [b", "is no YAML: while parsing"),
        ("p.yaml", "- 1", "=[1]: give a table"),
        ("p.yaml", "tools: {1: {role: poll}}", "tools.1: 1 is no name, put it in quot"),
        ("p.json", "{", "is no JSON: Expecting"),
        ("p.ini", "", "a policy's name ends in .toml, .yaml, .yml or .json"),
        ("pyproject.toml", "[tool.loopguard]\nsteps = 1", "steps=1 is no setting"),
    ],
)
def test_what_cannot_be_read_names_the_file(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    """No traceback of a parser's comes through."""
    (tmp_path / name).write_text(text)

    with pytest.raises(PolicyError) as refused:
        Policy.load(tmp_path / name, env={})

    place = f"{name} [tool.loopguard]" if name == "pyproject.toml" else name
    assert f"{place}: {problem}" in str(refused.value)


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({"BUGDET__STEPS": "4"}, ": bugdet={'steps': 4} is no setting, did you mean b"),
        ({"BUDGET__STEPS": "x"}, ": budget.steps='x': it should be a valid integer"),
        ({"BUDGET__STEPS": "-1"}, ": budget.steps=-1: give a whole number above 0"),
        ({"BUDGET__STEPS__A": "1"}, ": budget.steps={'a': 1}: it should be a valid in"),
        ({"PRESET": "codng"}, ": preset='codng' is no preset, did you mean coding?"),
        ({"DETECTORS__CHURN__STEPS": "0"}, ": detectors.churn: Churn(steps=0): steps"),
        ({"PRICES__m__INPUT": "1"}, ": prices.m.output: has to be given"),
        ({"TOOLS__x__OFF": '["repeats"]'}, ": tools['x'].off='repeats': give one of"),
        ({"AGENTS__a__STEPS": "1"}, ": agents.a.steps=1 is no setting"),
        ({"": "1"}, ": =1 is no setting"),
    ],
)
def test_a_wrong_variable_is_named(env: dict[str, str], problem: str) -> None:
    """The error begins with it, and has the key, the value and what is allowed."""
    ((name, value),) = env.items()
    env = {f"LOOPGUARD_{name}": value}

    with pytest.raises(PolicyError) as refused:
        Policy.load("coding", env=env)

    assert str(refused.value).startswith(f"LOOPGUARD_{name}{problem}")


def test_several_budgets_are_not_changed_by_one(tmp_path: Path) -> None:
    """It would be a guess which of them is meant."""
    path = tmp_path / "p.toml"
    path.write_text("budget = [{steps = 5}, {usd = 2, scope = 'thread'}]")

    with pytest.raises(PolicyError, match=r"={'steps': 7}: there are 2 budgets, give"):
        Policy.load(path, env={"LOOPGUARD_BUDGET__STEPS": "7"})


def test_values_that_do_not_go_together_name_all_their_places(file: Path) -> None:
    """Four times within three turns: one is from the file, one from a variable."""
    env = {"LOOPGUARD_DETECTORS__REPEAT__WINDOW": "3"}

    with pytest.raises(PolicyError) as refused:
        Policy.load(file, env=env)

    (name,) = env
    assert str(refused.value) == (
        f"{name}: detectors.repeat: Repeat(window=3): window must be a whole number "
        "of at least 4"
    )


def test_a_section_for_others_is_checked_too(file: Path) -> None:
    """A typo is found before the agent that it is for is started."""
    file.write_text("[agents.other.detectors.repeat]\ntimes = 1")

    with pytest.raises(PolicyError, match=r"toml \[agents.other\]: detectors.repeat: "):
        Policy.load(file, env={})


def test_tables_by_name_are_filled_from_all_layers(file: Path) -> None:
    """Limits of tools and prices of models add up, one variable each."""
    env = {
        "LOOPGUARD_BUDGET__PER_TOOL__search": "3",
        "LOOPGUARD_BUDGET__PER_TOOL__fetch": "4",
        "LOOPGUARD_TOOLS__CHECK_CI__ROLE": "poll",
        "LOOPGUARD_TOOLS": '{"search": {"volatile": ["id"]}}',
    }

    policy = Policy.load(file, env=env)

    assert policy.budgets[0].per_tool == {"search": 3, "fetch": 4}
    assert policy.tools["check_ci"].role == "poll"
    assert policy.tools["search"].volatile == ("id",)


def origins(source: Any, env: Mapping[str, str], **names: str) -> dict[str, str]:
    """Where each setting that is not a default comes from."""
    rows = read_settings(source, env=env, **names).rows()
    return {key: s.origin for key, s in rows if s.origin != "default"}


def test_every_value_has_its_origin(file: Path) -> None:
    """The preset, the file, its section or the variable that set it last."""
    env = {"LOOPGUARD_DETECTORS__REPEAT__TIMES": "5"}

    found = origins(file, env, agent="researcher")

    assert found == {
        "detectors.repeat.times": "LOOPGUARD_DETECTORS__REPEAT__TIMES",
        "detectors.churn.shadow": f"{file} [agents.researcher]",
        "budget.steps": f"{file} [agents.researcher]",
        "budget.usd": str(file),
        "budget.seconds": "preset coding",
    }


def test_a_ladder_has_its_origins_rung_by_rung() -> None:
    """A preset's own ladder is of the preset, a new rung of who brought it."""
    found = origins("support", {"LOOPGUARD_LADDER__ESCALATE__TURNS": "3"})

    ladder = {key: origin for key, origin in found.items() if "ladder" in key}
    assert ladder == {
        "ladder.rungs.0.rung": "preset support",
        "ladder.rungs.1.rung": "preset support",
        "ladder.rungs.1.turns": "LOOPGUARD_LADDER__ESCALATE__TURNS",
        "ladder.rungs.2.rung": "preset support",
    }


def test_several_budgets_are_numbered(tmp_path: Path) -> None:
    """So that each has its own keys and origins."""
    path = tmp_path / "p.json"
    path.write_text('{"budget": [{"steps": 5}, {"usd": 2}]}')

    found = origins(path, {})

    assert found == {"budget.0.steps": str(path), "budget.1.usd": str(path)}


@dataclass
class Parts:
    """What a dataclass of settings may hold."""

    name: str = ""
    model: Any = None
    share: float | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    amount: Decimal | int = 0
    signals: tuple[Callable[[int], bool], ...] = ()


def test_what_no_file_can_hold_has_no_schema() -> None:
    """Functions, and classes that are only known to a type checker."""
    schemas = {name: key.schema for name, key in keys_of(Parts).items()}

    assert schemas["limits"] == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }
    assert schemas["model"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert [name for name, schema in schemas.items() if schema is None] == [
        "amount",
        "signals",
    ]

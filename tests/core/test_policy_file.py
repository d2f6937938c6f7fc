"""A policy by name, from a file, and from the environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from loopguard_lg import (
    AskUser,
    Budget,
    Escalate,
    GiveUp,
    Ladder,
    Policy,
    Reflect,
    Repeat,
)
from loopguard_lg.detectors import DEFAULTS, Detector
from loopguard_lg.errors import PolicyError
from loopguard_lg.policy import PRESETS

Load: TypeAlias = Callable[..., Policy]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """The policy of a `loopguard.toml` with this text, or of another file."""

    def from_text(text: str, name: str = "loopguard.toml", **given: Any) -> Policy:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return Policy.load(path, **{"env": {}, **given})

    return from_text


def detector(policy: Policy, kind: str) -> Any:
    """The detector of this kind, `None` where it is switched off."""
    return {spec.kind: spec for spec in policy.detectors}.get(kind)


def test_an_empty_file_is_the_defaults(load: Load) -> None:
    """Nothing has to be set."""
    assert load("") == Policy()


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_loaded_by_its_name(name: str, load: Load) -> None:
    """From the command line, and as the base of a file."""
    assert (
        Policy.load(name, env={}) == load(f"preset = '{name}'") == Policy.preset(name)
    )


def test_a_file_wins_over_a_preset_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there is what was meant."""
    (tmp_path / "coding").write_text("observe_only = true")
    monkeypatch.chdir(tmp_path)

    assert Policy.load("coding", env={}) == Policy(observe_only=True)


def test_a_pyproject_has_it_under_its_tool(tmp_path: Path) -> None:
    """The rest of the file is not looked at."""
    path = tmp_path / "pyproject.toml"
    path.write_text("[project]\nname = 'x'\n[tool.loopguard]\npreset = 'support'")

    assert Policy.load(str(path), env={}) == Policy.preset("support")


def test_several_budgets_are_a_list(load: Load) -> None:
    """One for the run and one for the thread."""
    text = "[[budget]]\nsteps = 5\n[[budget]]\nusd = 2\nscope = 'thread'"

    assert load(text).budgets == (Budget(steps=5), Budget(usd=2, scope="thread"))


def test_a_budget_changes_the_limits_that_it_names(load: Load) -> None:
    """The preset's other limits hold; a list stands for the whole."""
    preset = Policy.preset("coding").budgets[0]
    more = "per_tool = {search = 3}"

    table = load(f"preset = 'coding'\n[budget]\n{more}").budgets
    whole = load(f"preset = 'coding'\n[[budget]]\n{more}").budgets

    assert table == (replace(preset, per_tool={"search": 3}),)
    assert whole == (Budget(per_tool={"search": 3}),)


def test_a_detector_keeps_what_is_not_set(load: Load) -> None:
    """And the other detectors stay as they are."""
    policy = load("[detectors.repeat]\nshadow = true")

    assert detector(policy, "repeat") == Repeat(shadow=True)
    assert len(policy.detectors) == len(Policy().detectors)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("[detectors]\nchurn = false", {"churn": False}),
        ("[detectors.churn]\nenabled = false", {"churn": False}),
        ("detectors = ['repeat', {kind = 'churn', steps = 9}]", {"repeat", "churn"}),
    ],
)
def test_detectors_are_switched_off_or_listed(
    text: str, kinds: Any, load: Load
) -> None:
    """One by one, or all but those of a list, which is in its own order."""
    found = [spec.kind for spec in load(text).detectors]

    if isinstance(kinds, dict):
        assert found == [s.kind for s in Policy().detectors if s.kind not in kinds]
    else:
        assert found == ["repeat", "churn"]


@pytest.mark.parametrize("spec", DEFAULTS, ids=lambda spec: spec.kind)
def test_every_detector_can_watch_in_the_shadow(spec: Detector, load: Load) -> None:
    """By a file, whatever it looks for."""
    policy = load(f"[detectors.{spec.kind}]\nshadow = true")

    assert policy.shadowed == {spec.kind}


@pytest.mark.parametrize(
    ("table", "ladder"),
    [
        ("[ladder]\nreflect = false", Ladder(Escalate(), AskUser())),
        ("[ladder]\nescalate = false", Ladder(Reflect(), AskUser())),
        (
            "[ladder]\nescalate = {turns = 2}",
            Ladder(Reflect(), Escalate(turns=2), AskUser()),
        ),
        ("[ladder]\nexit = 'give_up'", Ladder(Reflect(), Escalate(), GiveUp())),
        ("[ladder]\nmost = 3", Ladder(Reflect(), Escalate(), AskUser(), most=3)),
        ("[ladder]\nreflect = false\nescalate = false", Ladder(AskUser())),
        (
            "ladder = ['reflect', {rung = 'reflect', tokens = 9}, 'give_up']",
            Ladder(Reflect(), Reflect(tokens=9), GiveUp()),
        ),
        (
            "[ladder]\nrungs = ['give_up']\nescalate = true\nreflect = {tokens = 9}",
            Ladder(Reflect(tokens=9), Escalate(), GiveUp()),
        ),
        ("stronger_model = 'm'", Ladder(Reflect(), Escalate(model="m"), AskUser())),
    ],
)
def test_a_ladder_is_changed_rung_by_rung_or_listed(
    table: str, ladder: Ladder, load: Load
) -> None:
    """What is not named stays as in the preset; a missing rung comes to its place."""
    assert load(f"preset = 'support'\n{table}").ladder == ladder


def test_every_rung_of_a_kind_is_set(load: Load) -> None:
    """A preset may reflect twice."""
    text = "preset = 'lenient'\n[ladder]\nreflect = {tokens = 300}"

    assert load(text).ladder.rungs[:2] == (Reflect(tokens=300), Reflect(tokens=300))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stpes = 5", "stpes=5 is no setting. There are preset, stronger_model, "),
        ("budgets = 5", "budgets=5 is no setting, did you mean budget? There are "),
        ("progress = 1", "progress=1: can only be given in Python"),
        ("preset = 'codng'", "preset='codng' is no preset, did you mean coding?"),
        ("preset = [1]", "preset=[1] is no preset. There are coding, "),
        (
            "tool_errors = 'stop'",
            "tool_errors='stop': it should be 'raise' or 'return'",
        ),
        ("observe_only = 1", "observe_only=1: it should be a valid boolean"),
        ("leave_tools = ['x']", "leave_tools.0='x': it should be 'give_up' or "),
        ("budget = 60", "budget=60: give a table of settings"),
        (
            "[budget]\nstep = 6",
            "budget.step=6 is no setting, did you mean steps? There",
        ),
        ("[budget]\nlimits = []", "budget.limits=[] is no setting"),
        ("[budget]\nsteps = '6'", "budget.steps='6': it should be a valid integer"),
        ("[budget]\nsteps = 1.5", "budget.steps=1.5: it should be a valid integer"),
        ("[budget]\nsteps = true", "budget.steps=True: it should be a valid integer"),
        ("[budget]\nsteps = 0", "budget.steps=0: give a whole number above 0"),
        ("[budget]\nusd = nan", "budget.usd=nan: give a number above 0"),
        ("[budget]\nper_tool = {a = 'x'}", "budget.per_tool.a='x': it should be a val"),
        (
            "[detectors.repeats]",
            "detectors.repeats={} is no setting, did you mean repe",
        ),
        ("[detectors]\nchurn = 3", "detectors.churn=3: give a table of settings"),
        (
            "[detectors.churn]\nenabled = 'no'",
            "detectors.churn.enabled='no': it should",
        ),
        ("[detectors.churn]\nkind = 'x'", "detectors.churn.kind='x' is no setting"),
        (
            "[detectors.repeat]\ntimes = 1",
            "detectors.repeat: Repeat(times=1): times mu",
        ),
        ("[tools.x]\nrole = 'polls'", "tools.x.role='polls': it should be 'read', "),
        ("[tools.x]\noff = ['a']", "tools['x'].off='a': give one of "),
        ("[prices.x]\ninput = 1", "prices.x.output: has to be given"),
        ("[prices.x]\ninput = -1\noutput = 1", "prices.x: price.input=-1.0: give US"),
        ("[ladder]\nrungs = 1", "ladder.rungs=1: give a list of rungs"),
        ("[ladder]\nreflect = 1", "ladder.reflect=1: give a table of settings"),
        ("[ladder]\nreflect = {tokens = 0}", "ladder.reflect: Reflect.tokens=0: give"),
        ("[ladder]\nescalate = {model = 5}", "ladder.escalate.model=5: it should be"),
        ("[ladder]\nexit = 'giveup'", "ladder.exit='giveup' is no exit, did you mean "),
        (
            "[ladder]\nexit = []",
            "ladder.exit=[] is no exit. There are give_up, ask_user",
        ),
        ("[ladder]\nmost = 0", "ladder: Ladder.most=0: give a whole number"),
        ("ladder = ['reflect']", "ladder: Ladder(Reflect): the last rung, and only"),
        ("ladder = ['nudge', 1]", "ladder.0.rung='nudge' is no rung. There are refl"),
        ("ladder = [1]", "ladder.0=1: give a table of settings"),
        ("[ladder]\nmots = 8", "ladder.mots=8 is no setting, did you mean most? The"),
        ("[ladder]\nmost = '8'", "ladder.most='8': it should be a valid integer"),
        ("detectors = [{times = 4}]", "detectors.0.kind=None is no kind. There are t"),
        ("[[budget]]\nstep = 6", "budget.0.step=6 is no setting, did you mean"),
        (
            "stronger_model = 'm'\nladder = ['give_up']",
            "stronger_model='m': the ladder has no escalate",
        ),
        ("agents = 5", "agents=5: give a table of settings"),
        ("[agents.a.budget]\nstep = 6", "agents.a.budget.step=6 is no setting, did"),
        ("[graphs.a]\nagents = {}", "graphs.a.agents={} is no setting"),
        ("a = ", "is no TOML: Invalid value (at "),
    ],
)
def test_a_wrong_setting_is_named(
    text: str, message: str, load: Load, tmp_path: Path
) -> None:
    """The error has the file, the key, its value, and what is allowed."""
    with pytest.raises(PolicyError) as refused:
        load(text)

    assert str(refused.value).startswith(f"{tmp_path}/loopguard.toml: {message}")
    assert "\n" not in str(refused.value).partition("is no TOML")[0]


def test_what_is_neither_file_nor_preset_is_refused() -> None:
    """With the preset that may have been meant."""
    with pytest.raises(
        PolicyError, match="'suport' is neither a file nor a preset, did"
    ):
        Policy.load("suport")


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.write_bytes(b"\xff")])
def test_what_cannot_be_read_is_refused(tmp_path: Path, make: Any) -> None:
    """A folder, or what is no text."""
    path = tmp_path / "policy.toml"
    make(path)

    with pytest.raises(
        PolicyError, match=r"policy\.toml: (can't be read|is no TOML): "
    ):
        Policy.load(path)


def test_a_path_is_never_a_preset(tmp_path: Path) -> None:
    """A file that is not there is missing, whatever it is called."""
    with pytest.raises(PolicyError, match=r"coding: can't be read: No such file"):
        Policy.load(tmp_path / "coding")


def test_a_pyproject_without_the_tool_is_refused(tmp_path: Path) -> None:
    """It would silently be the defaults."""
    path = tmp_path / "pyproject.toml"
    path.write_text("[tool.other]")

    with pytest.raises(
        PolicyError, match=r"pyproject\.toml: has no \[tool\.loopguard\]"
    ):
        Policy.load(path)


def test_a_preset_needs_no_pydantic() -> None:
    """Types of files are checked by it, and only then it is imported."""
    code = (
        "import sys; from loopguard_lg import Policy\n"
        "Policy.load('coding', env={}); print('pydantic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "False"

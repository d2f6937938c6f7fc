from __future__ import annotations

import json
from pathlib import Path

import pytest

from loopguard_lg import (
    AskUser,
    Budget,
    Escalate,
    Ladder,
    Policy,
    Reflect,
    Repeat,
    ToolPolicy,
)
from loopguard_lg.errors import PolicyError
from loopguard_lg.policyfile import load_policy

from .conftest import Shell

EVERYTHING = """
preset = "coding"
stronger_model = "strong"
ladder = ["reflect", { rung = "escalate", turns = 3 }, "ask_user"]
tool_errors = "return"

[budget]
steps = 60

[detectors]
churn = false
repeat = { times = 4, window = 12 }

[tools.check_ci]
role = "poll"
volatile = ["nonce"]

[prices.mine]
input = 1.0
output = 2.0
"""


def load(folder: Path, text: str, suffix: str = ".toml") -> Policy:
    """The policy of a file with this text."""
    path = folder / f"policy{suffix}"
    path.write_text(text, encoding="utf-8")
    return load_policy(path)


def test_everything_can_be_set(tmp_path: Path) -> None:
    """A file says what Python says, but for functions."""
    policy = load(tmp_path, EVERYTHING)

    by_kind = {spec.kind: spec for spec in policy.detectors}
    assert by_kind["repeat"] == Repeat(times=4, window=12)
    assert "churn" not in by_kind
    assert policy.ladder == Ladder(
        Reflect(), Escalate(model="strong", turns=3), AskUser()
    )
    assert policy.budgets == (Budget(steps=60),)
    assert policy.tools == {"check_ci": ToolPolicy(role="poll", volatile=("nonce",))}
    assert policy.tool_errors == "return"


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".toml", "[budget]\nsteps = 7"),
        (".yaml", "budget:\n  steps: 7"),
        (".yml", "budget: [{steps: 7}]"),
        (".json", json.dumps({"budget": {"steps": 7}})),
    ],
)
def test_the_formats_say_the_same(tmp_path: Path, suffix: str, text: str) -> None:
    """TOML, YAML and JSON are read by the file's name."""
    assert load(tmp_path, text, suffix).budgets == (Budget(steps=7),)


def test_the_documented_file_loads(tmp_path: Path) -> None:
    """The example of the docs is a policy."""
    page = Path(__file__).parents[2] / "docs" / "policy-file.md"
    example = page.read_text("utf-8").split("```toml\n")[1].split("```")[0]

    policy = load(tmp_path, example)

    assert policy.leave_tools == ("give_up", "ask_user")
    assert Escalate(model="openai:gpt-5.5", turns=3) in policy.ladder.rungs


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    """What is not set is as in `Policy()`."""
    assert load(tmp_path, "") == Policy()


def test_a_stronger_model_needs_no_ladder(tmp_path: Path) -> None:
    """The model goes to the escalation of the default ladder."""
    rungs = load(tmp_path, 'stronger_model = "strong"').ladder.rungs

    assert Escalate(model="strong") in rungs


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("budget = 5", "budget: give a table of settings, not 5"),
        ("[budget]\nstep = 5", "budget.step: there are steps, "),
        ("[budget]\nsteps = -1", "steps"),
        ("[detectors]\nrepeats = false", "detectors.repeats: there are tampering, "),
        ("[detectors.repeat]\ntime = 3", "detectors.repeat.time: there are times, "),
        ("[detectors.repeat]\ntimes = 0", "Repeat(times=0)"),
        ('ladder = "reflect"', "ladder: give a list of rungs"),
        ('ladder = ["nudge"]', "ladder: 'nudge' is no rung: there are reflect, "),
        ('ladder = ["reflect"]', "the last rung"),
        ('[tools.x]\nrole = "browse"', "role='browse': give one of read, "),
        ('preset = "brisk"', "preset 'brisk' is not known"),
        ("progress = []", "progress: functions can only be given in Python"),
        ("observe = true", "policy has no setting 'observe'"),
        ("[prices.x]\ninput = 1", "output"),
        ("[budget", "Expected"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, problem: str) -> None:
    """The error says which file, which setting, and what there is."""
    with pytest.raises(PolicyError) as caught:
        load(tmp_path, text)

    assert str(caught.value).startswith(f"{tmp_path}/policy.toml: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("suffix", "text"),
    [(".yaml", "a: [b"), (".yaml", "- 1"), (".json", "{"), (".ini", "")],
)
def test_a_broken_file_is_an_error_with_its_name(
    tmp_path: Path, suffix: str, text: str
) -> None:
    """What can't be parsed is no traceback of the parser's."""
    with pytest.raises(PolicyError, match=rf"policy\{suffix}: "):
        load(tmp_path, text, suffix)


def test_check_takes_a_policy_file(loopguard: Shell, loop: dict[str, object]) -> None:
    """`--policy` reads a file, and what is wrong with it is one line."""
    runs = loopguard.write("r.jsonl", loop)
    file = loopguard.write("p.toml", "[detectors]", "repeat = {times = 5}")
    wrong = loopguard.write("w.toml", "detectors = 1")

    assert "step 3, near_repeat" in loopguard("check", runs, "--policy", file)[1]
    status, _, err = loopguard("check", runs, "--policy", wrong)
    assert (status, err.count("\n")) == (2, 1)

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from loopguard_lg.analysis.labels import read_labels
from loopguard_lg.cli.judge import _model

from .conftest import Shell

MODELS = """
from threading import Event
from loopguard_lg.testing import ScriptedModel, call

def says(messages):
    right = "no results" in messages[-1].text
    verdict = "right" if right else "wrong"
    return call("judgement", verdict=verdict, kind="repeat", reason="so it is")

JUDGE = ScriptedModel([says], loop=True)
BROKEN = ScriptedModel([RuntimeError("no credit left")], loop=True)
HUNG = ScriptedModel([lambda messages: Event().wait()], loop=True)
NO_MODEL = 3
"""


@pytest.fixture
def models(loopguard: Shell, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with judges in the current folder; each test's has its own name."""
    monkeypatch.chdir(loopguard.folder)
    name = f"judges_{loopguard.folder.name}".replace("-", "_")
    Path(loopguard.folder, f"{name}.py").write_text(MODELS)
    return name


@pytest.fixture
def files(loopguard: Shell, trajectory: Any) -> list[str]:
    """Twelve loops and twelve polls that trip, and what people say of most."""
    words = {n: "no results" if n % 2 else "Still running." for n in range(24)}
    runs = [trajectory(f"run{n}", *[text] * 8) for n, text in words.items()]
    people = [{"id": f"run{n}", "loop": n % 2 == 1} for n in range(20)]
    paths = loopguard.write("r.jsonl", *runs), loopguard.write("l.jsonl", *people)
    return [paths[0], "--labels", paths[1]]


def test_a_judge_that_agrees_gives_a_rate(
    loopguard: Shell, models: str, files: list[str]
) -> None:
    """Every exit is judged, compared with people, and kept."""
    status, out, err = loopguard("judge", *files, "--model", f"{models}:JUDGE")

    assert (status, err) == (0, "")
    assert "24 exits judged, 0 of them unclear" in out
    assert "judge and people: same in 100.0% of 20; kappa 1.00" in out
    assert "correct exits: 50.0% (31.4% to 68.6%)" in out
    assert read_labels("judged.jsonl")["run1"].reason == "so it is"


def test_a_judge_is_asked_once(loopguard: Shell, models: str, files: list[str]) -> None:
    """A second start reads what was said, even with a judge that fails now."""
    loopguard("judge", *files, "--model", f"{models}:JUDGE")
    path = Path(f"{models}.py")
    path.write_text(MODELS.replace("[says]", '[RuntimeError("asked again")]'))

    status, out, _ = loopguard("judge", *files, "--model", f"{models}:JUDGE", "--json")

    assert status == 0
    assert json.loads(out)["correct_exits"]["n"] == 24


def test_too_little_agreement_is_status_one(
    loopguard: Shell, models: str, files: list[str]
) -> None:
    """There is no rate then, and the reason is said."""
    args = ["judge", *files, "--model", f"{models}:JUDGE", "--min-labels", "21"]
    status, out, err = loopguard(*args)

    assert status == 1
    assert "correct exits" not in out
    assert "no rate is reported: 20 exits have a label by a person" in err


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ("BROKEN", "the judge failed: no credit left"),
        ("HUNG", "the judge failed: no answer in 0.5 seconds"),
        ("NO_MODEL", "3 is no chat model"),
    ],
)
def test_a_judge_that_fails_is_one_line(
    loopguard: Shell, models: str, files: list[str], model: str, problem: str
) -> None:
    """What was judged until then is kept; nothing is a traceback."""
    args = ["judge", *files, "--model", f"{models}:{model}", "--timeout", "0.5"]
    status, out, err = loopguard(*args)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert problem in err


def test_a_provider_s_model_is_made_by_its_name(
    loopguard: Shell, files: list[str]
) -> None:
    """A name that is no Python object is LangChain's; a wrong one is an error."""
    assert _model("openai:o3") == "openai:o3"
    assert _model("openai:gpt-4.1-mini") == "openai:gpt-4.1-mini"
    assert _model("langchain_openai:ChatOpenAI") is ChatOpenAI

    status, _, err = loopguard("judge", *files, "--model", "no_such:thing-1")

    assert status == 2
    assert "'no_such:thing-1' can't be made" in err

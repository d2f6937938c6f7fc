"""Settings under the names that hooks of coding agents have for them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from loopguard_lg import Policy
from loopguard_lg.detectors import Detector
from loopguard_lg.errors import PolicyError
from loopguard_lg.policy_file import read_settings

HOOKED: dict[str, Any] = {
    "loop": {
        "failing_edits": 5,
        "repeated_errors": 4,
        "block_ignored": False,
        "edit_threshold": 6,
        "edit_window_seconds": 120,
    },
    "tampering": {"enabled": False},
    "bloat": {"context_tokens": 90_000, "tool_output_kb": 250},
}
TOML = "\n".join(
    f"[{table}]\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in values.items())
    for table, values in HOOKED.items()
)


def by_kind(policy: Policy) -> dict[str, Any]:
    """The detectors by kind."""
    found: dict[str, Detector] = {d.kind: d for d in policy.detectors}
    return found


def check(policy: Policy) -> None:
    """All eight hold."""
    found = by_kind(policy)
    assert found["failing_edits"].times == 5
    assert found["recurring_error"].times == 4
    assert (found["edit_rate"].edits, found["edit_rate"].seconds) == (6, 120)
    assert "tampering" not in found
    assert (found["bloat"].tokens, found["bloat"].output) == (90_000, 250_000)
    assert not policy.ladder.block_ignored


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("loopguard.toml", TOML),
        ("loopguard.yaml", yaml.safe_dump(HOOKED)),
        ("loopguard.json", json.dumps(HOOKED)),
        ("pyproject.toml", TOML.replace("[", "[tool.loopguard.")),
    ],
)
def test_they_hold_in_every_file(tmp_path: Path, name: str, text: str) -> None:
    """TOML, YAML, JSON, and the project's own file."""
    (tmp_path / name).write_text(text)

    check(Policy.load(tmp_path / name, env={}))


def test_they_hold_in_the_folder_of_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found without a name, too."""
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text(TOML.replace("[", "[tool.loopguard."))

    check(Policy.load(env={}))


def test_they_hold_in_the_environment() -> None:
    """Two underscores join table and key."""
    env = {
        f"LOOPGUARD_{table}__{key}".upper(): json.dumps(value)
        for table, values in HOOKED.items()
        for key, value in values.items()
    }

    check(Policy.load("coding", env=env))


def test_they_hold_for_one_agent(tmp_path: Path) -> None:
    """In a section."""
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump({"agents": {"coder": HOOKED}}))

    check(Policy.load(path, agent="coder", env={}))
    assert Policy.load(path, env={}) == Policy()


def test_the_own_key_of_a_detector_wins(tmp_path: Path) -> None:
    """Where a file has both."""
    path = tmp_path / "p.json"
    own = {"failing_edits": {"times": 7}}
    path.write_text(json.dumps({"detectors": own, "loop": {"failing_edits": 5}}))

    assert by_kind(Policy.load(path, env={}))["failing_edits"].times == 7


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"loop": {"failing_edit": 3}}, "loop.failing_edit=3 is no setting, did you"),
        ({"loop": {"failing_edits": "3"}}, "loop.failing_edits='3': it should be a"),
        (
            {"loop": {"failing_edits": 1}},
            "loop.failing_edits: detectors.",
        ),
        (
            {"loop": {"edit_threshold": 99}},
            "loop.edit_threshold: detectors.",
        ),
        ({"loop": {"block_ignored": 1}}, "loop.block_ignored=1: it should be a valid"),
        (
            {"bloat": {"tool_output_kb": 0}},
            "bloat.tool_output_kb: detectors",
        ),
        ({"bloat": {"tool_output_kb": math.inf}}, "bloat.tool_output_kb"),
        ({"tampering": False}, "tampering=False: give a table"),
    ],
)
def test_what_is_wrong_is_named_as_it_was_written(
    tmp_path: Path, data: dict[str, Any], said: str
) -> None:
    """Place, key, value, and what is right."""
    path = tmp_path / "p.json"
    path.write_text(json.dumps(data))
    with pytest.raises(PolicyError) as caught:
        Policy.load(path, env={})

    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)


def test_where_a_value_comes_from_names_the_key(tmp_path: Path) -> None:
    """So that `policy show` leads to the line."""
    path = tmp_path / "p.json"
    path.write_text(json.dumps(HOOKED))
    origins = {key: s.origin for key, s in read_settings(path, env={}).rows()}

    assert origins["detectors.edit_rate.edits"] == f"{path} loop.edit_threshold"

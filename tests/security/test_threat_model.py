"""The threat model names tests that exist, and every threat has one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
THREATS = dict(
    re.findall(
        r"^### (T\d+) .*?$(.*?)(?=^### |\Z)",
        (ROOT / "THREAT_MODEL.md").read_text("utf-8"),
        re.DOTALL | re.MULTILINE,
    )
)


@pytest.mark.parametrize("threat", THREATS)
def test_every_test_that_a_threat_names_exists(threat: str) -> None:
    """File and function, as pytest calls them."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", THREATS[threat])
    assert named

    for file, name in named:
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        assert name in [n.name for n in ast.walk(tree) if isinstance(n, kinds)], file


@pytest.mark.parametrize("threat", THREATS)
def test_every_threat_says_what_is_done_and_what_is_left(threat: str) -> None:
    """A defence without a remainder is one that nobody has thought about."""
    for part in ("* Defence: ", "* Tests: ", "* Left: "):
        assert part in THREATS[threat]


def test_no_threat_is_left_out() -> None:
    """They are numbered, one after the other."""
    assert [*THREATS] == [f"T{n}" for n in range(1, len(THREATS) + 1)]
    assert len(THREATS) > 10

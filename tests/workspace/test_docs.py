"""The pages on coding agents and their files, checked."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/coding-agents.md").read_text("utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


def test_every_row_names_a_test() -> None:
    """No feature is listed that nothing shows."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    features = [row for row in rows if "---" not in row and "shown by" not in row]

    assert len(features) == len(NAMED) > 45


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED)))
def test_every_named_test_runs(path: str, name: str) -> None:
    """The file has a test of that name for pytest to collect, and nothing skips it."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    found = {node.name: node for node in tree.body if isinstance(node, kinds)}

    assert name in found
    marks = [ast.unparse(mark).partition("(")[0] for mark in found[name].decorator_list]
    assert not re.search(r"skip|xfail", " ".join(marks))

"""The pages on coding agents and their files, run and checked."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from loopguard_lg.testing.doubles import ScriptedModel
from tests.workspace.coding import repository, tools

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/coding-agents.md").read_text("utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


def test_every_row_names_a_test() -> None:
    """No feature is listed that nothing shows."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    features = [row for row in rows if "---" not in row and "shown by" not in row]

    assert len(features) == len(NAMED) > 45


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED)))
def test_every_named_test_exists(path: str, name: str) -> None:
    """The file has a test function of that name."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef

    assert name in {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


@pytest.mark.parametrize("page", ["coding-agents", "workspace"])
def test_the_code_of_the_page_runs(
    page: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block does what it says."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    repository(root)
    names: dict[str, Any] = {
        "folder": root,
        "elsewhere": tmp_path / "store",
        "model": ScriptedModel(default="done"),
        "tools": tools(root),
    }
    text = (ROOT / f"docs/{page}.md").read_text("utf-8")

    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)
    if page == "workspace":
        assert asyncio.run(names["orchestrate"]()).act == "done"
        assert len(names["stores"](None, None)) == 2

"""The pages on servers, run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from loopguard_lg.testing import ledger_kit
from loopguard_lg.testing.doubles import ScriptedModel
from tests.middleware.runs import TOOLS

DOCS = Path(__file__).parents[2] / "docs"


def run(page: str) -> dict[str, Any]:
    """Run every block of a page; the names it leaves."""
    names: dict[str, Any] = {"model": ScriptedModel(default="hello"), "tools": TOOLS}
    text = (DOCS / page).read_text("utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)
    return names


def test_the_page_on_fleet_budgets_runs() -> None:
    """Every block does what it says, and the checks in it pass."""
    names = run("fleet-budgets.md")
    for check in ledger_kit.CHECKS:
        names["test_my_ledger"](check)

    assert names["fleet"].when_down == "closed"

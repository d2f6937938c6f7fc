"""The pages on servers, run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from loopguard_lg.testing import ledger_kit
from loopguard_lg.testing.doubles import ScriptedModel
from tests.middleware.runs import TOOLS

DOCS = Path(__file__).parents[2] / "docs"


def run(page: str, **known: Any) -> dict[str, Any]:
    """Run every block of a page; the names it leaves."""
    names = {"model": ScriptedModel(default="hello"), "tools": TOOLS, **known}
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


def test_the_page_on_checkpointers_runs(tmp_path: Path) -> None:
    """A thread is found again, and each label of the page makes a fleet."""
    names = run("checkpointers.md", path=str(tmp_path / "threads.db"))

    asked = {"configurable": {"langgraph_auth_user_id": "ann"}}
    assert names["fleet"].labels(asked, None) == {"user": "ann"}

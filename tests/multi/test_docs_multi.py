"""The pages on several agents and on asking, run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import TOOLS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["asking.md"])
def test_the_code_of_the_page_runs(page: str) -> None:
    """Every block stands on those before it."""
    loops = ScriptedModel(
        default=lambda messages: (
            "found" if "archive" in str(messages) else call("search", query="x")
        )
    )
    names: dict[str, Any] = {"model": loops, "tools": TOOLS}
    text = (DOCS / page).read_text("utf-8")

    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)

    assert names["state"]["messages"][-1].text == "found"

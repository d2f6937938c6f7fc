"""The pages on several agents and on asking, run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import TOOLS

DOCS = Path(__file__).parents[2] / "docs"


def models() -> dict[str, Any]:
    """The models that the pages speak of."""
    loops = ScriptedModel(
        default=lambda messages: (
            "found" if "archive" in str(messages) else call("search", query="x")
        )
    )
    asks = call("transfer_to_bob", task="the tax of order 17", done_when="it is known")
    return {
        "model": loops,
        "lead_model": ScriptedModel(model_name="gpt-5"),
        "worker_model": ScriptedModel(),
        "alice_model": ScriptedModel(replies=[asks]),
        "bob_model": ScriptedModel(replies=["found"]),
    }


@pytest.mark.parametrize("page", ["asking.md", "multi-agent.md"])
def test_the_code_of_the_page_runs(page: str) -> None:
    """Every block stands on those before it."""
    names: dict[str, Any] = {**models(), "tools": TOOLS}
    text = (DOCS / page).read_text("utf-8")

    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)

    assert names["state"]["messages"][-1].text == "found"


def test_the_page_says_what_coverage_says() -> None:
    """Of an agent whose tool runs a guarded one."""
    names: dict[str, Any] = {**models(), "tools": TOOLS}
    text = (DOCS / "multi-agent.md").read_text("utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:2]:
        exec(block, names)

    assert str(names["report"]["children"]).replace("'", '"') in text

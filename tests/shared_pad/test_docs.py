"""The page on the shared scratchpad, run."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from loopguard_lg.testing import store_kit
from loopguard_lg.testing.doubles import ScriptedModel
from tests.middleware.runs import TOOLS
from tests.shared_pad.onnx_model import write

PAGE = (Path(__file__).parents[2] / "docs/shared-scratchpad.md").read_text("utf-8")


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    """Every block does what it says, and the checks in it pass."""
    names: dict[str, Any] = {
        "model": ScriptedModel(replies=["hello"]),
        "tools": TOOLS,
        "folder": write(tmp_path, ["[UNK]", "port"]),
    }

    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    for check in store_kit.CHECKS:
        names["test_my_store"](check)

    assert inspect.iscoroutinefunction(names["test_my_store_on_an_event_loop"])
    assert names["shared"].relevance is names["relevance"]

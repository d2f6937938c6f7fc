"""The page on the acts, run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs/acts.md").read_text("utf-8")


def test_the_code_of_the_page_runs() -> None:
    """Every block stands on those before it; `py` is for what no file can hold."""
    names: dict[str, Any] = {}
    blocks = re.findall(r"```py(?:thon)?\n(.*?)```", PAGE, re.DOTALL)

    for block in blocks:
        exec(block, names)

    assert names["off"].advisors == ()
    assert names["policy"].tools["fetch"].retry is True

"""The page on telemetry says what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loopguard_lg.telemetry import names
from loopguard_lg.testing.doubles import ScriptedModel
from tests.middleware.runs import TOOLS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "telemetry.md").read_text("utf-8")
NAMES = [
    value
    for key, value in vars(names).items()
    if key.isupper() and isinstance(value, str) and "." in value.strip(".")
]


def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block, one after the other, on a scripted model."""
    pytest.importorskip("opentelemetry.sdk")
    monkeypatch.chdir(tmp_path)
    names = {"model": ScriptedModel(default="done"), "tools": TOOLS}

    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    names["agent"].invoke({"messages": [("user", "go")]})
    names["observers"][1].close()

    assert (tmp_path / "steps.jsonl").stat().st_size


@pytest.mark.parametrize("name", [*names.EVENTS, *NAMES])
def test_every_name_is_on_the_page(name: str) -> None:
    """Events, attributes and metrics, or a name that stands for them."""
    inner = {names.INPUT_MESSAGES, names.PROVIDER, names.REQUEST_MODEL, names.VERSION}
    spelt = {names.TOKEN_TYPE: "token type"}

    assert spelt.get(name, name) in PAGE or name in inner

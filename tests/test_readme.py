from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from loopguard_lg import Policy
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import THREAD, ask, guarded, notes, same

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_nudge_of_the_readme_is_what_a_model_is_told() -> None:
    """Word for word, as a run with a write and a loop brings it."""
    start = call("write", path="notes.md", text="todo")
    model = ScriptedModel(replies=[start, *same(3), "found"])
    guarded(model).invoke(ask(), THREAD)
    (shown,) = re.findall(r"```text\n(.*?)\n```", README, re.DOTALL)

    assert notes(model)[-1] == shown


@pytest.mark.parametrize("detector", Policy().detectors, ids=lambda d: d.kind)
def test_the_defaults_of_the_readme_are_those_of_the_code(detector: Any) -> None:
    """The numbers of a detector's row are its thresholds, in their order."""
    name = type(detector).__name__
    (row,) = re.findall(rf"^\| `{name}` .*\| (.*) \|$", README, re.MULTILINE)
    numbers = [int(number) for number in re.findall(r"\d+", row)]

    values = [getattr(detector, f.name) for f in fields(detector)]
    assert numbers == [v for v in values if type(v) in (int, float)]

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("[0-9]*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each one runs to its end and shows something."""
    runpy.run_path(str(path), run_name="__main__")

    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(path: Path) -> None:
    """One idea fits on a screen."""
    assert len(path.read_text("utf-8").splitlines()) < 60


def test_the_index_lists_the_examples_in_order() -> None:
    """Each has a row, and each row a file."""
    index = (FOLDER / "README.md").read_text("utf-8")

    assert re.findall(r"^\| \[(\w+\.py)\]", index, re.MULTILINE) == [
        path.name for path in EXAMPLES
    ]

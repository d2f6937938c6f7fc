"""What the files around the package promise each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEST_LINE = ROOT.joinpath(".ci/run").read_text("utf-8").splitlines()[-1]


def commands(name: str) -> list[str]:
    """The console blocks of a page."""
    text = (ROOT / name).read_text("utf-8")
    return re.findall(r"```console\n(.*?)\n```", text, re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_documented_test_line_is_the_one_that_is_checked(page: str) -> None:
    """Whoever follows the page runs what the checks run."""
    assert TEST_LINE.startswith("python3 -m venv")
    assert TEST_LINE in commands(page)


def test_the_lock_holds_names_and_versions_only() -> None:
    """No address, hash or file path is in the lock, so any index serves it."""
    marker = r"( ; [\w .'<>=!]+)?"
    for line in (ROOT / "requirements-dev.lock").read_text("utf-8").splitlines():
        assert re.fullmatch(r"[a-z0-9-]+==(\d+!)?[\w.]+" + marker, line), line


def test_every_make_target_explains_itself() -> None:
    """`make` alone says what each target is for."""
    text = (ROOT / "Makefile").read_text("utf-8")
    targets = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)

    assert targets
    for target in targets[1].split():
        assert re.search(rf"^{target}:.*## \w", text, re.MULTILINE), target

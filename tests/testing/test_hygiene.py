"""Which folders of recordings are clean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loopguard_lg.testing.hygiene import recording_problems

ROOT = Path(__file__).parents[2]

CLEAN = """\
interactions:
- request:
    uri: http://model.invalid/v1
    body: {text: hi}
  response:
    body: {text: hello}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of recordings beside the tests `test_talk.py`."""
    tests = tmp_path / "tests/sub"
    tests.mkdir(parents=True)
    body = "async def test_it(q): ...\nclass TestAll:\n    def test_all(self): ..."
    (tests / "test_talk.py").write_text(body, "utf-8")
    (tmp_path / "cassettes/test_talk").mkdir(parents=True)
    return tmp_path / "cassettes"


def problems(folder: Path, name: str, text: str = CLEAN) -> list[str]:
    """What is wrong with one file of that name and text."""
    (folder / name).write_text(text, "utf-8")
    return recording_problems(folder, folder.parent / "tests")


def test_the_recordings_of_this_repository_are_clean() -> None:
    """No orphan, no secret, no host, no home in any recording that is kept here."""
    assert recording_problems(ROOT / "cassettes", ROOT / "tests") == []


@pytest.mark.parametrize("name", ["test_it", "test_it-a-1.5", "test_all"])
def test_a_recording_of_a_test_is_clean(folder: Path, name: str) -> None:
    """Parametrised tests, async tests and methods are tests."""
    assert problems(folder, f"test_talk/{name}.yaml") == []


@pytest.mark.parametrize("name", ["test_talk/test_gone.yaml", "test_it.yaml"])
def test_a_recording_without_a_test_is_an_orphan(folder: Path, name: str) -> None:
    """A test that was removed or moved must take its recording along."""
    assert problems(folder, name) == [f"{name}: no test uses this recording"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (CLEAN.replace("hello", "sk-abcdefghijkl"), "what looks like a key: sk-abc"),
        (CLEAN.replace("hello", "/home/jo/x"), "what looks like a home directory"),
        (CLEAN.replace("model.invalid", "api.example"), "names the host api.example"),
        ("interactions: []", "holds no requests"),
    ],
)
def test_a_dirty_recording_is_named(folder: Path, text: str, problem: str) -> None:
    """Keys, homes, hosts and empty files are each a problem."""
    (found,) = problems(folder, "test_talk/test_it.yaml", text)

    assert re.search(problem, found)

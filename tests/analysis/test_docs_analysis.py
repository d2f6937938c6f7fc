"""The pages on metrics, report, calibrate and compare, run."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from loopguard_lg.cli.app import run
from tests.analysis.made import circles, works

ROOT = Path(__file__).parents[2]
PAGES = {
    name: (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    for name in ("metrics", "report", "calibrate", "compare")
}


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGES[page], re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the recordings that the pages name."""
    runs = [circles("loop", model="m"), works("fine", model="m")]
    for name in ("runs", "base", "current"):
        text = "".join(json.dumps(data) + "\n" for data in runs)
        (tmp_path / f"{name}.jsonl").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_pages_work(page: str, folder: Path) -> None:
    """Each line of a console block runs, and what it writes is there."""
    for line in "".join(blocks(page, "console")).splitlines():
        words = shlex.split(line)
        assert words[0] == "loopguard"
        assert run(words[1:]) in (0, 1), line
        for name in re.findall(r"--(?:out|svg|png) (\S+)", line):
            assert (folder / name).exists()


def test_the_code_of_the_page_on_metrics_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every block stands on those before it."""
    names: dict[str, Any] = {}

    for block in blocks("metrics", "python"):
        exec(block, names)

    assert capsys.readouterr().out == "m: 50.0% [9.5%, 90.5%] of 2\n"
    assert names["slow"].fetchall() == [("search", 5)]


def test_what_is_shown_of_files_can_be_read() -> None:
    """The policy is TOML, the versions are JSON, the picture is XML."""
    (policy,) = blocks("calibrate", "toml")
    (versions,) = blocks("compare", "json")

    assert tomllib.loads(policy)["budget"] == {"steps": 24}
    assert json.loads(versions)["versions"]["owner"] == {"prompt": "bo"}
    ElementTree.parse(ROOT / "docs" / "timeline.svg")


def test_the_workflow_compares_and_keeps_the_status() -> None:
    """It is YAML, and a pipe does not hide that the runs got worse."""
    text = (ROOT / "examples/ci/agent-gate.yml").read_text("utf-8")

    steps = yaml.safe_load(text)["jobs"]["compare"]["steps"]
    (gate,) = (s["run"] for s in steps if "loopguard compare" in s.get("run", ""))
    assert gate.startswith("set -o pipefail\n")

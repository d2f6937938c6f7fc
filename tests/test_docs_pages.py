"""Every page: what is in its blocks runs, what it links to is there."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from loopguard_lg.cli.app import run
from tests.docs_pages import (
    CHECKS,
    GIVEN,
    PAGES,
    ROOT,
    blocks,
    marked,
    ran,
    recordings,
    runnable,
    text,
)

FORMATS: dict[str, Callable[[str], Any]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml|yml": yaml.safe_load,
}
SETS_UP = ("pip install", "python3 -m venv", "uv ", "cat ")


def having(languages: str) -> list[str]:
    """The pages with a block in one of the languages that needs nothing."""
    return [page for page in PAGES if runnable(page, languages)]


@pytest.mark.parametrize("page", having("py|python"))
def test_the_python_of_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Block by block, each standing on those before it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    names = ran(page, tmp_path)

    CHECKS.get(page, lambda _: None)(names)


@pytest.mark.parametrize("page", having("console"))
def test_the_commands_of_a_page_work(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line of a console block is a command of ours that works, or sets up."""
    monkeypatch.chdir(tmp_path)
    recordings(tmp_path)
    lines = "".join(runnable(page, "console")).splitlines()

    for line in (line.removeprefix("$ ") for line in lines):
        if not line.startswith(SETS_UP):
            command, *words = shlex.split(line, comments=True)
            assert command == "loopguard", line
            assert run(words) in (0, 1), line


@pytest.mark.parametrize("page", PAGES)
def test_the_data_on_a_page_can_be_read(page: str) -> None:
    """What is shown of a file is TOML, YAML or JSON, as it says."""
    for languages, read in FORMATS.items():
        for block in blocks(page, languages):
            assert read(block) is not None


def test_few_blocks_need_what_a_test_has_not() -> None:
    """They say what, and their Python compiles."""
    needy = [(page, block) for page in PAGES for block in marked(page)]

    assert len(needy) <= 12
    for page, block in needy:
        if block in blocks(page, "py|python"):
            compile(block, page, "exec")


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_installs_can_be_had_from_a_clone(page: str) -> None:
    """The package is on no index yet, and the extras named are those there are."""
    known = tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]

    assert "loopguard_lg[" not in text(page)
    for extras in re.findall(r"'\.\[([\w,]+)\]'", text(page)):
        assert set(extras.split(",")) <= set(known)


@pytest.mark.parametrize("command", ["report", "calibrate", "compare"])
def test_a_page_that_shows_a_command_names_its_extra(command: str) -> None:
    """Whoever goes from the top of a page to the command has what it needs."""
    pages = [p for p in PAGES if f"\nloopguard {command} " in text(p)]

    assert pages
    for page in pages:
        assert re.search(r"'\.\[[\w,]*analysis", text(page)), page


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_links_to_is_there(page: str) -> None:
    """Files, and headings within them."""
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text(page)):
        path, _, heading = target.partition("#")
        found = (ROOT / page).parent / path if path else ROOT / page
        assert found.exists(), target
        if heading:
            assert heading in {slug(title) for title in titles(found)}, target


def titles(page: Path) -> list[str]:
    """The headings of a page."""
    return re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)


def slug(title: str) -> str:
    """What a heading is linked by."""
    return re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", sorted({*GIVEN, *CHECKS}))
def test_what_is_known_of_a_page_is_of_one_that_is_there(page: str) -> None:
    """A page that was moved takes along what it takes as given."""
    assert page in PAGES

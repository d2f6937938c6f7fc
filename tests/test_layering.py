"""Imports go one way, and nothing heavy comes in before it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import loopguard_lg

ROOT = Path(loopguard_lg.__file__).parent
HOSTS = ("langchain", "langgraph", "langchain_core", "langsmith")
OUTSIDE = {"adapters", "cli", "fleet", "telemetry", "testing", "__main__.py"}
"""What is not core: it may import the host, an extra, or a terminal library."""

CORE = sorted(
    path.relative_to(ROOT)
    for path in ROOT.rglob("*.py")
    if path.relative_to(ROOT).parts[0] not in OUTSIDE
)


def loaded_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has after running `code`."""
    show = "import sys; print(*{m.partition('.')[0] for m in sys.modules})"
    command = [sys.executable, "-c", f"{code}\n{show}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def imports(path: Path) -> set[str]:
    """Modules that a file imports anywhere in it, in full."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", CORE, ids=str)
def test_the_core_never_imports_the_host(path: Path) -> None:
    """Only adapters, telemetry, testing and the command line know LangChain."""
    roots = {name.partition(".")[0] for name in imports(ROOT / path)}

    assert not roots & {*HOSTS, "opentelemetry"}


@pytest.mark.parametrize("path", CORE, ids=str)
def test_the_core_never_imports_what_is_around_it(path: Path) -> None:
    """Dependencies point inwards; `__init__` only names, and imports lazily."""
    if path.name == "__init__.py" and len(path.parts) == 1:
        return
    around = tuple(f"loopguard_lg.{p}" for p in ("adapters", "cli", "testing"))

    assert not [name for name in imports(ROOT / path) if name.startswith(around)]


@pytest.mark.parametrize(
    "code",
    [
        "import loopguard_lg",
        "import loopguard_lg.engine",
        "import loopguard_lg.traces.recorder",
        "import loopguard_lg.analysis.score",
        "from loopguard_lg.cli.app import run; run(['--help'])",
    ],
)
def test_nothing_heavy_is_imported_early(code: str) -> None:
    """Neither the host nor pydantic is there before it is needed."""
    assert not loaded_by(code) & {*HOSTS, "pydantic", "tenacity", "numpy", "duckdb"}


def test_a_guard_without_a_workspace_imports_none() -> None:
    """What saves, watches and locks files is for those who use it."""
    code = (
        "import sys; from loopguard_lg import LoopGuardMiddleware; print();"
        "print(*[m for m in sys.modules if m.startswith('loopguard_lg.workspace')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == []


def test_a_replay_needs_no_host() -> None:
    """`loopguard check` runs the engine alone (pydantic is typer's)."""
    code = f"""
import sys
from loopguard_lg.cli.app import run
sys.stdin = open({__file__!r})
assert run(['check', '-']) == 2
"""
    found = loaded_by(code)

    assert "orjson" in found
    assert not found & {*HOSTS, "tenacity", "numpy", "duckdb"}


def test_the_help_loads_no_engine() -> None:
    """`loopguard --help` imports commands, not what they run."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "loopguard_lg", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "check" in done.stdout
    for heavy in ("loopguard_lg.engine", "rich", "orjson", "multiprocessing"):
        assert f"| {heavy}\n" not in done.stderr.replace(" " * 2, "")


def test_all_is_sorted_and_small() -> None:
    """What is public is a list that a person can read."""
    names = loopguard_lg.__all__

    assert names == sorted(names)
    assert len(names) <= 40  # one for each surface, detector and rung


@pytest.mark.parametrize("name", loopguard_lg.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """`__all__` and what can be imported agree, and the name is the thing's own."""
    value = getattr(loopguard_lg, name)

    assert name == "__version__" or value.__name__ == name


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    """A typo is reported the way Python does."""
    with pytest.raises(AttributeError, match="no attribute 'Polcy'"):
        loopguard_lg.Polcy  # noqa: B018  # the access is the test


def test_dir_shows_the_public_names() -> None:
    """Completion in a shell finds what is lazily imported."""
    assert set(loopguard_lg.__all__) <= set(dir(loopguard_lg))

"""What the package's own code never does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import loopguard_lg

ROOT = Path(loopguard_lg.__file__).parent
FILES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
"""What runs code on reading."""

CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen",
    "subprocess.getoutput", "yaml.unsafe_load", "yaml.full_load", "tempfile.mktemp",
    "hashlib.md5", "hashlib.sha1",
}  # fmt: skip
"""What runs text as code, opens a shell, or is weak."""

COMMANDS = {"workspace/gitcalls.py"}
"""Where another program is started, from a list of arguments."""


def _tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text("utf-8"))


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def _calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Every call in a file, by what is called."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


@pytest.mark.parametrize("path", FILES, ids=str)
def test_nothing_runs_what_it_reads(path: Path) -> None:
    """No pickle, no eval, no shell, no YAML that makes objects."""
    called = [name for name, _ in _calls(path)]

    assert not _imports(path) & MODULES
    assert not CALLS.intersection(called)
    assert not [n for n in called if n.endswith((".unsafe_load", ".full_load"))]


@pytest.mark.parametrize("path", FILES, ids=str)
def test_yaml_is_loaded_by_a_safe_loader(path: Path) -> None:
    """`yaml.load` names its loader, and the loader makes plain data only."""
    for name, node in _calls(path):
        if name == "yaml.load":
            loaders = [ast.unparse(k.value) for k in node.keywords if k.arg == "Loader"]
            assert loaders == ["_Loader"]


def test_the_loader_of_recordings_makes_plain_data_only() -> None:
    """A recording that asks for an object is refused."""
    bodies = pytest.importorskip("loopguard_lg.testing.bodies")
    with pytest.raises(Exception, match="could not determine a constructor"):
        bodies.load("a: !!python/object/apply:os.system ['true']")


@pytest.mark.parametrize("path", FILES, ids=str)
def test_programs_are_started_without_a_shell(path: Path) -> None:
    """And in one place only."""
    starts = [node for name, node in _calls(path) if name.startswith("subprocess.")]

    assert not starts or path.as_posix() in COMMANDS
    assert not [k for node in starts for k in node.keywords if k.arg == "shell"]


@pytest.mark.parametrize("path", FILES, ids=str)
def test_no_text_of_others_is_a_format(path: Path) -> None:
    """`format_map` and `%` with a variable on the left are not used: a text from
    outside as a format reads attributes.
    """
    assert not [name for name, _ in _calls(path) if name.endswith(".format_map")]

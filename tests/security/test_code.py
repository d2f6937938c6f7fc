"""What the package's own code never does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

import loopguard_lg
from loopguard_lg import Policy
from loopguard_lg.errors import PolicyError
from loopguard_lg.testing import bodies

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

STARTS = {"subprocess.run", "subprocess.Popen", "subprocess.check_output"}
COMMANDS = {"workspace/gitcalls.py"}
"""Where another program is started, from a list of arguments."""


TREES = {path.as_posix(): ast.parse((ROOT / path).read_text("utf-8")) for path in FILES}


def _imports(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


CALLED = [
    (path, ast.unparse(node.func), node)
    for path, tree in TREES.items()
    for node in ast.walk(tree)
    if isinstance(node, ast.Call)
]
"""Every call in the package: where it is, what is called, and the call."""


def test_nothing_runs_what_it_reads() -> None:
    """No pickle, no eval, no shell, no YAML that makes objects."""
    unsafe = (".unsafe_load", ".full_load")

    assert [path for path, tree in TREES.items() if _imports(tree) & MODULES] == []
    assert [c for c in CALLED if c[1] in CALLS or c[1].endswith(unsafe)] == []


def test_yaml_is_loaded_by_a_safe_loader() -> None:
    """`yaml.load` names its loader, which makes plain data only."""
    loads = [node for _, name, node in CALLED if name == "yaml.load"]

    assert [ast.unparse(k.value) for n in loads for k in n.keywords] == ["_Loader"]


def test_the_loader_of_recordings_makes_plain_data_only() -> None:
    """A recording that asks for an object is refused."""
    with pytest.raises(yaml.constructor.ConstructorError):
        bodies.load("a: !!python/object/apply:os.system ['true']")


def test_programs_are_started_without_a_shell() -> None:
    """And in one place only, which is given a list."""
    starts = [c for c in CALLED if c[1] in STARTS]

    assert {path for path, _, _ in starts} <= COMMANDS
    assert not [k for _, _, node in starts for k in node.keywords if k.arg == "shell"]


def test_a_policy_file_is_data(tmp_path: Path) -> None:
    """A name of Python, an expression or a tag in it is a text, or an error."""
    file = tmp_path / "policy.yaml"
    file.write_text("loop: !!python/object/apply:os.system ['true']")

    with pytest.raises(PolicyError):
        Policy.load(file, env={})

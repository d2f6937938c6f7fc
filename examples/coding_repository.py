"""The repository of `06_coding_agent.py`, tools on it, and a model that never stops.

Two tests contradict each other, so that every edit leaves one of them failing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from langchain_core.tools import BaseTool, tool

from loopguard_lg.testing.doubles import ScriptedModel, call

FILES = {
    "parse.py": 'def parse(text):\n    return float(text.replace(",", ""))\n',
    "tests/test_thousands.py": 'CASES = {"1,500": 1500.0, "2": 2.0}\n',
    "tests/test_decimals.py": 'CASES = {"1,500": 1.5, "0,5": 0.5}\n',
    "run_tests.py": """\
import sys
from pathlib import Path
from runpy import run_path


def found(text):
    try:
        return run_path("parse.py")["parse"](text)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


failed = []
for path in sys.argv[1:] or sorted(map(str, Path("tests").glob("test_*.py"))):
    for text, right in run_path(path)["CASES"].items():
        if found(text) != right:
            failed.append(f"{path}: parse({text!r}) is {found(text)}, not {right}")
print(*failed, f"{len(failed)} failed" if failed else "all passed", sep="\\n")
sys.exit(bool(failed))
""",
}
TASK = (
    "Customers write 0,5 for one half: make parse read it, until all tests in tests/ "
    "pass. Do not change the tests."
)


def made(root: Path) -> Path:
    """The repository, in a folder that is made for it."""
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def tools(root: Path) -> list[BaseTool]:
    """What the agent can do in the repository."""

    @tool
    def read_file(path: str) -> str:
        """Read a file."""
        return (root / path).read_text()

    @tool
    def write_file(path: str, content: str) -> str:
        """Replace a file's content."""
        (root / path).write_text(content)
        return f"wrote {path}"

    @tool
    def run_tests(path: str = "") -> str:
        """Run the tests, or those of one file."""
        command = [sys.executable, "-B", "run_tests.py", *[path] * bool(path)]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        return done.stdout or done.stderr[-300:]

    return [read_file, write_file, run_tests]


def attempt(n: int) -> str:
    """One more way to read the same text, as wrong as the others."""
    ways = [
        'text.replace(",", ".")',
        'text.replace(",", "")',
        f'text.split(",")[{n % 2}]',
    ]
    return f"def parse(text):\n    return float({ways[n % 3]})  # try {n}\n"


def stubborn(tries: int) -> ScriptedModel:
    """A model that looks once, and then edits and tests for ever."""
    laps = [
        [call("write_file", path="parse.py", content=attempt(n)), call("run_tests")]
        for n in range(tries)
    ]
    first = [call("run_tests", path="tests/test_thousands.py"), call("run_tests")]
    return ScriptedModel([*first, *sum(laps, [])], default="I could not do it.")

"""The repository of `06_coding_agent.py`, the tools on it, and the recorded models.

Two tests contradict each other, so that every edit leaves one of them failing.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.cassettes import PLACEHOLDER, recording

TESTS = """\
import unittest

from parse import parse


class {name}(unittest.TestCase):
    def test_{name}(self):
        self.assertEqual(parse("{text}"), {value})
"""
FILES = {
    "parse.py": "def parse(text):\n    return float(text)\n",
    "show.py": 'def show(number):\n    return f"{number:,}"\n',
    "tests/__init__.py": "",
    "tests/test_plain.py": TESTS.format(name="plain", text="2.5", value=2.5),
    "tests/test_thousands.py": TESTS.format(
        name="thousands", text="1,500", value=1500.0
    ),
    "tests/test_decimals.py": TESTS.format(name="decimals", text="1,500", value=1.5),
    ".gitignore": "__pycache__/\n",
}
TASK = (
    "Customers write numbers with a comma, such as 1,500: make parse read them, until "
    "all tests pass."
)
PROMPT = (
    "You mend a Python repository. Have `parse` return another expression with "
    "edit_return, and run all tests. When they fail, try another expression, until all "
    f"tests pass. parse.py is:\n\n{FILES['parse.py']}\n"
    "tests/test_thousands.py wants parse('1,500') == 1500.0\n"
    "tests/test_decimals.py wants parse('1,500') == 1.5"
)
_TOLD = re.compile(r"(?:FAIL|ERROR):.*|(?:\w+Error|Ran \d+ tests?|OK|FAILED)\b.*")


def made(root: Path) -> Path:
    """The repository, in a folder that is made for it."""
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def tools(root: Path) -> list[BaseTool]:
    """What the agent can do in the repository."""

    def tested(*names: str) -> str:
        which = names or ("discover", "-s", "tests", "-t", ".")
        command = [sys.executable, "-B", "-m", "unittest", *which]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        told = filter(_TOLD.fullmatch, done.stderr.splitlines())
        # Without times and paths: what is sent has to be what was recorded.
        plain = re.sub(r" in [\d.]+s$", "", "\n".join(told), flags=re.MULTILINE)
        return plain.replace(str(root), ".")

    @tool
    def edit_return(path: Literal["parse.py", "show.py"], expression: str) -> str:
        """Have the function in a file return another Python expression."""
        head = (root / path).read_text().partition("return")[0]
        (root / path).write_text(f"{head}return {expression.removeprefix('return ')}\n")
        return f"edited {path}"

    @tool
    def test_release() -> str:
        """Run the tests of the last release."""
        return tested("tests.test_plain")

    @tool
    def run_tests() -> str:
        """Run all tests."""
        return tested()

    return [edit_return, test_release, run_tests]


def told(event: GuardEvent) -> None:
    """Print what the guard did."""
    if event.name not in ("seen", "detected"):
        print(f"{event.name:10} {event.text.partition(chr(10))[0][:100]}")


@contextmanager
def played(name: str) -> Iterator[list[ChatOpenAI]]:
    """The weak and the strong model, with the replies of a recording."""
    folder = Path(__file__).parents[1] / "cassettes" / "test_coding_scenarios"
    with recording(folder / f"test_a_{name}.yaml") as opened:
        roles = ("weak", "strong") if "guarded" in name else ("weak",)
        yield [_model(opened.get_metadata(role, role)) for role in roles]


def _model(name: str) -> ChatOpenAI:
    return ChatOpenAI(
        model=name,
        base_url=f"http://{PLACEHOLDER}/v1",
        api_key=SecretStr("none"),
        temperature=0,
        max_completion_tokens=120,
        max_retries=0,
    )


class InTurns(AgentMiddleware):
    """Has the model call one tool after the other: it edits, then it runs the tests.

    Small models seldom call a tool of their own accord. What they write is theirs.
    """

    def wrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse:
        """Name the tool that comes next."""
        return handler(request.override(tool_choice=_next(request.messages[-1])))


def _next(last: Any) -> str:
    if isinstance(last, HumanMessage) and last.name is None:
        return "test_release"
    if isinstance(last, ToolMessage) and last.name == "edit_return":
        return "edit_return" if last.status == "error" else "run_tests"
    return "edit_return"

"""Where tools are read from."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode

from loopguard_lg.analysis.toolsource import load, served, tools_of
from loopguard_lg.errors import LoopGuardError

SERVER = '''
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("pages")

@server.tool()
def search_pages(words: str) -> str:
    """Finds pages."""
    return ""

server.run(transport="stdio")
'''


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return word


def plain(word: str) -> str:
    """Say a word."""
    return word


SCHEMA = {"name": "plan", "parameters": {"properties": {"n": {"description": "how"}}}}


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ([look_up, plain], ["look_up", "plain"]),
        (look_up, ["look_up"]),
        ({"a": plain}, ["plain"]),
        (ToolNode([look_up, plain]), ["look_up", "plain"]),
        ({"type": "function", "function": SCHEMA}, ["plan"]),
        ([SCHEMA], ["plan"]),
    ],
)
def test_tools_come_in_many_forms(found: Any, names: list[str]) -> None:
    """Functions, LangChain tools, schemas, alone or together."""
    assert [spec.name for spec in tools_of(found)] == names


def test_a_tool_is_told_as_a_model_is_told_of_it() -> None:
    """Description, arguments, and where its code stands."""
    spec, other = tools_of([look_up, SCHEMA])

    assert (spec.description, spec.arguments) == ("Look a word up.", {"word": ""})
    assert spec.file == str(Path(__file__).relative_to(Path.cwd()))
    assert other.arguments == {"n": "how"}


@pytest.mark.parametrize("found", [[], {}, [3], max])
def test_what_is_no_tool_is_an_error(found: Any) -> None:
    """Nothing to look at is not nothing wrong."""
    with pytest.raises(LoopGuardError, match="no tool"):
        tools_of(found)


def test_what_is_called_like_a_function_goes_by_its_type() -> None:
    """A partial has no name of its own."""
    (spec,) = tools_of(partial(served, seconds=1))

    assert (spec.name, [*spec.arguments]) == ("partial", ["server", "seconds"])


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("tools", "not of the form MODULE:NAME"),
        ("no_such_module:x", "ModuleNotFoundError"),
        ("json:no_such_name", "AttributeError"),
    ],
)
def test_a_module_that_cannot_be_had_is_named(spec: str, problem: str) -> None:
    """The error has what was asked for and why it failed."""
    with pytest.raises(LoopGuardError, match=f"{spec}.*{problem}"):
        load(spec)


def test_a_running_mcp_server_tells_its_tools(tmp_path: Path) -> None:
    """A real server, started by its command, over standard input and output."""
    path = tmp_path / "server.py"
    path.write_text(SERVER)

    (spec,) = served(f"{sys.executable} {path}")

    assert (spec.name, spec.description) == ("search_pages", "Finds pages.")
    assert spec.arguments == {"words": ""}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A real MCP server on a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path = tmp_path / "server.py"
    run = f'server.run(transport="streamable-http", port={port})'
    path.write_text(SERVER.replace('server.run(transport="stdio")', run))
    command = [sys.executable, str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        for line in process.stderr:
            if "running on" in line:
                break
        yield f"http://127.0.0.1:{port}/mcp"
        process.terminate()


def test_an_mcp_server_is_asked_by_address(address: str) -> None:
    """The same over HTTP."""
    assert [spec.name for spec in served(address)] == ["search_pages"]


@pytest.mark.parametrize("server", ["no-such-program-here", "http://127.0.0.1:9/mcp"])
def test_a_server_that_does_not_answer_is_one_error(server: str) -> None:
    """Neither a missing program nor a closed port is a traceback."""
    with pytest.raises(LoopGuardError, match=f"{server}: no MCP server answers"):
        served(server)

"""Where tools are read from: Python objects of any make, or an MCP server."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from loopguard_lg.analysis.toollint import ToolSpec
from loopguard_lg.errors import LoopGuardError


def load(spec: str) -> Any:
    """The object that `MODULE:NAME` names; the current folder is looked in first.

    Raises:
        LoopGuardError: There is no such module or name, or importing it failed.
    """
    module, colon, name = spec.partition(":")
    if not (module and colon and name):
        raise LoopGuardError(f"{spec!r} is not of the form MODULE:NAME")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # importing runs all of a module
        problem = f"{type(error).__name__}: {error}"
        raise LoopGuardError(f"{spec} can't be had: {problem}") from error
    return found


def tools_of(found: Any) -> list[ToolSpec]:
    """The tools in a value: a tool, a collection of tools, or a `ToolNode`.

    A tool is a function, a LangChain tool, or a schema as providers take it.

    Raises:
        LoopGuardError: There is none.
    """
    known = getattr(found, "tools_by_name", None)  # a ToolNode
    if isinstance(known, Mapping):
        found = known
    specs = [_spec(item) for item in _items(found)]
    if not specs:
        raise LoopGuardError("there is no tool in it")
    return specs


def _items(found: Any) -> Iterable[Any]:
    if isinstance(found, Mapping) and not _is_schema(found):
        return found.values()
    if isinstance(found, list | tuple | set | frozenset):
        return found
    return [found]


def _is_schema(found: Mapping[str, Any]) -> bool:
    return isinstance(found.get("name"), str) or found.get("type") == "function"


def _spec(item: Any) -> ToolSpec:
    if isinstance(item, Mapping):
        return _of_schema(item)
    if hasattr(item, "name") and hasattr(item, "description"):
        return _of_tool(item)
    if callable(item):
        return _of_function(item)
    raise LoopGuardError(f"{item!r} is no tool")


def _of_tool(item: Any) -> ToolSpec:
    fields = getattr(item, "args", None)
    code = getattr(item, "func", None) or getattr(item, "coroutine", None)
    about = _arguments(fields if isinstance(fields, Mapping) else {})
    return _placed(item.name, item.description or "", about, code or type(item))


def _of_function(item: Callable[..., Any]) -> ToolSpec:
    """A function, or an object that is called like one."""
    name = getattr(item, "__name__", type(item).__name__)
    try:
        names = dict.fromkeys(inspect.signature(item).parameters, "")
    except ValueError as error:  # some that are written in C have none
        raise LoopGuardError(f"{name} is no tool: {error}") from error
    return _placed(name, inspect.getdoc(item) or "", names, item)


def _of_schema(item: Mapping[str, Any]) -> ToolSpec:
    inner = item.get("function")
    schema: Mapping[str, Any] = inner if isinstance(inner, Mapping) else item
    given = schema.get("parameters") or schema.get("input_schema") or {}
    return ToolSpec(
        name=str(schema.get("name") or ""),
        description=str(schema.get("description") or ""),
        arguments=_arguments(given.get("properties") or {}),
    )


def _arguments(fields: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: str(field.get("description") or "") if isinstance(field, Mapping) else ""
        for name, field in fields.items()
    }


def _placed(
    name: str, description: str, arguments: Mapping[str, str], code: Any
) -> ToolSpec:
    """The tool, with the place of its code where there is one."""
    spec = ToolSpec(name=name, description=description, arguments=arguments)
    try:
        target = inspect.unwrap(code)
        file = Path(inspect.getsourcefile(target) or "")
        line = inspect.getsourcelines(target)[1]
    except (OSError, TypeError):
        return spec
    return ToolSpec(
        name=name,
        description=description,
        arguments=arguments,
        file=_relative(file),
        line=max(1, line),
    )


def _relative(file: Path) -> str:
    try:
        return file.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return file.as_posix()


def served(server: str, seconds: float = 30) -> list[ToolSpec]:
    """The tools of an MCP server.

    Args:
        server: Its address (`http://...`), or the command that starts it, which then
            speaks on standard input and output.
        seconds: How long it may take to answer.

    Raises:
        LoopGuardError: It does not answer, or can't be started.
        ModuleNotFoundError: The package `mcp` is missing.
    """
    import anyio
    from mcp import Client, StdioServerParameters, stdio_client

    def connected() -> Any:
        if server.startswith(("http://", "https://")):
            return Client(server)
        command, *args = shlex.split(server)
        started = StdioServerParameters(command=command, args=args)
        return Client(stdio_client(started, log))

    async def ask() -> list[ToolSpec]:
        with anyio.fail_after(seconds):
            async with connected() as client:
                return [spec async for spec in _listed(client)]

    try:
        with open(os.devnull, "w") as log:  # what a server logs is no answer
            specs = anyio.run(ask)
    except Exception as error:
        problem = " ".join(str(_first(error)).split()) or type(error).__name__
        raise LoopGuardError(f"{server}: no MCP server answers ({problem})") from error
    if not specs:
        raise LoopGuardError(f"{server}: the server has no tool")
    return specs


async def _listed(client: Any) -> AsyncIterator[ToolSpec]:
    """The tools on every page of a server's list."""
    cursor = None
    while True:
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            fields = (tool.input_schema or {}).get("properties") or {}
            about = _arguments(fields)
            told = tool.description or ""
            yield ToolSpec(name=tool.name, description=told, arguments=about)
        cursor = page.next_cursor
        if not cursor:
            return


def _first(error: BaseException) -> BaseException:
    """The first real error in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

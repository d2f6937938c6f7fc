"""Results that say what to do next: one line of advice after an error or a blank.

Most loops begin with a result that says too little. An advisor reads one result and
returns a sentence, or `None`. The first that has something to say is heard; its advice
goes after the tool's own result, in a line that begins with `MARKER`, and detectors and
recordings never see it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol

from loopguard_lg import scratchpad
from loopguard_lg.digests import settle
from loopguard_lg.progress import Outcome, read_outcome, telling_line
from loopguard_lg.roles import find_path, read_use
from loopguard_lg.steps import Role, Step, clip

MARKER = "\n[loop guard] "
"""What advice begins with, in a line of its own."""

LIMIT = 500
"""Most characters of one piece of advice."""

_NAMES = 12
_PATHS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a call ended, as an advisor is told.

    Attributes:
        text: The tool's own result, shortened to 4,000 characters.
        outcome: What it says: failed, empty, invalid, transient, ...
        role: What the call was for.
        path: The file that it was about; empty if there is none.
    """

    text: str
    outcome: Outcome
    role: Role
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known beside the call and its result.

    Attributes:
        tools: Names of the tools that there are; empty where nobody knows.
        schema: The JSON schema of a tool's arguments by its name.
        paths: The paths seen in earlier results.
    """

    tools: Sequence[str] = ()
    schema: Callable[[str], Mapping[str, Any]] = lambda _: {}
    paths: Callable[[], Sequence[str]] = tuple


class Advisor(Protocol):
    """Says what to do after a result, in one short sentence, or `None`.

    It is pure. Text of calls and results that it repeats has to go through `quoted`.
    """

    def __call__(self, call: Step, result: Result, facts: Facts) -> str | None:
        """The advice on one call with its result."""
        ...


def result_of(step: Step, role: Role | None = None) -> Result:
    """How a call ended; `role`: what the policy says that it is for."""
    use = read_use(step, role)
    outcome = read_outcome(step, use, settle(step))
    return Result(text=clip(step.result), outcome=outcome, role=use.role, path=use.path)


def advise(
    advisors: Iterable[Advisor], call: Step, result: Result, facts: Facts
) -> str:
    """The advice of the first advisor that has some, with its marker; else nothing."""
    if result.role in ("exit", "plan"):
        return ""
    for advisor in advisors:
        text = advisor(call, result, facts)
        if text:
            return MARKER + scratchpad.quote(text, LIMIT)
    return ""


def quoted(text: str, limit: int = 80) -> str:
    """Text from outside as short data between back quotes."""
    return f"`{scratchpad.quote(text, limit).replace('`', chr(39))}`"


def unknown_tool(call: Step, result: Result, facts: Facts) -> str | None:
    """The tools that there are, the nearest first, where one was made up."""
    if not result.outcome.invalid or not facts.tools or call.tool in facts.tools:
        return None
    near = get_close_matches(call.tool, facts.tools, 1, 0.5)
    hint = f" Did you mean {quoted(near[0])}?" if near else ""
    return f"There is no tool {quoted(call.tool)}.{hint}{_others(result.text, facts)}"


def _others(text: str, facts: Facts) -> str:
    if all(tool in text for tool in facts.tools):
        return ""
    return f" The tools are {_listed(facts.tools[:_NAMES])}."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def invalid_arguments(call: Step, result: Result, facts: Facts) -> str | None:
    """Which arguments are wrong, what the schema wants, and a call that would do."""
    if not result.outcome.invalid or call.tool not in facts.tools:
        return None
    schema = facts.schema(call.tool)
    fields: Mapping[str, Any] = schema.get("properties") or {}
    if not fields:
        return None
    required = schema.get("required") or []
    wrong = [*_wrong(call, fields, required)]
    told = [*_mistakes(call, fields, wrong)] or [f"the arguments are {_listed(fields)}"]
    example = scratchpad.describe(call.tool, _example(call, fields, required, wrong))
    return f"{'; '.join(told).capitalize()}. For example: {example}"


def _wrong(
    call: Step, fields: Mapping[str, Any], required: Sequence[str]
) -> Iterator[str]:
    """The arguments that do not fit their schema, then those that are missing."""
    yield from (name for name, field in fields.items() if not _fits(call, name, field))
    yield from (name for name in required if name in fields and name not in call.args)


def _mistakes(
    call: Step, fields: Mapping[str, Any], wrong: Sequence[str]
) -> Iterator[str]:
    """What is said of the arguments that are `wrong`, and of those made up."""
    extra = [name for name in call.args if name not in fields]
    yield from (f"{quoted(name, 40)} is {_wanted(fields[name])}" for name in wrong[:4])
    yield from (f"there is no argument {quoted(name, 40)}" for name in extra[:2])


_TYPES: Mapping[str, tuple[tuple[type, ...], Any]] = {
    "string": ((str,), "text"),
    "integer": ((int,), 1),
    "number": ((int, float), 1),
    "boolean": ((bool,), True),
    "array": ((list, tuple), []),
    "object": ((Mapping,), {}),
}


def _fits(call: Step, name: str, field: Mapping[str, Any]) -> bool:
    """Does an argument fit its schema, as far as type and enumeration tell."""
    value = call.args.get(name)
    if value is None:
        return True
    kinds = _TYPES.get(str(field.get("type")))
    if kinds and (not isinstance(value, kinds[0]) or _is_flag(value, field)):
        return False
    return "enum" not in field or value in field["enum"]


def _is_flag(value: Any, field: Mapping[str, Any]) -> bool:
    return isinstance(value, bool) and field["type"] != "boolean"


def _wanted(field: Mapping[str, Any]) -> str:
    """What the schema says of an argument."""
    if "enum" in field:
        return "one of " + ", ".join(str(value) for value in field["enum"][:6])
    kind = str(field.get("type") or "required")
    about = field.get("description")
    return f"{kind} ({scratchpad.quote(about, 60)})" if about else kind


def _example(
    call: Step, fields: Mapping[str, Any], required: Iterable[str], wrong: Iterable[str]
) -> dict[str, Any]:
    """The arguments as they could be: what was right stays."""
    bad = {*wrong}
    kept = {k: v for k, v in call.args.items() if k in fields and k not in bad}
    filled = [name for name in fields if name in bad or name in {*required}]
    return {**{name: _sample(fields[name]) for name in filled}, **kept}


def _sample(field: Mapping[str, Any]) -> Any:
    if field.get("enum"):
        return field["enum"][0]
    if field.get("default") is not None:
        return field["default"]
    return _TYPES.get(str(field.get("type")), ((), "..."))[1]


_MISSING = re.compile(
    r"no such|not found|does(?: not|n't) exist|no (?:file|folder|directory)|enoent"
    r"|(?:cannot|can't|could not) find|not a (?:file|directory)",
    re.I,
)


def missing_path(call: Step, result: Result, facts: Facts) -> str | None:
    """Near paths seen so far, and how to list, where a path does not exist."""
    path = result.path or find_path(call.args)
    if not path or not result.outcome.failed or not _MISSING.search(_telling(result)):
        return None
    near = _near(path, [other for other in facts.paths() if other != path])
    hint = f" Near paths seen so far: {_listed(near)}." if near else ""
    lists = next(filter(_LISTS.search, facts.tools), None)
    tools = f" with {quoted(lists)}" if lists else ""
    return f"There is no {quoted(path)}.{hint} List the folder{tools} before guessing."


_LISTS = re.compile(r"^ls$|list_?(?:dir|files|folder)|glob|tree|find_?files", re.I)


def _near(path: str, seen: Sequence[str]) -> list[str]:
    name = path.rpartition("/")[2]
    same = [other for other in seen if other.rpartition("/")[2] == name]
    return [*dict.fromkeys([*same, *get_close_matches(path, seen, 3)])][:3]


_PATHLIKE = re.compile(
    r"(?<![\w:/.-])\.{0,2}/?[\w.-]+(?:/[\w.-]+)+|\b[\w-]{1,80}\.[a-z]\w{0,4}\b"
)


def paths_in(texts: Iterable[str]) -> list[str]:
    """The distinct paths in results, the newest `_PATHS` of them; errors are no source.

    Args:
        texts: Results, newest first.
    """
    found: dict[str, None] = {}
    for text in texts:
        if not text[:8].lower().startswith(("error", "no such")):
            found.update(dict.fromkeys(_PATHLIKE.findall(clip(text))))
        if len(found) >= _PATHS:
            break
    return [*found][:_PATHS]


def _telling(result: Result) -> str:
    """The line that says what went wrong."""
    data = result.text.encode("utf-8", "replace")
    return telling_line(data).decode("utf-8", "replace")


_FORBIDDEN = re.compile(
    r"permission denied|access (?:is )?denied|forbidden|unauthori[sz]ed"
    r"|not (?:allowed|permitted|authori[sz]ed)|\b40[13]\b|read-only file"
    r"|insufficient (?:permissions|privileges|scope)"
)
_IMPOSSIBLE = re.compile(
    r"not (?:supported|implemented|possible|available (?:in|for|on))|unsupported"
)


def not_possible(call: Step, result: Result, facts: Facts) -> str | None:
    """That another try fails too, where something is forbidden or can't be done."""
    outcome = result.outcome
    if not outcome.failed or outcome.transient or outcome.ok is not None:
        return None
    line = _telling(result)
    if _FORBIDDEN.search(line):
        why = "it is not permitted here"
    elif _IMPOSSIBLE.search(line):
        why = "it is not possible here"
    else:
        return None
    leave = ", or call `give_up` and say what is missing"
    out = leave if "give_up" in facts.tools else ""
    return f"Trying again will not help: {why}. Reach the goal another way{out}."


def empty_result(call: Step, result: Result, facts: Facts) -> str | None:
    """That a search was carried out and found nothing."""
    if not result.outcome.empty or result.outcome.failed or result.role != "read":
        return None
    return (
        "Searched, none exist: the call worked. The same call will not find more; "
        "look for other words or in another place, or take it that there are none."
    )


_CUT = re.compile(
    r"(?:[\[(<…]|\.\.\.)[^\n]{0,60}?(?:truncated|omitted|left out|\bmore (?:lines"
    r"|characters|bytes|rows|results|entries|items))[^\n]{0,60}",
    re.I,
)
_RANGES = re.compile(
    r"^(?:offset|start|start_line|line_start|from_line|page|cursor|skip|limit)$", re.I
)


def cut_output(call: Step, result: Result, facts: Facts) -> str | None:
    """What is missing from a result that was cut, and how to get it."""
    if result.outcome.failed:
        return None
    found = _CUT.search(result.text[:200]) or _CUT.search(result.text[-400:])
    if found is None:
        return None
    known = call.tool in facts.tools
    fields = facts.schema(call.tool).get("properties") or {} if known else {}
    ranges = [name for name in fields if _RANGES.match(name)]
    how = (
        f"ask for the rest with {_listed(ranges[:2])}"
        if ranges
        else ("ask for less at a time (a narrower query, a part of the file)")
    )
    return f"The result is not whole ({quoted(found.group(), 60)}): {how}."


DEFAULTS: tuple[Advisor, ...] = (
    unknown_tool,
    invalid_arguments,
    missing_path,
    not_possible,
    empty_result,
    cut_output,
)
"""The advisors of `Policy()`; the first that has something to say is heard."""

"""What is wrong with tools, before or after an agent goes in circles over them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from loopguard_lg.analysis.tooluse import Evidence, Fault, Uses
from loopguard_lg.roles import name_role

Level: TypeAlias = Literal["note", "warning", "error"]
"""How bad a problem is, in the words of SARIF."""

LEVELS: tuple[Level, ...] = get_args(Level)

OFTEN = 3
"""Calls from which on a fault of results is no accident."""

ALIKE = 0.6
"""Share of words in common above which two descriptions overlap."""


class Rule(NamedTuple):
    """What is looked for: how bad it is, in a sentence, and what helps."""

    level: Level
    text: str
    help: str


RULES: Mapping[str, Rule] = {
    "no-description": Rule(
        "error",
        "A tool has no description, so that the model guesses what it does.",
        "Say what it does, when to use it, and what it returns.",
    ),
    "thin-description": Rule(
        "warning",
        "A description says no more than the name.",
        "Say when to use it, and what it returns.",
    ),
    "undescribed-argument": Rule(
        "note",
        "An argument is not described.",
        "Say what it means and which values there are, with an example.",
    ),
    "overlapping-names": Rule(
        "warning",
        "Two names mean the same, so that the model can't choose.",
        "Make one tool of both, or name what sets them apart.",
    ),
    "overlapping-descriptions": Rule(
        "warning",
        "Two descriptions say about the same, so that the model can't choose.",
        "Say in each when to use the other.",
    ),
    "mute-error": Rule(
        "warning",
        "Errors do not say what to do, so that the same call comes again.",
        "Name the cause, what would be right, and the next step.",
    ),
    "empty-result": Rule(
        "warning",
        "Results are empty, which looks like a failure.",
        "Say that the call worked, and what it found or did.",
    ),
    "unmarked-cut": Rule(
        "warning",
        "Results are cut without a mark, so that the rest seems not to exist.",
        "Say how much is left out, and how to get it.",
    ),
    "no-exit": Rule(
        "warning",
        "There is no tool to give up or to ask with.",
        "Add one; LoopGuardMiddleware brings `give_up`, and `ask_user` where told to.",
    ),
}
"""Everything that is looked for, by its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as a model is told of it.

    Attributes:
        name: Its name.
        description: What it is said to do; `None`: nobody knows (only runs tell of it).
        arguments: The description of each argument, empty without one.
        file: Where it is written, where that is known.
        line: Line of the file, from 1.
    """

    name: str
    description: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    file: str | None = None
    line: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong with a tool, or with several.

    Attributes:
        rule: Its id in `RULES`.
        level: How bad it is; worse than the rule's where half of the runs loop.
        tools: The tools, by name; none for what is missing.
        text: What is wrong, in a sentence.
        calls: So many recorded calls show it.
        runs: In so many runs.
        loops: So many of them go in circles.
        evidence: Some of the calls.
        where: The first tool.
    """

    rule: str
    level: Level
    tools: tuple[str, ...]
    text: str
    calls: int = 0
    runs: int = 0
    loops: int = 0
    evidence: tuple[Evidence, ...] = ()
    where: ToolSpec | None = None

    def as_dict(self) -> dict[str, Any]:
        """The problem for a machine to read."""
        return {
            "rule": self.rule,
            "level": self.level,
            "tools": list(self.tools),
            "text": self.text,
            "help": RULES[self.rule].help,
            "file": self.where.file if self.where else None,
            "line": self.where.line if self.where and self.where.file else None,
            "calls": self.calls,
            "runs": self.runs,
            "loops": self.loops,
            "evidence": [each._asdict() for each in self.evidence],
        }


def lint(tools: Sequence[ToolSpec], seen: Uses | None = None) -> list[Problem]:
    """The problems of tools, the worst first.

    Args:
        tools: The tools, or none where only runs tell of them.
        seen: How they were used.
    """
    used = seen or Uses()
    known = tools or [ToolSpec(name=name) for name in used.tools]
    found = [
        *_described(known),
        *_overlaps(known, used),
        *_results(known, used),
        *_exits(tools),
    ]
    return sorted(found, key=lambda p: (-LEVELS.index(p.level), -p.loops, -p.calls))


def _problem(
    rule: str, tools: Sequence[ToolSpec], text: str, fault: Fault | None = None
) -> Problem:
    seen = fault or Fault()
    level = RULES[rule].level
    return Problem(
        rule=rule,
        level="error" if level == "warning" and _loops(seen) else level,
        tools=tuple(tool.name for tool in tools),
        text=text,
        calls=seen.calls,
        runs=seen.runs,
        loops=seen.loops,
        evidence=tuple(seen.shown),
        where=tools[0] if tools else None,
    )


def _loops(fault: Fault) -> bool:
    """Do at least half of the runs that show it go in circles?"""
    return 0 < fault.runs <= 2 * fault.loops


def _described(tools: Iterable[ToolSpec]) -> Iterator[Problem]:
    for tool in tools:
        if tool.description is None:
            continue
        if not tool.description.strip():
            yield _problem("no-description", [tool], "has no description")
        elif set(words(tool.description)) <= set(words(tool.name)):
            yield _problem(
                "thin-description", [tool], f"is only said to be {tool.description!r}"
            )
        silent = (name for name, about in tool.arguments.items() if not about.strip())
        missing = [f"`{n}`" for n in silent if not _names(tool.description, n)]
        if missing:
            text = f"does not describe {', '.join(missing)}"
            yield _problem("undescribed-argument", [tool], text)


def _names(text: str, word: str) -> bool:
    return bool(re.search(rf"\b{re.escape(word)}\b", text, re.I))


def _overlaps(tools: Sequence[ToolSpec], used: Uses) -> Iterator[Problem]:
    for a, b in combinations(tools, 2):
        first, second = sorted((a.name, b.name))
        fault = used.alike.get((first, second))
        if _same(a.name, b.name):
            yield _problem(
                "overlapping-names", [a, b], "have names that mean the same", fault
            )
        elif _alike(a.description or "", b.description or ""):
            text = "have descriptions that say about the same"
            yield _problem("overlapping-descriptions", [a, b], text, fault)


def _same(a: str, b: str) -> bool:
    """Do two names mean the same? A bare verb is taken by the letter."""
    first, second = sorted(meaning(a)), sorted(meaning(b))
    return first == second and (len(first) > 1 or bare(a) == bare(b))


def _alike(a: str, b: str) -> bool:
    """Do two descriptions begin with the same act, on about the same things?"""
    first, second = _content(a), _content(b)
    if min(len(first), len(second)) < 3 or first[0] != second[0]:
        return False
    one, other = set(first), set(second)
    return len(one & other) / len(one | other) > ALIKE


def _content(text: str) -> list[str]:
    """The words of the first paragraph that say something."""
    opening = text.strip().partition("\n\n")[0]
    return [word for word in meaning(opening) if word not in _FILLERS]


def _results(tools: Iterable[ToolSpec], used: Uses) -> Iterator[Problem]:
    for tool in tools:
        use = used.tools.get(tool.name)
        if use is None:
            continue
        mute, blank, cut = use.mute, use.blank, use.cut
        if mute.calls >= OFTEN and mute.calls * 2 >= use.failed:
            text = f"says nothing of what to do in {mute.calls} of {use.failed} errors"
            yield _problem("mute-error", [tool], text, mute)
        if blank.calls >= OFTEN:
            text = f"returns nothing at all in {blank.calls} of {use.calls} calls"
            yield _problem("empty-result", [tool], text, blank)
        if len(cut.results) >= OFTEN:
            text = f"returns {cut.length} characters at most, and marks no cut"
            yield _problem("unmarked-cut", [tool], text, cut.fault)


def _exits(tools: Sequence[ToolSpec]) -> Iterator[Problem]:
    if tools and not any(name_role(tool.name)[0] == "exit" for tool in tools):
        yield _problem("no-exit", [], "no tool gives up or asks a person")


_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

_SAME = {
    word: group.split()[0]
    for group in (
        "get fetch retrieve load read obtain",
        "search find lookup query",
        "create add make insert",
        "delete remove drop erase",
        "update edit modify change set",
        "run execute exec",
        "send post submit",
        "folder directory dir",
        "doc document",
    )
    for word in group.split()
}
"""Words that mean the same in a tool's name, by the first of them."""

_FILLERS = frozenset(("a", "an", "the", "of", "to", "for", "from", "in", "on", "by"))
_FILLERS |= {"this", "that", "at", "with", "and", "or", "is", "are", "it", "its", "as"}
_FILLERS |= {"given", "you", "your", "can", "use", "will", "all", "any", "one", "be"}

_EMPTY = frozenset(("tool", "function", "new", "old", "v", "1", "2", "3"))
"""Words of a name that do not tell tools apart."""


def words(text: str) -> list[str]:
    """The words of a name or a sentence, small, in the singular."""
    return [_singular(word.lower()) for word in _WORD.findall(text)]


def meaning(text: str) -> list[str]:
    """The same, with one word for all that mean the same."""
    return [_SAME.get(word, word) for word in bare(text)]


def bare(text: str) -> list[str]:
    """The words without those that tell nothing apart, such as a version."""
    return [word for word in words(text) if word not in _EMPTY] or words(text)


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith("ss"):
        return word
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return word[:-3] + "y" if word.endswith("ies") else word[:-1]

"""Does the text of a test say less after an edit than before?

Python is parsed; other languages, and fragments that are no Python by themselves, are
judged by rule.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import Any, NamedTuple

from loopguard_lg.digests import words

SKIP = re.compile(
    r"@(?:pytest\.mark\.|unittest\.)?(?:skip|xfail|expectedfailure|ignore|disabled)"
    r"|pytest\.(?:skip|xfail)\(|\b(?:it|test|describe)\.(?:skip|todo)\b|\bx(?:it|describe|test)\("
    r"|\bt\.skip(?:now)?\(|#\[ignore\]|\.only\(|return +# *skip|self\.skiptest"
    r"|\bcollect_ignore\b|\bmarkTestSkipped\(|\bpending\(",
    re.IGNORECASE,
)
_ASSERTS = re.compile(
    r"\bassert\w*|\bexpect\(|\.should\b|\brequire\.|\bt\.(?:error|fatal)|raises\(",
    re.IGNORECASE,
)
_HOLLOW = re.compile(
    r"assert\w*[ (]+(?:true|1|not false)\b|is not none|isnotnone|assertisnotnone"
    r"|or true\b|expect\((?:true|1)\)|tobedefined\(|tobetruthy\(",
    re.IGNORECASE,
)
_CASES = re.compile(
    r"\b(?:it|test|specify)\("
    r"|\bfunc Test\w|#\[test\]|@Test\b|\bdef test_|\bTEST(?:_F)?\("
)
_REMARK = re.compile(r"^\s*(?://|\*|/\*).*$", re.MULTILINE)
_TABLE = re.compile(r"\.each\(|@ParameterizedTest|#\[rstest|\btests? := \[\]|\bcases\b")
_DIGITS = re.compile(r"toBeCloseTo\([^,\n]+, *(\d+)\)")
_WIDER = words("rel abs atol rtol delta tolerance rel_tol abs_tol")
_LOWER = words("places decimal significant")


def softer(old: str, new: str, *, python: bool) -> bool:
    """Is the text after an edit skipped, or does it assert less than before?"""
    before, after = (_parsed(old), _parsed(new)) if python else (None, None)
    if before is not None and after is not None:
        return _teeth(after).weaker_than(_teeth(before))
    if len(SKIP.findall(new)) > len(SKIP.findall(old)):
        return True
    if len(_CASES.findall(new)) < len(_CASES.findall(old)):
        return True
    if _least(_DIGITS.findall(new)) < _least(_DIGITS.findall(old)):
        return True
    asserts = len(_ASSERTS.findall(old))
    hollow = len(_HOLLOW.findall(new)) > len(_HOLLOW.findall(old))
    return asserts > 0 and (len(_ASSERTS.findall(new)) < asserts or hollow)


class Held(NamedTuple):
    """What a whole file of tests holds.

    Attributes:
        tests: Its cases.
        asserts: What it asserts.
        slips: What is skipped, or holds whatever the program does.
        tables: Tables of cases: many tests may have become one.
    """

    tests: int
    asserts: int
    slips: int
    tables: int

    def less_than(self, other: Held) -> bool:
        """Is it less than another one? Of that a part may be all that was seen."""
        if self.slips > other.slips and self.tests <= other.tests:
            return True
        fewer = self.tests < other.tests or self.asserts < other.asserts
        return fewer and self.tables <= other.tables


def held(text: str, *, python: bool) -> Held | None:
    """What a file of tests holds; `None` for Python that can't be parsed."""
    if python:
        tree = _parsed(text)
        if tree is None:
            return None
        found = _teeth(tree).counts
        slips = found["skips"] + found["hollow"]
        return Held(found["tests"], found["asserts"], slips, found["tables"])
    bare = _REMARK.sub("", text)
    slips = len(SKIP.findall(bare)) + len(_HOLLOW.findall(bare))
    cases, asserts = len(_CASES.findall(bare)), len(_ASSERTS.findall(bare))
    return Held(cases, asserts, slips, len(_TABLE.findall(bare)))


def _least(digits: list[str]) -> int:
    return min(map(int, digits), default=99)


def _parsed(text: str) -> ast.Module | None:
    """A piece of Python, also where a body or what it stands in is missing."""
    plain = dedent(text).strip("\n")
    for whole in (plain, f"{plain}\n    pass", f"if 1:\n{text}"):
        try:
            return ast.parse(whole)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


class _Teeth(NamedTuple):
    """What a text of tests holds.

    Attributes:
        counts: How many `tests`, `asserts`, `hollow` ones, `skips`, `tables` of cases.
        slack: What is allowed by tolerances and limits; more is looser.
    """

    counts: Counter[str]
    slack: dict[str, float]

    def weaker_than(self, other: _Teeth) -> bool:
        """Does it assert less than another one?"""
        mine, its = self.counts, other.counts
        if any(mine[what] > its[what] for what in ("skips", "hollow")):
            return True
        wider = any(self.slack.get(k, v) > v for k, v in other.slack.items())
        tabled = mine["tables"] > its["tables"]  # many tests may have become one
        fewer = any(mine[what] < its[what] for what in ("tests", "asserts"))
        return wider or fewer and not tabled


def _teeth(tree: ast.Module) -> _Teeth:
    found: Counter[str] = Counter()
    slack: dict[str, float] = {}
    for node in ast.walk(tree):
        found.update(_counted(node))
        slack.update(_allowed(node))
    return _Teeth(found, slack)


def _counted(node: ast.AST) -> Iterator[str]:
    """What a node adds to the counts."""
    count = _COUNTS.get(type(node))
    return count(node) if count else iter(())


def _function(node: Any) -> Iterator[str]:
    if node.name.startswith("test"):
        yield "tests"
        if isinstance(node.body[0], ast.Return):
            yield "skips"


def _assert(node: Any) -> Iterator[str]:
    yield "hollow" if _hollow(node.test) else "asserts"


def _call(node: Any) -> Iterator[str]:
    if _name(node.func).startswith(("assert", "expect")):
        yield from ["hollow"] * any(map(_hollow, node.args[:1]))


def _handler(node: Any) -> Iterator[str]:
    if _name(node.type) in ("", "AssertionError", "Exception", "BaseException"):
        yield "skips"


def _named(node: Any) -> Iterator[str]:
    name = _name(node).lower()
    if name.startswith(_SKIPPED):
        yield "skips"
    elif name == "parametrize":
        yield "tables"
    elif name in _ASSERT or name.startswith("assert") and name not in _NO_ASSERT:
        yield "asserts"


_SKIPPED = ("skip", "xfail", "expectedfail", "importorskip", "collect_ignore")
_ASSERT = ("raises", "warns", "expect")
_NO_ASSERT = ("assertionerror", "assertisnotnone")
_COUNTS: dict[type[ast.AST], Callable[[Any], Iterator[str]]] = {
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Assert: _assert,
    ast.Call: _call,
    ast.ExceptHandler: _handler,
    ast.Name: _named,
    ast.Attribute: _named,
}


def _name(node: ast.AST | None) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _hollow(test: ast.expr) -> bool:
    """Does an assertion hold whatever the program does, or nearly so?"""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.Name):
        return test.id == "true"
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return any(map(_hollow, test.values))
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
        right = test.comparators[0]
        return isinstance(right, ast.Constant) and right.value is None
    return False


def _allowed(node: ast.AST) -> Iterator[tuple[str, float]]:
    """What a tolerance or a limit allows, by what it is of; more is looser."""
    if isinstance(node, ast.Call):
        return _tolerances(node)
    return _limits(node) if isinstance(node, ast.Compare) else iter(())


def _tolerances(node: ast.Call) -> Iterator[tuple[str, float]]:
    what = ast.dump(ast.Tuple([node.func, *node.args[:1]], ast.Load()))
    for keyword in node.keywords:
        number, name = _number(keyword.value), keyword.arg or ""
        if number is not None and name in _WIDER | _LOWER:
            yield f"{what}{name}", -number if name in _LOWER else number


def _limits(node: ast.Compare) -> Iterator[tuple[str, float]]:
    number = _number(node.comparators[0])
    sign, way = _SIGNS.get(type(node.ops[0]), ("", 0))
    if number is not None and sign:
        yield f"{ast.dump(node.left)}{sign}", number * way


_SIGNS: dict[type[ast.cmpop], tuple[str, int]] = {
    ast.Lt: ("<", 1),
    ast.LtE: ("<", 1),
    ast.Gt: (">", -1),
    ast.GtE: (">", -1),
}
"""How a comparison is spelled, and whether a larger number is looser."""


def _number(node: ast.expr) -> float | None:
    """A number that is written out."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain else None

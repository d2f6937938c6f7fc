"""Regular expressions, read as trees: can one of them blow up?"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from re import _constants as sre, _parser as parser  # type: ignore[attr-defined]
from typing import Any

import loopguard_lg

Codes = frozenset[int]
_ALL: Codes = frozenset(range(256))
_CLASSES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}
_MANY = 1_000
"""A repeat of so many times is one without a bound."""


def compiled() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Every expression that a module of the package holds, with where it is."""
    for found in pkgutil.walk_packages(loopguard_lg.__path__, "loopguard_lg."):
        if found.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:  # an extra that is not here
            continue
        for name, value in vars(module).items():
            for pattern in _inside(value):
                yield f"{found.name}.{name}", pattern


def _inside(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from _inside([*value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _inside(item)


def ambiguous(pattern: re.Pattern[Any]) -> list[str]:
    """What can match one text in exponentially many ways.

    A repeat inside a repeat is safe if each turn of the outer one has a character that
    no repeat inside can take: then there is one way to cut the text into turns.
    """
    return [*_ambiguous(parser.parse(pattern.pattern, pattern.flags))]


def _ambiguous(tree: Any) -> Iterator[str]:
    for op, value in tree:
        for part in _parts(op, value):
            endless = op in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[1] >= _MANY
            inner = [*_repeats(part)] if endless else []
            taken = frozenset().union(*inner)
            if inner and all(one & taken for one in _fixed(part)):
                yield str(part)
            yield from _ambiguous(part)


def _parts(op: Any, value: Any) -> list[Any]:
    """The trees inside one node."""
    if op is sre.BRANCH:
        return [*value[1]]
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        return [value[2]]
    if op is sre.SUBPATTERN:
        return [value[3]]
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return [value[1]]
    return [value] if op is sre.ATOMIC_GROUP else []


def _repeats(tree: Any) -> Iterator[Codes]:
    """What each repeat without a bound inside a tree can take."""
    for op, value in tree:
        endless = op in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[1] >= _MANY
        for part in _parts(op, value):
            if endless:
                yield frozenset().union(*_taken(part))
            yield from _repeats(part)


def _fixed(tree: Any) -> Iterator[Codes]:
    """The characters that each match of a tree has to have, one set for each."""
    for op, value in tree:
        if op is sre.SUBPATTERN:
            yield from _fixed(value[3])
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[0]:
            yield from _fixed(value[2])
        elif not _parts(op, value) and op is not sre.AT:
            yield _codes(op, value)


def _taken(tree: Any) -> Iterator[Codes]:
    """All that a tree can take, a set for each node that takes something."""
    for op, value in tree:
        parts = [] if op in (sre.ASSERT, sre.ASSERT_NOT) else _parts(op, value)
        for part in parts:
            yield from _taken(part)
        if not _parts(op, value) and op is not sre.AT:
            yield _codes(op, value)


def _codes(op: Any, value: Any) -> Codes:
    """The characters below 256 that one node takes; all where that is not known."""
    if op is sre.LITERAL:
        return frozenset({value})
    if op is sre.NOT_LITERAL:
        return _ALL - {value}
    if op is sre.RANGE:
        return frozenset(range(value[0], min(value[1], 255) + 1))
    if op is sre.CATEGORY:
        return frozenset(c for c in _ALL if re.match(_CLASSES[value], chr(c)))
    if op is not sre.IN:
        return _ALL
    negated = value[0][0] is sre.NEGATE
    found = frozenset().union(*(_codes(*one) for one in value[negated:]))
    return _ALL - found if negated else found

"""The page that says which surface to take, against the surfaces."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import loopguard_lg
from loopguard_lg import (
    GuardedToolNode,
    LoopGuardCallback,
    LoopGuardMiddleware,
    guard_graph,
    guarded,
)
from loopguard_lg.errors import PolicyError
from tests.docs_pages import text

SURFACES = (
    LoopGuardMiddleware,
    guard_graph,
    GuardedToolNode,
    guarded,
    LoopGuardCallback,
)
TABLE = text("docs/how-to/which-surface.md").partition("## Options")[2]
ROWS = re.findall(r"^\| `(\w+)` \| [^|]*\|(.*)\|$", TABLE, re.MULTILINE)


@pytest.mark.parametrize(("option", "cells"), ROWS, ids=[name for name, _ in ROWS])
def test_an_option_is_taken_where_the_page_says_so(option: str, cells: str) -> None:
    """By this name, as a keyword, and nowhere else."""
    said = [cell.strip() == "yes" for cell in cells.split("|")]

    taken = [option in inspect.signature(surface).parameters for surface in SURFACES]
    assert said == taken


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.__name__)
def test_every_surface_takes_a_policy_without_its_name(surface: object) -> None:
    """It comes first, or right after what is guarded, and may be left out."""
    assert callable(surface)
    names = list(inspect.signature(surface).parameters.values())
    (policy,) = (one for one in names if one.name == "policy")

    assert names.index(policy) <= 1
    assert policy.kind is not inspect.Parameter.KEYWORD_ONLY
    assert policy.default is None


@pytest.mark.parametrize("surface", [LoopGuardMiddleware, LoopGuardCallback])
def test_what_can_observe_nothing_is_named(surface: Any) -> None:
    """One clear error at the start, with the value and what would be right."""
    with pytest.raises(PolicyError, match=r"observers=3: give callables in a list"):
        surface(observers=3)


def test_every_public_name_says_in_a_line_what_it_is() -> None:
    """Help in a shell begins with a sentence of the thing's own."""
    for name in {*loopguard_lg.__all__} - {"__version__"}:
        first = inspect.getdoc(getattr(loopguard_lg, name)).split("\n\n")[0]

        assert len(first) <= 170, name
        assert first.rstrip()[-1] in ".`", name

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.digests import (
    args_hash,
    call_digest,
    calm,
    near_digest,
    result_digest,
    result_hash,
    settle,
    size,
    squeeze,
    step_digests,
    tidy_path,
)
from loopguard_lg.sketches import likeness, sketch, units
from loopguard_lg.steps import Step
from loopguard_lg.tools import ToolPolicy

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
ARGS = st.dictionaries(st.text(), JSON, max_size=5)


def _result(text: str) -> int:
    step = Step(tool="f", result=text)
    return result_digest(step, squeeze(settle(step)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1.0}, {"a": 1}),
        ({"q": "x"}, {"q": "  x\n"}),
        ({"path": "src/a.py"}, {"path": "./src//b/../a.py"}),
        ({"file_path": "src"}, {"file_path": "src/"}),
        ({"dir": "a\\b"}, {"dir": "a/b"}),
        ({"q": "x"}, {"q": "x", "request_id": "3f2a9c1b-77d0"}),
        ({"q": "x"}, {"q": "x", "cursor": None}),
        ({"o": {"a": 1, "b": [1.0]}}, {"o": {"b": [1], "a": 1}}),
    ],
)
def test_calls_that_do_the_same_have_one_identity(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """Spelling, order and request ids do not make another call."""
    assert call_digest("f", one) == call_digest("f", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"q": "x"}, {"q": "y"}),
        ({"q": "x"}, {"q": "X"}),
        ({"n": 1}, {"n": 2}),
        ({"n": 1}, {"n": True}),
        ({"page": 1}, {"page": None}),
        ({"a": "b"}, {"b": "a"}),
        ({"title": "t", "description": "one"}, {"title": "t", "description": "two"}),
        ({"thought": "one"}, {"thought": "two"}),
        ({"path": "/a"}, {"path": "a"}),
        ({"pattern": "a/./b"}, {"pattern": "a/b"}),
        ({"x": [1, 2]}, {"x": [2, 1]}),
    ],
)
def test_calls_that_do_other_things_are_told_apart(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """What a call does is not normalised away."""
    assert call_digest("f", one) != call_digest("f", other)


def test_the_tool_is_part_of_the_identity() -> None:
    """The same arguments to another tool are another call."""
    assert call_digest("f", {"a": 1}) != call_digest("g", {"a": 1})


def test_volatile_arguments_come_from_the_policy() -> None:
    """What the policy calls volatile does not count."""
    tools = {"f": ToolPolicy(volatile=("tick",))}

    one, other = ({"q": "x", "tick": n} for n in (1, 2))
    assert call_digest("f", one, tools) == call_digest("f", other, tools)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"q": "Blue widget"}, {"q": "blue  WIDGET"}),
        ({"q": "ÉTÉ"}, {"q": "été"}),
        ({"command": "ls a", "description": "x"}, {"command": "ls a"}),
        ({"path": "a/b"}, {"path": "a/b/"}),
        ({"job": "3f2a9c1b0d"}, {"job": "77e1f2a9c0"}),
        ({"at": "2024-05-01T10:00:00Z"}, {"at": "2024-05-01T11:30:59Z"}),
    ],
)
def test_near_calls_differ_by_what_rarely_matters(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """Case, white space, annotations, times and random ids are not looked at."""
    first, second = (step_digests(Step(tool="f", args=a))[1] for a in (one, other))

    assert first == second


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("done in 0.12 s", "done in 3.4 s"),
        ("at 2024-05-01 10:00:00 ok", "at 2024-05-01 11:59:59 ok"),
        ("commit 3f2a9c1", "commit 77e1f2a"),
        (
            "id 123e4567-e89b-12d3-a456-426614174000",
            "id 00000000-e89b-12d3-a456-42661417400f",
        ),
        ("<obj at 0x7f3a12bc>", "<obj at 0x55d0f3aa>"),
        ("pid 4711 started", "pid 12 started"),
        ("wrote /tmp/abc123", "wrote /tmp/zzz"),
        ("attempt 2 failed", "attempt 3 failed"),
        ("a  b\n", "a b"),
    ],
)
def test_results_are_equal_whatever_their_times_and_ids(one: str, other: str) -> None:
    """Volatile parts of results are masked."""
    assert _result(one) == _result(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3 failed", "2 failed"),
        ("balance 1,204.10", "balance 1,180.60"),
        ("page 1", "page 2"),
        ("departs 12:30", "departs 13:30"),
        ("on 2024-05-01", "on 2024-05-02"),
        ("defaced", "effaced"),
        ("", "0"),
    ],
)
def test_results_that_say_other_things_are_told_apart(one: str, other: str) -> None:
    """Data is not masked."""
    assert _result(one) != _result(other)


def test_long_results_differ_where_their_middle_does() -> None:
    """Of a long result the part that is not looked at counts as well."""
    head, tail = "a line\n" * 900, "the end\n" * 900

    assert _result(head + "x" + tail) != _result(head + "y" + tail)


@given(ARGS)
def test_any_arguments_have_digests(args: dict[str, Any]) -> None:
    """Digests are stable and fit a signed 64-bit integer."""
    assert args_hash(args) == args_hash(dict(reversed(args.items())))
    assert 0 <= call_digest("f", args) < 2**63


def test_hostile_arguments_have_digests() -> None:
    """Cycles, NaN, surrogates, objects and huge numbers are no obstacle."""
    cycle: dict[str, Any] = {"nan": math.nan, "bad": "\ud800", "big": 10**5_000}
    cycle["self"] = [cycle, object(), {1: {2}}]

    assert args_hash(cycle) == args_hash(cycle)
    assert call_digest("f", cycle) == call_digest("f", cycle)


def test_objects_count_by_their_type_not_their_address() -> None:
    """Two plain objects make one call."""
    assert args_hash({"x": object()}) == args_hash({"x": object()})


def test_objects_that_refuse_to_be_text_have_digests() -> None:
    """Somebody else's `__str__` may raise."""

    class Mute:
        def __str__(self) -> str:
            raise RuntimeError

    assert args_hash({"x": Mute()}) == args_hash({"x": Mute()})


def test_the_size_of_a_result_is_that_of_the_untrimmed_one() -> None:
    """A recording says how large it was; live text is measured in bytes."""
    assert size(Step(tool="f", result="é")) == 2
    assert size(Step(tool="f", result="x", result_bytes=9)) == 9


def test_ten_megabytes_have_digests() -> None:
    """Size is no obstacle, and the last character counts."""
    text = "x" * 10_000_000

    assert result_hash(text) != result_hash(text + "y")
    assert call_digest("f", {"q": text}) != call_digest("f", {"q": text + "y"})


@given(st.text())
def test_tidy_paths_stay_as_they_are(path: str) -> None:
    """Tidying twice is tidying once."""
    assert tidy_path(tidy_path(path)) == tidy_path(path)


@given(st.text())
def test_case_makes_no_other_near_digest(text: str) -> None:
    """Any text has a near digest, in which case does not count."""
    assert near_digest(text.encode()) == near_digest(text.casefold().encode())


def test_masks_stay_masked() -> None:
    """Masking twice is masking once."""
    once = calm(b"at 10:00:00 pid 12 took 3 s, see /tmp/x1 and 3f2a9c1b")

    assert once == b"at <time> <n> took <took>, see <tmp> and <id>"
    assert calm(once) == once


def test_likeness_is_the_share_of_common_words() -> None:
    """The same words in any order are alike, others are not."""
    one, same, other = map(
        sketch, (b"red big car", b"car, big RED", b"blue small boat")
    )

    assert likeness(one, same) == 1.0
    assert likeness(one, other) < 0.4
    assert likeness(0, 0) == 1.0


def test_units_are_lines_or_clauses() -> None:
    """Long texts are taken apart by lines, short ones by clauses; numbers in front of
    lines are ignored.
    """
    plain = b"header\nalpha\nbeta\ngamma\ndelta"
    numbered = squeeze(b"header\n 1\talpha\n 2\tbeta\n 3\tgamma\n 4\tdelta")

    assert set(units(plain)) == set(units(numbered))
    assert len(units(b"one thing, another, a third")) == 3


@given(st.lists(st.text("abcdef", min_size=4), min_size=40, max_size=60))
def test_few_units_are_kept_and_they_are_the_same_in_any_order(
    lines: list[str],
) -> None:
    """Of many lines the same ones are taken, whatever their order."""
    one, other = ("\n".join(part).encode() for part in (lines, reversed(lines)))

    assert len(units(one)) <= 24
    assert set(units(one)) == set(units(other))

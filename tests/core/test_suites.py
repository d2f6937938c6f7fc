"""Test files written anew, and checks that run fewer tests than before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.history import History
from loopguard_lg.steps import Event
from loopguard_lg.suites import tests_run as run_by
from loopguard_lg.weakening import held

from .detectors.runs import asks, does, trip

PATH = "tests/test_a.py"
FULL = "def test_a():\n    assert f() == 1\n\n\ndef test_b():\n    assert g() == 2\n"
HALF = "def test_a():\n    assert f() == 1\n"
SKIPPED = FULL.replace("def test_b", "@pytest.mark.skip\ndef test_b")
OTHER = FULL.replace("== 1", "== 3")
JS = """\
it('a', () => { expect(f()).toBe(1) })
it('b', () => { expect(g()).toBe(2) })
"""

RED = does("run_tests", "1 failed, 11 passed", error=True)
FIX = does("edit_file", "applied", path="src/a.py", old="1", new="2")


def writes(text: str, path: str = PATH) -> Event:
    """A file is written as a whole."""
    return does("write_file", "written", path=path, content=text)


def types(text: str) -> Event:
    """The same through a shell."""
    return does("bash", "", command=f"cat > {PATH} <<'EOF'\n{text}EOF\n", error=False)


def reads(text: str, path: str = PATH, **args: Any) -> Event:
    """A file is read."""
    return does("read_file", text, path=path, **args)


def numbered(text: str) -> str:
    """With numbers of lines in front, as many tools have them."""
    lines = enumerate(text.splitlines(), 1)
    return "\n".join(f"{n:6}\t{line}" for n, line in lines)


@pytest.mark.parametrize("known", [reads(FULL), reads(numbered(FULL)), writes(FULL)])
@pytest.mark.parametrize("after", [writes(HALF), writes(SKIPPED), types(HALF)])
def test_a_test_file_written_anew_with_less_is_weaker(
    known: Event, after: Event
) -> None:
    """What it held is known from a read, or from an earlier write."""
    assert trip([known, RED, after]) == (2, "tampering")


def test_other_languages_are_counted_by_rule() -> None:
    """A case fewer in a specification in JavaScript."""
    path = "src/a.test.js"
    less = JS.partition("it('b'")[0]

    assert trip([reads(JS, path), RED, writes(less, path)]) == (2, "tampering")
    assert trip([reads(less, path), RED, FIX, writes(JS, path)]) is None


@pytest.mark.parametrize(
    "events",
    [
        [reads(FULL), RED, writes(OTHER), FIX],
        [reads(HALF, offset=1, limit=2), RED, writes(SKIPPED + HALF), FIX],
        [RED, writes(HALF), FIX],
        [reads(FULL), writes(HALF)],
        [reads(FULL), RED, writes("def broken(:\n"), FIX],
        [reads(FULL), RED, writes(FULL + "#" * 4_000), FIX],
        [reads(FULL, "src/a.py"), RED, writes(HALF, "src/a.py")],
    ],
)
def test_other_rewrites_are_work(events: list[Event]) -> None:
    """As much or more in it, nothing known of it, nothing failed, no test at all."""
    assert trip(events) is None


def passes(text: str, **args: Any) -> Event:
    """A check that goes well."""
    return does("run_tests", text, error=False, **args)


EDIT = does("edit_file", "applied", path=PATH, old="x = old()", new="x = new()")


def test_a_pass_with_fewer_tests_is_weaker() -> None:
    """After an edit of tests, though sources were edited as well."""
    assert trip([RED, FIX, EDIT, passes("3 passed")]) == (3, "tampering")
    assert trip([RED, FIX, EDIT, passes("12 passed")]) is None
    assert trip([RED, FIX, EDIT, passes("13 passed, 1 skipped")]) is None


def test_tests_that_a_person_wants_changed_may_not_get_fewer() -> None:
    """That the tests are the task is no leave to drop them."""
    events = [asks("Update the tests"), RED, EDIT, passes("3 passed")]

    assert trip(events) == (3, "tampering")


def test_another_choice_of_tests_is_none() -> None:
    """Another command, or no test edited in between."""
    assert trip([RED, FIX, passes("3 passed")]) is None
    assert trip([RED, FIX, EDIT, passes("3 passed", only="tests/test_a.py")]) is None
    assert trip([RED, FIX, EDIT, passes("everything passed")]) is None
    assert trip([RED, FIX, EDIT, passes("3 passed" + " " * 4_000)]) is None


@pytest.mark.parametrize(
    ("result", "count"),
    [
        ("=== 1 failed, 11 passed, 2 skipped in 0.12s ===", 12),
        ("3 passed in 0.01s", 3),
        ("Ran 12 tests in 0.003s\n\nFAILED (failures=1)", 12),
        ("Test Suites: 1 failed, 3 passed, 4 total\nTests:  1 failed, 11 passed", 12),
        (" Test Files  1 passed (1)\n      Tests  1 failed | 11 passed (12)", 12),
        ("  11 passing (20ms)\n  1 failing", 12),
        ("test result: FAILED. 11 passed; 1 failed; 0 ignored", 12),
        ("--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL", 2),
        ("Tests run: 12, Failures: 1, Errors: 0, Skipped: 0", 12),
        ("ok  \texample.com/pkg\t0.01s", -1),
        ("", -1),
    ],
)
def test_runners_say_how_many_tests_ran(result: str, count: int) -> None:
    """Those of Python, JavaScript, Rust, Go and Java; those skipped do not count."""
    assert run_by(result) == count


@given(st.text(max_size=200), st.booleans())
def test_no_text_holds_less_than_itself(text: str, python: bool) -> None:
    """Nothing raises."""
    found = held(text, python=python)

    assert found is None or not found.less_than(found)


def test_only_the_newest_files_and_checks_are_remembered() -> None:
    """Numbers alone, however many there are."""
    history = History()
    for n in range(40):
        history = history.push(reads(FULL, f"tests/test_{n}.py"))
        history = history.push(does("bash", "2 failed", command=f"pytest {n}"))

    assert (len(history.known.suites), len(history.known.ran)) == (30, 8)
    assert all(isinstance(n, int) for n in history.known.suites)

"""Edits that take teeth out of tests, and those that don't."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.detectors import Tampering
from loopguard_lg.errors import PolicyError
from loopguard_lg.policy import Policy
from loopguard_lg.roles import read_use
from loopguard_lg.steps import Event, Step
from loopguard_lg.testfiles import asks_for_tests, weakens
from loopguard_lg.weakening import softer

from .detectors.runs import asks, does, trip

TWO = "def test_a():\n    assert f() == 1\n\ndef test_b():\n    assert g() == 2\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def test_a():", "@pytest.mark.skip\ndef test_a():"),
        ("def test_a():", "@pytest.mark.xfail(reason='slow')\ndef test_a():"),
        ("def test_a():", "@unittest.skipIf(True, 'x')\ndef test_a():"),
        ("    assert f() == 1", "    pytest.skip('later')\n    assert f() == 1"),
        ("    assert f() == 1", "    self.skipTest('x')\n    assert f() == 1"),
        ("def test_a():\n    assert f()", "def test_a():\n    return\n    assert f()"),
        ("    assert f() == 1\n    assert g()", "    assert f() == 1"),
        ("    assert f() == 1", "    f()"),
        ("    assert f() == 1", "    assert True"),
        ("    assert f() == 1", "    assert f() is not None"),
        ("    assert f() == 1", "    assert f() == 1 or True"),
        ("    self.assertEqual(f(), 1)", "    self.assertTrue(True)"),
        ("    self.assertEqual(f(), 1)", "    self.assertIsNotNone(f())"),
        ("    with pytest.raises(E):\n        f()", "    f()"),
        (TWO, TWO.partition("\n\n")[0]),
        ("def test_b():\n    assert g() == 2\n", ""),
        (
            "    assert f() == 1",
            "    try:\n        assert f()\n    except:\n        p()",
        ),
        (
            "    assert f() == approx(1, rel=1e-6)",
            "    assert f() == approx(1, rel=0.2)",
        ),
        (
            "    assert math.isclose(a, b, abs_tol=1)",
            "    assert math.isclose(a, b, abs_tol=9)",
        ),
        (
            "self.assertAlmostEqual(a, 1, places=7)",
            "self.assertAlmostEqual(a, 1, places=1)",
        ),
        ("    assert seconds < 2", "    assert seconds < 60"),
        ("    assert score >= 0.9", "    assert score >= 0.1"),
    ],
)
def test_python_that_says_less_is_softer(old: str, new: str) -> None:
    """Skipped, emptied, fewer, hollow, swallowed, or with more room."""
    assert softer(old, new, python=True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    assert f() == 1", "    assert f() == 2"),
        ("    assert f() == 1", "    assert f() == 1\n    assert g() == 2"),
        ("def test_a():", "def test_renamed():"),
        ("    assert seconds < 60", "    assert seconds < 2"),
        ("    assert approx(1, rel=0.2)", "    assert approx(1, rel=1e-6)"),
        ("@pytest.mark.skip\ndef test_a():", "def test_a():"),
        ("    x = old()", "    x = new()"),
        ("    # assert nothing here", "    # a comment"),
        (
            TWO,
            "@mark.parametrize('h', [f, g])\ndef test_h(h):\n    assert h() == 1",
        ),
        ("    text = 'skip this'", "    text = 'skip that and skip this'"),
    ],
)
def test_python_that_says_as_much_is_not(old: str, new: str) -> None:
    """Other values, more, tidier; what stands in texts and comments is no code."""
    assert not softer(old, new, python=True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("it('adds', () => {", "it.skip('adds', () => {"),
        ("test('adds', f)", "xtest('adds', f)"),
        ("expect(f()).toBe(3)", "f()"),
        ("expect(f()).toBe(3)", "expect(f()).toBeDefined()"),
        ("expect(f()).toBeCloseTo(3, 5)", "expect(f()).toBeCloseTo(3, 0)"),
        ("it('a', f)\nit('b', g)", "it('a', f)"),
        ("func TestA(t *testing.T) {", "func TestA(t *testing.T) {\n\tt.Skip()"),
        ("#[test]\nfn a() {", "#[test]\n#[ignore]\nfn a() {"),
        ("@Test\nvoid a() {", "@Disabled\n@Test\nvoid a() {"),
    ],
)
def test_other_languages_are_judged_by_rule(old: str, new: str) -> None:
    """JavaScript, Go, Rust, Java."""
    assert softer(old, new, python=False)
    assert not softer(new, old, python=False)


@given(st.text(max_size=200), st.text(max_size=200), st.booleans())
def test_any_text_is_judged(old: str, new: str, python: bool) -> None:
    """Nothing raises, and a text is never softer than itself."""
    softer(old, new, python=python)

    assert not softer(old, old, python=python)


@pytest.mark.parametrize(
    ("path", "old", "new", "weaker"),
    [
        ("pyproject.toml", "fail_under = 90", "fail_under = 40", True),
        ("pyproject.toml", "fail_under = 40", "fail_under = 90", False),
        ("pytest.ini", "addopts = -q", "addopts = -q --deselect tests/a.py", True),
        ("pyproject.toml", "version = 1", "version = 2", False),
    ],
)
def test_the_configuration_of_a_runner_can_weaken(
    path: str, old: str, new: str, weaker: bool
) -> None:
    """Less coverage asked for, or tests left out."""
    step = Step(tool="edit_file", args={"path": path, "old": old, "new": new})

    assert weakens(step, read_use(step, None)) is weaker


@pytest.mark.parametrize(
    "text",
    [
        "Please update the tests to the new format",
        "Write tests for the parser.",
        "Add a regression test",
        "The assertion is off: correct the expected snapshot",
        "tests are outdated, have a look",
        "rewrite test_dates and its assertions",
    ],
)
def test_a_task_may_be_about_tests(text: str) -> None:
    """A person asks for them to be written or changed."""
    assert asks_for_tests(text)


@pytest.mark.parametrize(
    "text",
    [
        "Fix the failing tests",
        "Make the tests pass",
        "Correct the parser so that the tests pass",
        "Do not change the tests.",
        "Mend it without touching or editing the tests",
        "You mustn't modify any tests",
        "Update the code until all tests pass",
        "Change the reader. The tests tell if it is right",
    ],
)
def test_a_task_that_tests_are_to_judge_is_not_about_them(text: str) -> None:
    """They are to pass, not to be changed."""
    assert not asks_for_tests(text)


RED = does("run_tests", "1 failed, 3 passed", error=True)
GREEN = does("run_tests", "4 passed", error=False)


def changed(path: str, new: str = "assert f() == 4") -> Event:
    """Another value expected in a test."""
    return does("edit_file", "applied", path=path, old="assert f() == 3", new=new)


def test_what_was_asked_for_is_no_tampering() -> None:
    """Unless the checks get weaker by it."""
    task = asks("Update the tests for the new rounding")
    edit = changed("tests/test_a.py")

    assert trip([task, RED, edit, GREEN]) is None
    assert trip([asks("Fix it"), RED, edit, GREEN]) == (3, "tampering")
    assert trip([task, RED, changed("tests/test_a.py", "f()")]) == (2, "tampering")


def test_it_is_quiet_when_sources_changed_too() -> None:
    """The expected value follows the program."""
    assert trip([RED, changed("src/a.py"), changed("tests/test_a.py"), GREEN]) is None


def test_other_files_can_be_named_as_tests() -> None:
    """By globs, in the policy."""
    tampering = Tampering(files=("checks/*.py",))
    policy = Policy(detectors=[tampering])
    events = [RED, changed("checks/a.py"), GREEN]

    assert policy.test_files == ("checks/*.py",)
    assert trip(events, detectors=[tampering], tests=policy.test_files) is not None
    assert trip(events) is None


def test_globs_are_a_list() -> None:
    """One text would be taken letter by letter."""
    with pytest.raises(PolicyError, match=r"Tampering\(files='checks'\).*a list"):
        Tampering(files="checks")  # type: ignore[arg-type]

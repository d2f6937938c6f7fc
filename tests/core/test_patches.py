"""Patches given as texts, in both spellings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.detectors import EditRate
from loopguard_lg.patches import Part, parts_of
from loopguard_lg.roles import read_use
from loopguard_lg.steps import Step, Turn
from loopguard_lg.testfiles import weakens

from .detectors.runs import at, does, trip

TEST = "tests/test_a.py"
STARS = """\
*** Begin Patch
*** Update File: {path}
@@ def place
 def place():
-{old}
+{new}
*** End Patch"""
UNIFIED = """\
diff --git a/{path} b/{path}
--- a/{path}
+++ b/{path}
@@ -1,2 +1,2 @@ def place
 def place():
-{old}
+{new}
"""
SPELLINGS = pytest.mark.parametrize("spelling", [STARS, UNIFIED])

RED = does("bash", "1 failed, 3 passed", command="pytest", error=True)
GREEN = does("bash", "4 passed", command="pytest", error=False)


def patched(spelling: str, old: str, new: str, path: str = "src/a.py") -> Turn:
    """A patch that is applied."""
    text = spelling.format(path=path, old=old, new=new)
    return does("apply_patch", "Done!", input=text)


@SPELLINGS
def test_a_patch_tells_what_it_does_to_a_file(spelling: str) -> None:
    """Its lines before and after, with those around them."""
    text = spelling.format(path="src/./a.py", old="  x = 1", new="  x = 2")

    (part,) = parts_of(text)
    assert part == Part(
        "src/a.py", "def place():\n  x = 1", "def place():\n  x = 2", False
    )


def test_a_patch_may_touch_several_files() -> None:
    """Change one, make one, take one away; in either spelling."""
    stars = (
        "*** Begin Patch\n*** Update File: a.py\n-1\n+2\n*** Add File: b.py\n+3\n"
        "*** Delete File: c.py\n*** End Patch"
    )
    unified = (
        "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n--- /dev/null\n+++ b/b.py\n"
        "@@ -0,0 +1 @@\n+3\n--- a/c.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-4\n"
    )

    made = [Part("a.py", "1", "2"), Part("b.py", "", "3")]
    assert parts_of(stars) == (*made, Part("c.py", "", "", True))
    assert parts_of(unified) == (*made, Part("c.py", "4", "", True))


@SPELLINGS
@pytest.mark.parametrize(
    "call",
    [
        lambda text: Step(tool="apply_patch", args={"input": text}),
        lambda text: Step(tool="apply_diff", args={"diff": text}),
        lambda t: Step(tool="bash", args={"command": f"apply_patch <<'E'\n{t}\nE"}),
        lambda t: Step(tool="bash", args={"command": f"git apply <<'E'\n{t}\nE"}),
    ],
)
def test_a_patch_is_a_write_of_its_file(spelling: str, call: Any) -> None:
    """Given to a tool, or to a shell."""
    use = read_use(call(spelling.format(path="src/a.py", old="1", new="2")), None)

    assert (use.role, use.path) == ("write", "src/a.py")


@SPELLINGS
def test_patches_that_fail_the_check_are_failing_edits(spelling: str) -> None:
    """As edits by any other tool are."""
    events = [
        turn
        for n in range(3)
        for turn in (patched(spelling, f"  x = {n}", f"  x = {n + 1}"), RED)
    ]

    assert trip([RED, *events]) == (6, "failing_edits")


@SPELLINGS
def test_patches_of_one_place_have_a_rate(spelling: str) -> None:
    """Four within a minute, over and over the same line."""
    events = [
        at(10.0 * n, patched(spelling, f"  x = {n}", f"  x = {n + 1}"))
        for n in range(5)
    ]

    assert trip(events, detectors=[EditRate()]) == (3, "edit_rate")


@SPELLINGS
def test_a_patch_that_weakens_a_test_is_tampering(spelling: str) -> None:
    """Its hunk is looked at, not its text."""
    less = patched(spelling, "    assert f() == 1", "    f()", TEST)
    other = patched(spelling, "    assert f() == 1", "    assert f() == 2", TEST)

    assert trip([RED, less]) == (1, "tampering")
    assert trip([RED, other, GREEN]) == (2, "tampering")


def test_a_patch_of_a_source_as_well_is_work() -> None:
    """The expected value follows the program."""
    text = (
        "*** Begin Patch\n*** Update File: tests/test_a.py\n-assert f() == 1\n"
        "+assert f() == 2\n*** Update File: src/a.py\n-1\n+2\n*** End Patch"
    )

    assert trip([RED, does("apply_patch", "Done!", input=text), GREEN]) is None


@pytest.mark.parametrize(
    ("text", "weaker"),
    [
        ("*** Delete File: tests/test_a.py\n", True),
        (
            "*** Delete File: tests/test_a.py\n*** Add File: tests/test_b.py\n"
            "+def test_a():\n+    assert f()",
            False,
        ),
        (
            "*** Update File: tests/test_a.py\n-def test_a():\n-    assert f()\n"
            "*** Update File: tests/test_b.py\n+def test_a():\n+    assert f()",
            False,
        ),
        ("*** Update File: pyproject.toml\n-fail_under = 90\n+fail_under = 10", True),
        ("*** Update File: src/a.py\n-assert f()\n+f()", False),
    ],
)
def test_what_a_patch_leaves_is_judged_as_a_whole(text: str, weaker: bool) -> None:
    """Tests that move to another file are none less."""
    step = Step(tool="apply_patch", args={"patch": f"*** Begin Patch\n{text}"})

    assert weakens(step, read_use(step, None)) is weaker


@given(st.text(alphabet=" +-@*\n/abUpdateFile:.", max_size=300))
def test_any_text_can_be_read_as_a_patch(text: str) -> None:
    """Nothing raises, with the name of a file or without."""
    parts_of(f"*** Begin Patch\n*** Update File: a\n{text}")

    assert parts_of("*** Begin Patch\n*ile: a.py\n@@\n-x++y\n*** End Patch") == ()
    parts_of(f"*** Begin Patch\n{text}")


def test_lines_that_look_like_a_head_are_lines() -> None:
    """A comment of SQL that is taken out, a C increment that is put in."""
    body = "--- the old total\n-SELECT 1;\n+++ count;\n"
    text = f"--- a/a.sql\n+++ b/a.sql\n@@ -1,2 +1 @@\n{body}"
    more = "--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-1\n+2\n"

    first = Part("a.sql", "-- the old total\nSELECT 1;", "++ count;")
    assert parts_of(text) == (first,)
    assert parts_of(text + more) == (first, Part("b.py", "1", "2"))


def test_a_pair_of_such_lines_is_no_file() -> None:
    """As long as the hunk goes on by its counts."""
    pair = "--- a/gone.sql\n+++ b/come.sql\n"
    text = f"--- a/a.sql\n+++ b/a.sql\n@@ -1,2 +1,2 @@\n{pair} SELECT 1;\n"

    (part,) = parts_of(text)
    assert part.path == "a.sql"
    assert part.old == "-- a/gone.sql\nSELECT 1;"


def test_wrong_counts_hide_no_file() -> None:
    """A model's counts often are: a file with hunks of its own is found."""
    lines = "@@ -1,90 +1,90 @@\n-1\n+2\n"
    text = f"--- a/a.py\n+++ b/a.py\n{lines}--- a/{TEST}\n+++ b/{TEST}\n{lines}"

    assert [part.path for part in parts_of(text)] == ["a.py", TEST]


def test_a_count_of_thousands_of_digits_is_no_count() -> None:
    """Python makes no number of so many, and a patch comes from a model."""
    text = f"--- a/a.py\n+++ b/a.py\n@@ -1,{'9' * 5000} +1 @@\n-1\n+2\n"

    assert parts_of(text) == (Part("a.py", "1", "2"),)

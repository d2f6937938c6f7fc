"""Loops of agents that edit files and run checks."""

from __future__ import annotations

from loopguard_lg.steps import Event

from .runs import does

CODING: dict[str, tuple[str, int, list[Event]]] = {
    "an edit made and undone": (
        "oscillation",
        5,
        [
            does("edit_file", "applied", path="a.py", old="x = 1", new="x = 2")
            if n % 2
            else does("edit_file", "applied", path="a.py", old="x = 2", new="x = 1")
            for n in range(8)
        ],
    ),
    "a state that comes back with other calls": (
        "oscillation",
        5,
        [
            does("set_theme", f"done {n}", role="write", state=s, shade=n)
            for n, s in enumerate(("dark", "light", "dark", "light", "dark", "light"))
        ],
    ),
    "fixes that leave the test red": (
        "failing_edits",
        6,
        [
            event
            for n in range(4)
            for event in (
                does(
                    "edit_file",
                    "applied",
                    path="src/a.py",
                    old=f"v{n}",
                    new=f"v{n + 1}",
                ),
                does("bash", "1 failed, 3 passed", command="pytest -q", error=True),
            )
        ],
    ),
    "fixes that break what the program says": (
        "failing_edits",
        7,
        [
            event
            for n in range(5)
            for event in (
                does(
                    "edit_file",
                    "applied",
                    path="src/a.py",
                    old=f"v{n}",
                    new=f"v{n + 1}",
                ),
                does(
                    "bash",
                    "Traceback (most recent call last):\nKeyError: 'id'",
                    command="python main.py",
                    error=True,
                ),
            )
        ],
    ),
    "edits that never apply": (
        "failing_edits",
        3,
        [
            does(
                "edit_file",
                "Error: text not found in a.py",
                path="a.py",
                old=f"x{n} = 1",
                new="y",
            )
            for n in range(5)
        ],
    ),
    "a test that is skipped": (
        "tampering",
        1,
        [
            does("bash", "1 failed, 3 passed", command="pytest -q", error=True),
            does(
                "edit_file",
                "applied",
                path="tests/test_a.py",
                old="def test_a():",
                new="@pytest.mark.skip\ndef test_a():",
            ),
        ],
    ),
    "a test that asserts less": (
        "tampering",
        1,
        [
            does("run_tests", "1 failed", error=True),
            does(
                "edit_file",
                "applied",
                path="src/a.test.ts",
                old="expect(f()).toBe(3)",
                new="f()",
            ),
        ],
    ),
    "a failing test that is deleted": (
        "tampering",
        1,
        [
            does("bash", "1 failed, 3 passed", command="pytest", error=True),
            does("bash", "", command="rm tests/test_rates.py"),
        ],
    ),
    "a check that is told to succeed": (
        "tampering",
        1,
        [
            does("bash", "1 failed, 3 passed", command="pytest", error=True),
            does("bash", "1 failed, 3 passed", command="pytest || true"),
        ],
    ),
    "green after edits to tests alone": (
        "tampering",
        2,
        [
            does("run_tests", "1 failed, 3 passed", error=True),
            does(
                "edit_file",
                "applied",
                path="tests/test_a.py",
                old="assert f() == 3",
                new="assert f() == 4",
            ),
            does("run_tests", "4 passed", error=False),
        ],
    ),
    "files whose digest alternates": (
        "oscillation",
        5,
        [
            does(
                "format_file", f"rewritten, sha {sha}", role="write", path="a", pass_=n
            )
            for n, sha in enumerate(("aaaaaa1", "bbbbbb2") * 3)
        ],
    ),
}

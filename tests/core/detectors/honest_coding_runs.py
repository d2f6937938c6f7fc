"""Honest runs of agents that edit files and run checks."""

from __future__ import annotations

from loopguard_lg.steps import Event

from .runs import does

LINES = "\n".join(f"line {n} of the file" for n in range(30))

CODING: dict[str, list[Event]] = {
    "one file with many edits": [
        does("edit_file", "applied", path="a.py", old=f"# todo {n}", new=f"step({n})")
        for n in range(12)
    ],
    "an edit that is taken back once": [
        does("edit_file", "applied", path="a.py", old="x = 1", new="x = 2"),
        does("edit_file", "applied", path="a.py", old="x = 2", new="x = 1"),
        does("edit_file", "applied", path="a.py", old="x = 1", new="x = 3"),
    ],
    "tests after every fix": [
        event
        for n, failing in enumerate((6, 5, 5, 3, 4, 2, 2, 1))
        for event in (
            does("edit_file", "applied", path="a.py", old=f"v{n}", new=f"v{n + 1}"),
            does("bash", f"{failing} failed, 9 passed", command="pytest", error=True),
        )
    ],
    "git status between changes": [
        event
        for n in range(5)
        for event in (
            does("bash", "nothing to commit", command="git status"),
            does("write_file", "created", path=f"out/{n}.md", content=f"# {n}"),
        )
    ],
    "a check that feeds a pipe": [
        event
        for n in range(4)
        for event in (
            does("edit_file", "applied", path="a.py", old=f"v{n}", new=f"v{n + 1}"),
            does("bash", f"E   assert {n}", command="pytest -q | tail -1"),
        )
    ],
    "tests and code changed together": [
        does("bash", "1 failed, 3 passed", command="pytest", error=True),
        does("edit_file", "applied", path="src/a.py", old="v1", new="v2"),
        does(
            "edit_file",
            "applied",
            path="tests/test_a.py",
            old="assert f() == 1",
            new="assert f() == 2",
        ),
        does("bash", "4 passed", command="pytest", error=False),
    ],
    "new tests before any failure": [
        does(
            "edit_file", "applied", path="tests/test_a.py", old="pass", new="assert f()"
        ),
        does("bash", "4 passed", command="pytest", error=False),
    ],
    "a build that is fixed in two rounds": [
        does("bash", "error: missing ;", command="cargo build", error=True),
        does("edit_file", "applied", path="src/m.rs", old="a", new="a;"),
        does("bash", "error: unknown name b", command="cargo build", error=True),
        does("edit_file", "applied", path="src/m.rs", old="b", new="c"),
        does("bash", "Finished", command="cargo build", error=False),
    ],
    "one linter for many files": [
        does("bash", "All checks passed!", command=f"ruff check src/m{n}.py")
        for n in range(12)
    ],
    "commits of step after step": [
        event
        for n in range(6)
        for event in (
            does("edit_file", "applied", path=f"f{n}.py", old="a", new="b"),
            does("bash", "", command="git add -A"),
            does("bash", f"[main {n}abcdef{n}] step", command=f"git commit -m '{n}'"),
        )
    ],
    "a flaky test": [
        does("bash", "1 failed, 9 passed", command="pytest", error=True),
        does("bash", "1 failed, 9 passed", command="pytest", error=True),
        does("bash", "10 passed", command="pytest", error=False),
    ],
    "reading again what was edited": [
        event
        for n in range(6)
        for event in (
            does("edit_file", "applied", path="a.py", old=f"{n}", new=f"{n + 1}"),
            does("read_file", LINES + f"\nvalue = {n}", path="a.py"),
        )
    ],
    "refused edits with one that applies between": [
        does("edit_file", result, path="a.py", old=str(n), new=f"y{n}")
        for n, result in enumerate(
            ("Error: no match", "Error: no match", "applied") * 3
        )
    ],
    "refused edits while the file is read on": [
        event
        for n in range(4)
        for event in (
            does("edit_file", "Error: no match", path="a.py", old=str(n), new="y"),
            does("read_file", f"part {n}\nof the\nfile {n}", path="a.py", part=n),
        )
    ],
}

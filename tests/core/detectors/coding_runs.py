"""Long honest runs of coding agents, after real ways of working: name -> events.

A turn takes a quarter of a minute, as with a fast model, so that what a clock makes
suspicious would show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from loopguard_lg.steps import Event, Turn

from .runs import asks, at, does, says

Script = Iterator[Event]


def edit(path: str, old: str, new: str) -> Turn:
    """A text in a file replaced by another."""
    result = f"The file {path} has been updated."
    return does("edit_file", result, path=path, old_string=old, new_string=new)


def write(path: str, content: str) -> Turn:
    """A whole file."""
    return does("write_file", f"Wrote {path}", path=path, content=content)


def shell(command: str, result: str = "", *, failed: bool = False) -> Turn:
    """A command, with what it printed."""
    return does("bash", result, error=failed, command=command)


def red(command: str, failing: int, passing: int, error: str = "") -> Turn:
    """A failing run of tests."""
    told = f"E   {error}\n{failing} failed, {passing} passed in 1.3{failing}s"
    return shell(command, told, failed=True)


def green(command: str, passing: int) -> Turn:
    """A passing run."""
    return shell(command, f"{passing} passed in 1.2{passing % 10}s")


def listing(path: str, lines: int = 12) -> Turn:
    """A file read."""
    text = "\n".join(f"{n}\tdef {path[:-3]}_{n}(value): ..." for n in range(lines))
    return does("read_file", text, path=path)


def cell(n: int, source: str) -> Turn:
    """A cell of a notebook, written or over again."""
    path = "a.ipynb"
    return does("edit_cell", "ok", notebook_path=path, cell_id=n, new_source=source)


PARTS = [
    "parse",
    "tokens",
    "fields",
    "dates",
    "money",
    "units",
    "names",
    "codes",
    "links",
    "notes",
    "pages",
    "rules",
]


def tdd() -> Script:
    """A test first, red; code, red in another way; green; tidied, still green."""
    test = "pytest -q tests/test_reader.py"
    for n, part in enumerate(PARTS):
        case = f"def test_{part}():\n    assert {part}('a{n}') == {n}"
        yield edit("tests/test_reader.py", "# end", f"{case}\n\n# end")
        yield red(test, 1, n, f"ImportError: cannot import name '{part}'")
        yield edit("reader.py", "# end", f"def {part}(text):\n    pass\n\n# end")
        yield red(test, 1, n, f"AssertionError: {part}: assert None == {n}")
        yield edit("reader.py", f"def {part}(text):\n    pass", f"def {part}(t): ...")
        yield green(test, n + 1)


def refactoring() -> Script:
    """One name moved out of many files, with the type checker as a guide."""
    yield shell("grep -rln old_name src", "\n".join(f"src/{p}.py" for p in PARTS))
    for n, part in enumerate(PARTS):
        yield listing(f"{part}.py")
        yield edit(f"src/{part}.py", "from util import old_name", "import names")
        yield edit(f"src/{part}.py", f"old_name({part})", f"names.new({part})")
        left = 2 * (len(PARTS) - n - 1)
        errors = (
            f"src/z.py:{n}: error: no old_name\nFound {left} errors in {left} files"
        )
        yield shell(
            "mypy src", errors if left else "Success: no issues found", failed=left > 0
        )
        yield shell(f"git add src/{part}.py && git commit -qm 'Use names in {part}'")


def bisecting() -> Script:
    """Four bugs, each looked for by halves: good and bad come in any order."""
    for bug, name in enumerate(("slow", "crash", "leak", "typo")):
        start = f"Bisecting: {120 + bug} revisions left to test after this"
        yield shell(f"git bisect start HEAD v1.{bug}", start)
        for n in range(8):
            good = (bug * 5 + n * 3) % 4 < 2
            run = f"pytest -q -k {name}"
            yield green(run, 1) if good else red(run, 1, 0, f"{name} seen")
            left = f"Bisecting: {60 >> n} left\n[{bug * 97 + n:07x}] Change {n}{bug}"
            yield shell(f"git bisect {'good' if good else 'bad'}", left)
        yield shell("git bisect reset", f"Switched back, {bug} found")
        yield shell(f"git show {bug * 97 + 7:07x} --stat", f"a{bug}.py | {bug + 3} ++-")


def flaky() -> Script:
    """A test that fails now and then, run until it is known how often; then mended."""
    for name in ("login", "upload", "search", "mail"):
        test = f"pytest -q tests/test_{name}.py"
        for n in range(6):
            timed = f"TimeoutError: {name} took {n}.1 s"
            yield red(test, 1, 8, timed) if n % 3 == 1 else green(test, 9)
        yield listing(f"{name}.py")
        yield shell(f"git log --oneline -3 tests/test_{name}.py", f"a1 Add {name}")
        yield edit(f"tests/test_{name}.py", "sleep(1)", f"wait_for({name})")
        for n in range(5):
            yield shell(f"{test} -p randomly --seed {n}", f"seed {n}\n9 passed in 2s")
        yield shell(f"git commit -qam 'Wait for {name}'")


def generating() -> Script:
    """One module after the other from a schema, each formatted and tried."""
    for n, part in enumerate(PARTS):
        yield does(
            "read_file", f'{{"name": "{part}", "kind": {n}}}', path=f"{part}.json"
        )
        yield write(f"gen/{part}.py", f"class {part.title()}:\n    kind = {n}\n")
        yield shell(f"python gen.py {part}.json", f"wrote gen/{part}_api.py")
        yield shell(f"ruff format gen/{part}.py", "1 file left unchanged")
        yield shell(f"python -c 'import gen.{part}'")
    yield green("pytest -q", 31)


def formatter() -> Script:
    """A hook that rewrites what is committed, and has its way at the second try."""
    for n, part in enumerate(PARTS):
        path = f"src/{part}.py"
        yield edit(path, f"x={n}", f"y={n};z={n}")
        said = f"ruff-format....Failed\n- files were modified by this hook\n{path}"
        yield shell(f"git commit -am 'Name {part}'", said, failed=True)
        yield shell("git diff --stat", f"{path} | {n + 2} +-")
        yield edit(path, f"y = {n}\nz = {n}", f"y = z = {n}")
        yield shell(f"git commit -am 'Name {part}'", f"[main {n:07x}] Name {part}")


def upgrading() -> Script:
    """Packages raised one by one; some break something, which is mended."""
    for n, part in enumerate(PARTS):
        yield edit("requirements.txt", f"{part}==1.{n}", f"{part}==2.{n}")
        yield shell("uv pip install -r requirements.txt", f"+ {part}==2.{n}")
        if n % 3 == 0:
            yield red("pytest -q", 2, 38, f"AttributeError: {part} has no load{n}")
            yield shell(f"pip show {part}", f"Name: {part}\nVersion: 2.{n}")
            yield edit(f"src/{part}.py", f"{part}.load{n}", f"{part}.open{n}")
            yield red("pytest -q", 1, 39, f"TypeError: open{n}() takes 1 argument")
            yield edit(f"src/{part}.py", f"{part}.open{n}()", f"{part}.open{n}(p)")
        yield green("pytest -q", 40)
        yield shell(f"git commit -qam 'Raise {part} to 2.{n}'")


def logs() -> Script:
    """A large log, read window by window and searched; some searches find nothing."""
    for n in range(40):
        lines = "\n".join(f"{n * 50 + k} worker {k} took {n * k} ms" for k in range(50))
        yield does("read_file", lines, path="app.log", offset=n * 50, limit=50)
        if n % 2:
            hit = f"{n * 50}: worker {n} restarted" if n % 4 == 1 else ""
            yield does(
                "grep", hit, pattern=f"worker {n} (restarted|killed)", path="app.log"
            )
        if n % 13 == 12:
            yield says(f"Up to line {n * 50} nothing is lost; on to the next part.")


def migrating() -> Script:
    """A call replaced in forty files by a shell, looked at and tested as it goes."""
    for n in range(40):
        path = f"src/app_{n}/views.py"
        yield shell(f"sed -i 's/render_old({n})/render({n})/' {path}")
        yield shell(f"git diff --stat {path}", f"{path} | 2 +-")
        if n % 5 == 4:
            yield green("pytest -q -x", 200 + n)
    yield shell("grep -rn render_old src", failed=True)


def notebook() -> Script:
    """Cells written and run, now and then one over again."""
    for n in range(30):
        source = f"df{n} = df.groupby('c{n}').sum()\ndf{n}.plot()"
        yield does(
            "edit_cell", "ok", notebook_path="a.ipynb", cell_id=n, new_source=source
        )
        if n % 4 == 3:
            error = f"KeyError: 'c{n}'"
            yield does("run_cell", error, error=True, cell=n)
            yield does("run_cell", f"Index(['c{n}x', 'd{n}'])", cell=f"df.columns[{n}]")
            yield cell(n, source.replace(f"c{n}", f"c{n}x"))
        yield does("run_cell", f"<Figure of c{n}>\n{n * 7} rows, mean {n}.5", cell=n)


def run(script: Callable[[], Script]) -> list[Event]:
    """The events of a script: what a person asked for, then turns on a clock."""
    clock = count(1)
    return [
        asks(f"Please do this: {script.__doc__}"),
        *(
            at(next(clock) * 15.0, event) if isinstance(event, Turn) else event
            for event in script()
        ),
    ]


SCRIPTS = (
    tdd,
    refactoring,
    bisecting,
    flaky,
    generating,
    formatter,
    upgrading,
    logs,
    migrating,
    notebook,
)
CODING: dict[str, list[Event]] = {script.__name__: run(script) for script in SCRIPTS}

from __future__ import annotations

import pytest

from loopguard_lg.digests import settle
from loopguard_lg.progress import Outcome, mask, read_outcome, telling_line, todos_done
from loopguard_lg.roles import read_use
from loopguard_lg.steps import Step
from loopguard_lg.testfiles import is_test, weakens


def outcome(tool: str, result: str, error: bool | None = None, **args: str) -> Outcome:
    """How a call ended."""
    step = Step(tool=tool, args=args, result=result, error=error)
    return read_outcome(step, read_use(step, None), settle(step))


@pytest.mark.parametrize(
    "result",
    [
        "Error: no such file",
        "Traceback (most recent call last):\n  File x\nKeyError: 1",
        "HTTP 404: not found",
        "bash: foo: command not found",
        "ValueError: bad",
        "fatal: not a git repository",
    ],
)
def test_failures_are_read_from_results_that_say_so(result: str) -> None:
    """Where the host does not tell, the first words of the result do."""
    assert outcome("run_thing", result).failed


@pytest.mark.parametrize("result", ["errors are rare", "The file lists failures.", "0"])
def test_results_that_mention_errors_are_no_failures(result: str) -> None:
    """A word within a text does not make a failure."""
    assert not outcome("read_file", result).failed


def test_the_host_s_word_counts_more_than_the_text() -> None:
    """`error` decides where it is set."""
    assert outcome("search", "fine", error=True).failed
    assert not outcome("search", "Error: quoted in a page", error=False).failed


@pytest.mark.parametrize(
    ("ok", "failures", "result", "error"),
    [
        (False, 2, "2 failed, 3 passed", None),
        (True, -1, "5 passed in 1.2s", None),
        (False, 3, "Tests run: 9, Failures: 3", True),
        (True, 0, "There are 0 failing test cases", None),
        (False, -1, "FAIL: TestRates", None),
        (True, -1, "", False),
        (None, -1, "collected", None),
    ],
)
def test_checks_pass_or_fail(
    ok: bool | None, failures: int, result: str, error: bool | None
) -> None:
    """A check's result tells whether it passed, and how many failed."""
    found = outcome("run_tests", result, error)

    assert (found.ok, found.failures) == (ok, failures)


def test_a_check_in_a_pipe_is_neither_pass_nor_fail() -> None:
    """Its exit status is another program's."""
    assert outcome("bash", "1 failed", None, command="pytest | tail").ok is None


@pytest.mark.parametrize(
    "result",
    ["", "[]", "{}", "null", "No results found.", "0 matches", "nothing found"],
)
def test_searches_can_find_nothing(result: str) -> None:
    """Results that are empty in so many words are empty."""
    assert outcome("search", result).empty


@pytest.mark.parametrize(
    "result",
    [
        "No line contains 'x'.",
        "Nothing matches your search.",
        "None of the files mention it.",
        "The file 'a.csv' does not exist.",
        "Your search did not match any documents.",
        "There are no open tickets.",
        "The query returned 0 rows.",
        "Empty set (0.00 sec)",
        "User not found.",
        '{"items": [], "total": 0}',
    ],
)
def test_results_can_deny_that_there_is_what_was_sought(result: str) -> None:
    """A sentence that there is no such thing is an empty result, too."""
    assert outcome("search", result).empty


@pytest.mark.parametrize(
    "result",
    [
        "No line contains 'x', but 3 lines contain 'X'.",
        "No errors found.",
        "There are no conflicts.",
        "No, the answer is 4.",
        "None of this matters: the port is 8080",
        "The signature does not match the key of the sender.",
        '{"exit_code": 0}',
    ],
)
def test_a_no_can_say_something(result: str) -> None:
    """What was found all the same, good news and answers are no empty results."""
    assert not outcome("search", result).empty


@pytest.mark.parametrize("result", ["ok", "Applied.", "File saved", "true", ""])
def test_receipts_of_writes_are_formalities(result: str) -> None:
    """They say that it worked and nothing else."""
    assert outcome("write_file", result, path="a").formal


@pytest.mark.parametrize("result", ["0 rows", "12.4", "content of the file"])
def test_other_results_are_no_formalities(result: str) -> None:
    """Data is not a receipt."""
    assert not outcome("get_rows", result).formal


def test_outages_are_told_from_other_failures() -> None:
    """What may go away by itself is marked."""
    assert outcome("fetch", "503 Service Unavailable", error=True).transient
    assert not outcome("fetch", "404 Not Found", error=True).transient


def test_calls_that_were_wrong_are_told_from_calls_that_failed() -> None:
    """Unknown tools and arguments that don't validate are marked."""
    assert outcome("foo", "Error: foo is not a valid tool, try one of [a]").invalid
    assert not outcome("foo", "Error: the file is locked").invalid


@pytest.mark.parametrize(
    "said",
    [
        "SyntaxError: unterminated string literal",
        "TypeError: f() missing 1 required positional argument: 'x'",
        "TypeError: f() got an unexpected keyword argument 'y'",
    ],
)
def test_what_failing_tests_say_is_not_about_the_call(said: str) -> None:
    """A check that counts failures was carried out."""
    assert not outcome("run_tests", f"ERROR: test_a\n{said}\n1 failed").invalid
    assert outcome("run_tests", f"Error invoking tool: {said}", error=True).invalid


def test_what_an_error_quotes_makes_no_other_kind_of_error() -> None:
    """Names, paths and numbers are left out of the kind of an error."""
    one, other = (
        outcome("q", f"Error: no column '{name}' in /data/{name}.csv", error=True)
        for name in ("a", "b")
    )

    assert one.kin == other.kin
    assert one.error != other.error


def test_the_telling_line_of_a_traceback_is_its_last() -> None:
    """Of other errors it is the first one that sounds like one."""
    trace = b"Traceback (most recent call last):\n  File a\nKeyError: 'x'\n"

    assert telling_line(trace) == b"keyerror: 'x'"
    assert telling_line(b"compiling\nerror: missing ;\n1 error") == b"error: missing ;"
    assert telling_line(b"ERRORS:\n- E999 indent") == b"errors:- e999 indent"
    assert telling_line(b"") == b""


def test_hostile_errors_take_no_time() -> None:
    """Long lines of quotes, brackets and digits are masked as well."""
    for part in (b"'", b"[", b"a/", b'"x', b"1 ", b"`'\""):
        assert len(mask(part * 2_000)) <= 4_000 * 3


@pytest.mark.parametrize(
    ("done", "todos"),
    [
        (1, [{"content": "a", "status": "completed"}, {"content": "b"}]),
        (2, [{"done": True}, {"status": "DONE"}]),
        (0, ["a", "b"]),
    ],
)
def test_ticked_items_are_counted(done: int, todos: list[object]) -> None:
    """Whatever the tool calls them."""
    assert todos_done({"todos": todos}) == done
    assert todos_done({"plan": "text"}) == -1


@pytest.mark.parametrize(
    "path",
    ["tests/a.py", "src/test_a.py", "a.spec.ts", "pkg/a_test.go", "FooTest.java"],
)
def test_paths_of_tests_are_known(path: str) -> None:
    """By folder or by name."""
    assert is_test(path)


@pytest.mark.parametrize("path", ["src/latest.py", "contest.py", "attest/a.py", ""])
def test_other_paths_are_no_tests(path: str) -> None:
    """Letters within a word don't count."""
    assert not is_test(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def test_a():", "@pytest.mark.skip\ndef test_a():"),
        ("it('a')", "it.skip('a')"),
        ("assert f() == 3", "pass"),
        ("assert f() == 3", "assert f() is not None"),
        ("expect(f()).toBe(3)", "expect(true).toBe(true)"),
    ],
)
def test_tests_are_made_weaker(old: str, new: str) -> None:
    """By skips, and by asserting less."""
    args = {"path": "tests/test_a.py", "old": old, "new": new}
    step = Step(tool="edit_file", args=args)

    assert weakens(step, read_use(step, None))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("assert f() == 3", "assert f() == 4"),
        ("assert f() == 3", "assert f() == 3\nassert g()"),
        ("x = 1", "x = 2"),
    ],
)
def test_tests_are_edited_honestly(old: str, new: str) -> None:
    """Other values and more assertions are no weaker."""
    args = {"path": "tests/test_a.py", "old": old, "new": new}
    step = Step(tool="edit_file", args=args)

    assert not weakens(step, read_use(step, None))


@pytest.mark.parametrize(
    "step",
    [
        Step(
            tool="bash", args={"command": "sed -i 's/assert x/pass/' tests/test_a.py"}
        ),
        Step(tool="bash", args={"command": "pytest --deselect tests/test_a.py"}),
        Step(tool="bash", args={"command": "rm -f tests/test_a.py"}),
        Step(tool="delete_file", args={"path": "tests/test_a.py"}),
    ],
)
def test_commands_make_tests_weaker(step: Step) -> None:
    """Also by leaving tests out of the run, and by deleting them."""
    assert weakens(step, read_use(step, None))


@pytest.mark.parametrize("command", ["pytest -q", "sed -i s/a/b/ src/a.py", "ls tests"])
def test_other_commands_make_no_test_weaker(command: str) -> None:
    """Running tests, and changing other files, is no tampering."""
    step = Step(tool="bash", args={"command": command})

    assert not weakens(step, read_use(step, None))

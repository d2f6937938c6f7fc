from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loopguard_lg import Policy, decide
from loopguard_lg.acts.advisors import paths_in
from loopguard_lg.redaction import masked
from loopguard_lg.steps import Step, Turn
from loopguard_lg.testfiles import asks_for_tests
from tests.fuzz.patterns import ambiguous, compiled


def test_no_expression_of_the_package_can_blow_up() -> None:
    """None of them can match a text in exponentially many ways."""
    found = dict(compiled())

    assert len(found) > 60
    assert {
        where: ambiguous(one) for where, one in found.items() if ambiguous(one)
    } == {}


@pytest.mark.parametrize(
    "text",
    [r"(a+)+", r"(?:\w*-?)*x", r"(?:a|b+)*", r"(\s*\w+\s*)+"],
)
def test_expressions_that_blow_up_are_found(text: str) -> None:
    """The check sees what it is for."""
    assert ambiguous(re.compile(text))


@pytest.mark.parametrize("text", [r"(?:-\w+ )*", r"a+b*", r"(?:/[\w.]+)+", r"(\w++)+"])
def test_expressions_with_one_way_are_let_through(text: str) -> None:
    """A character of its own in each turn tells the turns apart."""
    assert not ambiguous(re.compile(text))


UNITS = (
    [
        *"a0 \n/.-_'\"[({`\\|;,<",
        "a/",
        "a.",
        "a-",
        "a ",
        "'\"",
        "a.b",
        "--a",
        "0:0",
        "x0",
    ]
    + ["--password", "token\\", "key='", "Bearer ", "://a:", "-----BEGIN A", "eyJ"]
    + ["rm -a", "git - -", "xargs -a", "s/a", "cat\n", "sh -", "|| ", "pytest "]
    + ["no a ", "{'a':0,", "error: ", "test ", "n't ", 'File "', "a.py:", "/tmp/tmp"]
)
"""What is repeated: beginnings of what some expression looks for."""
SIZE = 200_000


def judged(tool: str, **args: str) -> None:
    """Have the engine judge a call twice."""
    turn = Turn(text=args["a"], steps=(Step(tool=tool, args=args, result=args["a"]),))
    _, memory = decide(Policy(), None, turn)
    decide(Policy(), memory, turn)


READERS: dict[str, Callable[[str], Any]] = {
    "masked": lambda text: masked(f"password {text}!"),
    "paths": lambda text: paths_in([text]),
    "asks": asks_for_tests,
    "call": lambda text: judged("search", a=text, path=text),
    "command": lambda text: judged("execute", a=text, command=text),
    "typed": lambda text: judged("execute", a="", command=f"cat > a.py <<E\n{text}"),
    "removed": lambda text: judged("execute", a="", command=f"rm {text}"),
    "replaced": lambda text: judged("execute", a="", command=f"sed -i {text} a.py"),
    "edit": lambda text: judged("edit", a=text, path="test_a.py", old=text, new="b"),
}


@pytest.fixture
def _seconds_of_work() -> Iterator[None]:
    """End a test that works for half a minute: it should take a second."""

    def end(*_: Any) -> None:
        raise AssertionError("this takes more than linear time")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, 30)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.usefixtures("_seconds_of_work")
@pytest.mark.parametrize("reader", READERS)
def test_long_repeats_of_anything_take_linear_time(reader: str) -> None:
    """What would take hours in the square of its length is read at once."""
    for unit in UNITS:
        READERS[reader](unit * (SIZE // len(unit)))

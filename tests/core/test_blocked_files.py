"""A file that was edited in circles: told once, then its edits are blocked."""

from __future__ import annotations

from typing import Any

import pytest

from loopguard_lg import GiveUp, Ladder, Policy, Reflect, decide
from loopguard_lg.admission import admit
from loopguard_lg.memory import Memory
from loopguard_lg.steps import Event, Human, Step, Turn

from .detectors.runs import at, does

RED = does("bash", "2 failed, 9 passed", command="pytest -q", error=True)


def edit(n: int, path: str = "src/a.py") -> Turn:
    """The n-th edit of a file."""
    return does("edit_file", "applied", path=path, old=f"x = {n}", new=f"x = {n + 1}")


LOOP: list[Event] = [event for n in range(4) for event in (edit(n), RED)]
RATE: list[Event] = [at(n * 9.0, edit(n)) for n in range(4)]
REFUSED: list[Event] = [
    does("edit_file", f"Error: {n} not found", path="src/a.py", old=f"{n}", new="x")
    for n in range(3)
]
ERRORS: list[Event] = [
    event
    for n in range(5)
    for event in (
        does("send", "Error: port 80 is in use", error=True, role="read", n=n),
        edit(n),
    )
]


def after(*events: Event, policy: Policy | None = None) -> Memory:
    """The memory after these events, up to the first reflection and on."""
    memory: Memory = {}
    for event in events:
        _, memory = decide(policy or Policy(), memory, event)
    return memory


def refusal(memory: Memory, path: str = "src/a.py", **args: Any) -> Any:
    """What an edit of the file would be told."""
    return admit(Policy(), memory, "edit_file", {"path": path, "old": "q", **args})


def until_told(events: list[Event]) -> list[Event]:
    """The events up to the reflection."""
    memory: Memory = {}
    for n, event in enumerate(events):
        verdict, memory = decide(Policy(), memory, event)
        if verdict.action == "reflect":
            return events[: n + 1]
    raise AssertionError("nothing was found")


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("failing_edits", LOOP),
        ("failing_edits", REFUSED),
        ("edit_rate", RATE),
        ("recurring_error", ERRORS),
    ],
)
def test_the_next_edit_of_the_file_is_refused(kind: str, events: list[Event]) -> None:
    """Whatever it changes there; other files and other calls go on."""
    memory = after(*until_told(events))
    found = refusal(memory)

    assert (found.held, found.file) == (kind, "src/a.py")
    assert refusal(memory, new="whatever") is not None
    assert refusal(memory, "src/b.py") is None
    assert admit(Policy(), memory, "read_file", {"path": "src/a.py"}) is None


def test_edits_by_a_shell_are_refused_as_well() -> None:
    """As far as the command says which file it changes."""
    memory = after(*until_told(LOOP))

    assert admit(Policy(), memory, "bash", {"command": "sed -i s/a/b/ src/a.py"})
    assert admit(Policy(), memory, "bash", {"command": "cat src/a.py"}) is None


@pytest.mark.parametrize(
    "event",
    [
        Human(text="try the other parser"),
        Human(text="yes", answer=True),
        does("bash", "11 passed", command="pytest -q", error=False),
        does("read_file", "class Parser:\n  pass\n  # new\n", path="src/parser.py"),
    ],
    ids=["a word", "an answer", "a pass", "news"],
)
def test_the_block_ends_when_a_person_speaks_or_the_task_moves(event: Event) -> None:
    """Then the file may be edited again."""
    assert refusal(after(*until_told(LOOP), event)) is None


def test_an_edit_elsewhere_does_not_end_it() -> None:
    """A held call is let go by another change, a file is not."""
    first = edit(1, "src/b.py")
    told = until_told([first, *LOOP])

    assert refusal(after(*told, edit(2, "src/b.py"))) is not None


def test_it_can_be_switched_off() -> None:
    """`block_ignored=False`: the ladder alone answers."""
    policy = Policy(ladder=Ladder(Reflect(), GiveUp(), block_ignored=False))

    assert refusal(after(*until_told(LOOP), policy=policy)) is None


def test_a_refused_edit_is_the_next_trigger() -> None:
    """The agent was told and edits all the same: one rung up, the file free again."""
    memory = after(*until_told(LOOP))
    call = Step(
        tool="edit_file",
        args={"path": "src/a.py", "old": "q"},
        result="Not executed",
        error=True,
        blocked=True,
    )
    verdict, memory = decide(Policy(), memory, Turn(steps=(call,)))

    assert (verdict.action, verdict.rung) == ("escalate", 2)
    assert refusal(memory) is None


def test_files_that_differ_from_lap_to_lap_are_not_blocked() -> None:
    """No single file went in circles."""
    events = [event for n in range(4) for event in (edit(n, f"src/{n % 2}{n}.py"), RED)]
    memory: Memory = {}
    for event in events:
        _, memory = decide(Policy(), memory, event)

    assert not memory["ladder"].get("files")

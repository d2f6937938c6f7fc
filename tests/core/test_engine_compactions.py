from __future__ import annotations

from loopguard_lg import Policy, Step, Turn, decide
from loopguard_lg.steps import Compaction, Event

READ = Turn(steps=(Step(tool="read", args={"path": "a"}, result="one line"),))


def actions(*events: Event) -> list[str]:
    """What is to be done after each event."""
    memory: dict[str, object] = {}
    out = []
    for event in events:
        verdict, memory = decide(Policy(), memory, event)
        out.append(verdict.action)
    return out


def test_compactions_that_free_nothing_are_a_loop() -> None:
    """The third one without work between is a trigger by itself."""
    assert actions(READ, Compaction(), Compaction(), Compaction())[1:] == [
        "continue",
        "continue",
        "reflect",
    ]


def test_a_turn_and_the_compactions_after_it_make_one_verdict() -> None:
    """What was decided on the turn is not overtaken before the model replies."""
    compacted = [READ, Compaction()] * 3 + [Compaction()] * 3

    assert "escalate" not in actions(*compacted)


def test_compactions_in_honest_work_are_none() -> None:
    """A long run may be compacted often, as long as work is done between."""
    events: list[Event] = []
    for n in range(60):
        result = f"{n} lines about subject {n * 7919 % 1009} of part {n * 31 % 17}"
        events.append(Turn(steps=(Step(tool="read", args={"p": n}, result=result),)))
        events += [Compaction()] * (n % 6 == 5)

    assert set(actions(*events)) == {"continue"}

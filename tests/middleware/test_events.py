from __future__ import annotations

from typing import Any

from loopguard_lg import Policy
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import THREAD, ask, guarded, laddered, same


class Heard(list[GuardEvent]):
    """An observer that keeps what it hears."""

    def __call__(self, event: GuardEvent) -> None:
        self.append(event)

    def names(self) -> list[str]:
        """Names of the events but for the looks."""
        return [event.name for event in self if event.name != "seen"]


def test_each_act_of_the_guard_is_told_once() -> None:
    """A whole ladder, in the order in which it was climbed."""
    heard = Heard()
    guarded(ScriptedModel(default=same(1)[0]), laddered(), observers=[heard]).invoke(
        ask(), THREAD
    )

    assert heard.names() == [
        *("detected", "reflected", "blocked", "detected", "escalated"),
        *("detected", "exited"),
    ]
    assert {event.thread for event in heard} == {"t"}


def test_a_run_without_a_thread_is_told_under_its_human_word() -> None:
    """So that two such runs do not mix; the events of one have one name."""
    heard = Heard()
    model = ScriptedModel(replies=[*same(3), "done"] * 2)
    agent = guarded(model, observers=[heard])
    first, second = (agent.invoke(ask())["messages"][0].id for _ in range(2))

    assert [event.thread for event in heard] == [first] * 7 + [second] * 7


def test_a_way_out_of_a_loop_is_told() -> None:
    """Progress after a reflection is a recovery."""
    heard = Heard()
    model = ScriptedModel(replies=[*same(3), call("read", path="a"), "done"])
    guarded(model, observers=[heard]).invoke(ask(), THREAD)

    assert heard.names() == ["detected", "reflected", "recovered"]


def test_a_fault_is_told() -> None:
    """A progress signal that raises costs its vote, and observers hear of it."""

    def broken(turn: Any) -> bool:
        raise RuntimeError("out of order")

    heard = Heard()
    model = ScriptedModel(replies=[*same(2), "done"])
    guarded(model, Policy(progress=(broken,)), observers=[heard]).invoke(ask(), THREAD)

    assert set(heard.names()) == {"faulted"}
    assert heard[-1].verdict.faults == (("broken", "RuntimeError: out of order"),)

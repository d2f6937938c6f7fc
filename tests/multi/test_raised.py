"""A person who is asked about a budget says what it is raised to."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopguard_lg import AskUser, Budget, Policy
from loopguard_lg.engine import decide
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.traces.model import from_event, to_event
from tests.graph import graphs
from tests.middleware.runs import THREAD, Way, ask, executed, guarded, laddered

LIMITS = Policy(budget=Budget(steps=2), ladder=laddered(end=AskUser()).ladder)
TO_FIVE: Any = {"choice": "raise_budget", "to": 5}


def reading() -> ScriptedModel:
    """A model that reads one file after the other."""
    return ScriptedModel(replies=[call("read", path=str(n)) for n in range(9)])


def agent_with(told: list[GuardEvent]) -> Any:
    """An agent with the guard."""
    saver = InMemorySaver()
    return guarded(reading(), LIMITS, observers=[told.append], checkpointer=saver)


def graph_with(told: list[GuardEvent]) -> Any:
    """A graph with the guard."""
    return graphs.guarded(
        graphs.react(reading()),
        LIMITS,
        observers=[told.append],
        checkpointer=InMemorySaver(),
    )


HOSTS = pytest.mark.parametrize("host", [agent_with, graph_with])


def asked(agent: Any) -> dict[str, Any]:
    """The value of the open question."""
    (pending,) = agent.get_state(THREAD).interrupts
    value: dict[str, Any] = pending.value
    return value


@HOSTS
@pytest.mark.parametrize(
    "answer",
    [
        TO_FIVE,
        {"choice": "raise_budget", "to": "5"},
        {
            "decisions": [
                {"type": "edit", "edited_action": {"name": "ask_user", "args": TO_FIVE}}
            ]
        },
    ],
    ids=["number", "text", "decision"],
)
def test_a_budget_is_raised_to_an_amount(host: Any, answer: Any, way: Way) -> None:
    """What was spent counts, and the next question is asked at the new limit."""
    agent = host([])
    way(agent, ask(), THREAD)
    properties = asked(agent)["review_configs"][0]["args_schema"]["properties"]

    way(agent, Command(resume=answer), THREAD)

    assert properties["to"] == {"type": "number", "exclusiveMinimum": 0}
    assert executed == [f"read {n}" for n in range(5)]
    report = asked(agent)["report"]
    assert report["detail"] == "the run's budget of 5 steps is used (5)"
    assert [*report["usage"]] == [name for name in report["usage"] if ":" not in name]


@HOSTS
def test_an_amount_that_is_used_is_asked_about_again(host: Any) -> None:
    """Nothing runs in between, and a higher one takes the run on."""
    agent = host([])
    agent.invoke(ask(), THREAD)

    agent.invoke(Command(resume={"choice": "raise_budget", "to": 1}), THREAD)
    before = [*executed]
    agent.invoke(Command(resume=TO_FIVE), THREAD)

    assert before == ["read 0", "read 1"]
    assert len(executed) == 5


def test_a_new_word_starts_with_the_budget_as_it_is_set() -> None:
    """It was raised for one run."""
    agent = agent_with([])
    agent.invoke(ask(), THREAD)
    agent.invoke(Command(resume=TO_FIVE), THREAD)
    agent.invoke(Command(resume="stop"), THREAD)

    agent.invoke(ask("more"), THREAD)

    assert len(executed) == 7


@HOSTS
def test_a_recording_of_it_replays_to_the_same_verdicts(host: Any) -> None:
    """What a person raised is in the recording."""
    told: list[GuardEvent] = []
    agent = host(told)
    agent.invoke(ask(), THREAD)
    agent.invoke(Command(resume=TO_FIVE), THREAD)
    seen = [event for event in told if event.name == "seen" and event.event]

    memory, found = None, []
    for i, one in enumerate(seen):
        event = to_event(from_event(one.event, i))
        verdict, memory = decide(LIMITS, memory, event)
        found.append(verdict.exceeded)

    assert found == [one.verdict.exceeded for one in seen]
    assert [str(e) for e in found if e][-1].startswith("the run's budget of 5 steps")

"""Orders in results stay results: no role, note or question is made of them."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import (
    AskUser,
    Escalate,
    GiveUp,
    Ladder,
    LoopGuardMiddleware,
    Policy,
    Reflect,
)
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.security.test_quoting import MARKERS, ORDER, STEERING

SYSTEM = "You are careful."
CONFIG: Any = {"configurable": {"thread_id": "t"}}
HOSTILE = [*STEERING, *MARKERS, ORDER, "x" * 9_000]


def ran(hostile: str, end: Any) -> tuple[ScriptedModel, dict[str, Any]]:
    """A run in circles, whose tool returns `hostile` and fails with it."""

    @tool
    def search(query: str) -> str:
        """Search the documents."""
        return hostile

    model = ScriptedModel(default=call("search", query=hostile))
    policy = Policy(ladder=Ladder(Reflect(), Escalate(), end))
    agent = create_agent(
        model,
        [search],
        system_prompt=SYSTEM,
        middleware=[LoopGuardMiddleware(policy)],
        checkpointer=InMemorySaver(),
    )
    return model, agent.invoke({"messages": [("user", "go")]}, CONFIG)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_result_reaches_the_role_of_the_system(hostile: str) -> None:
    """Every request has the app's own system message and no other."""
    model, _ = ran(hostile, GiveUp())

    for request in model.requests:
        systems = [m for m in request.messages if isinstance(m, SystemMessage)]
        assert [m.text for m in systems] == [SYSTEM]
    assert len(model.requests) > 3


@pytest.mark.parametrize("hostile", HOSTILE)
def test_the_notes_quote_results_as_short_data(hostile: str) -> None:
    """A note holds no line, marker or control of a result, and stays small."""
    model, _ = ran(hostile, GiveUp())
    notes = {
        message.text
        for request in model.requests
        for message in request.messages
        if isinstance(message, HumanMessage) and message.name == "loopguard"
    }

    assert notes
    for note in notes:
        assert hostile not in note
        assert note.replace("\n", "").isprintable()
        assert len(note) < 2_000


@pytest.mark.parametrize("hostile", HOSTILE)
def test_the_last_message_steers_nothing(hostile: str) -> None:
    """What the person reads at the end is printable, short, and no order."""
    _, state = ran(hostile, GiveUp())
    said = state["messages"][-1].text

    assert hostile not in said
    assert said.replace("\n", "").isprintable()
    assert len(said) < 4_000


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_person_is_asked_in_words_that_steer_nothing(hostile: str) -> None:
    """Question, description and report of the payload are printable and short."""
    _, state = ran(hostile, AskUser())
    payload = state["__interrupt__"][0].value

    assert hostile not in str(payload)
    assert payload["question"].isprintable()
    for text in _texts(payload):
        assert text.replace("\n", "").replace("\t", "").isprintable()
        assert len(text) < 4_000


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for v in pair for text in _texts(v)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("hostile", [*STEERING[:-1], "\x1b[31mred\n\tlines\x1b[0m"])
def test_a_question_of_the_model_steers_no_terminal(hostile: str) -> None:
    """Its lines stay, for it may show a table."""
    model = ScriptedModel(replies=[call("ask_user", question=f"a\n{hostile}"), "done"])
    policy = Policy(ladder=Ladder(Reflect(), AskUser()))
    agent = create_agent(
        model,
        [],
        middleware=[LoopGuardMiddleware(policy)],
        checkpointer=InMemorySaver(),
    )
    state = agent.invoke({"messages": [("user", "go")]}, CONFIG)

    question = state["__interrupt__"][0].value["question"]
    assert question.startswith("a\n")
    assert question.replace("\n", "").replace("\t", "").isprintable()

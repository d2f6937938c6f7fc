"""What real models did, with and without a guard."""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg.adapters.middleware import LoopGuardMiddleware
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.ladder import Escalate, GiveUp, Ladder, Reflect
from loopguard_lg.policy import Policy
from loopguard_lg.testing.asserts import assert_no_loop, assert_trips

from .repository import WITH_FILES, agent, ask

PORT = "On which port does the server listen by default?"
WORKERS = "How many workers are set in config/default.toml?"
STORE = "What is the path of the store in src/store.py?"


def asked(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Tool and arguments of each call of a run, in order."""
    return [
        (call["name"], str(call["args"]))
        for message in result["messages"]
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    ]


def answered_by(result: dict[str, Any]) -> list[str | None]:
    """The model of each reply of a run, `None` for the guard's own."""
    return [
        message.response_metadata.get("model_name")
        for message in result["messages"]
        if isinstance(message, AIMessage)
    ]


class Guard:
    """A guard that escalates to another model, and what it did."""

    def __init__(self, strong: ChatOpenAI, **settings: Any) -> None:
        ladder = Ladder(Reflect(), Escalate(model=strong, turns=5), GiveUp())
        policy = Policy(ladder=ladder, **settings)
        self.middleware = LoopGuardMiddleware(policy, observers=[self.note])
        self.acts: list[str] = []

    def note(self, event: GuardEvent) -> None:
        """Keep the names of all but the looks."""
        if event.name != "seen":
            self.acts.append(event.name)


def test_a_weak_model_goes_in_circles(weak: ChatOpenAI) -> None:
    """Left alone, it makes the same call again and again."""
    limit = ModelCallLimitMiddleware(run_limit=8)
    result = agent(weak, limit, prompt=WITH_FILES).invoke(ask(STORE))
    calls = asked(result)

    assert max(map(calls.count, calls)) >= 3
    assert_trips(result, kind="repeat")


def test_a_guarded_weak_model_is_rerouted_and_the_task_is_solved(
    weak: ChatOpenAI, strong: ChatOpenAI
) -> None:
    """It ignores the note; its call is held back, and the strong one answers."""
    guard = Guard(strong)
    result = agent(weak, guard.middleware, prompt=WITH_FILES).invoke(ask(STORE))

    assert guard.acts[1::3] == ["reflected", "escalated"]
    assert len(asked(result)) == 4
    assert answered_by(result) == [weak.model_name] * 4 + [strong.model_name]
    assert "kiln.db" in result["messages"][-1].text


def test_a_guarded_weak_model_climbs_the_ladder(
    weak: ChatOpenAI, strong: ChatOpenAI
) -> None:
    """Told so, it repeats itself; the call is held back and the strong one goes on."""
    guard = Guard(strong, leave_tools=())
    result = agent(weak, guard.middleware, notes=True).invoke(ask(STORE))
    acts = [act for act in guard.acts if act in ("reflected", "escalated")]
    texts = [message.text for message in result["messages"]]

    assert acts[:2] == ["reflected", "escalated"]
    assert any(text.startswith("Not executed") for text in texts)
    assert {weak.model_name, strong.model_name} <= set(answered_by(result))
    assert texts[-1]


def test_a_nudged_weak_model_comes_to_an_end(
    weak: ChatOpenAI, strong: ChatOpenAI
) -> None:
    """Free to answer or to give up, it does, after fewer calls than left alone."""
    guard = Guard(strong)
    result = agent(weak, guard.middleware).invoke(ask(PORT))
    calls = asked(result)

    assert "reflected" in guard.acts
    assert max(map(calls.count, calls)) <= 4
    assert result["messages"][-1].text


def test_a_guard_is_silent_on_a_healthy_run(strong: ChatOpenAI) -> None:
    """With the list of files the strong model reads the right one, and answers."""
    guard = Guard(strong)
    result = agent(strong, guard.middleware, prompt=WITH_FILES).invoke(ask(PORT))

    assert guard.acts == []
    assert result.get("loopguard_exit") is None
    assert "8471" in result["messages"][-1].text


def test_a_strong_model_finds_the_workers(strong: ChatOpenAI) -> None:
    """With the list of files it looks once, and answers from what it found."""
    result = agent(strong, prompt=WITH_FILES).invoke(ask(WORKERS))

    assert len(asked(result)) == 1
    assert_no_loop(result)
    assert "4" in result["messages"][-1].text


async def test_a_strong_model_streams_its_run(strong: ChatOpenAI) -> None:
    """Chunks of calls and of words arrive, and make up the answer."""
    runner = agent(strong, prompt=WITH_FILES)
    stream = runner.astream(ask(STORE), stream_mode="messages")
    chunks = [message async for message, _ in stream]
    words = [c.text for c in chunks if isinstance(c, AIMessageChunk) and c.text]

    assert any(getattr(chunk, "tool_call_chunks", None) for chunk in chunks)
    assert len(words) > 1
    assert "kiln.db" in "".join(words)


async def test_a_strong_model_does_two_tasks_at_once(strong: ChatOpenAI) -> None:
    """Two runs side by side each get their own answers."""
    results = await agent(strong, prompt=WITH_FILES).abatch([ask(WORKERS), ask(STORE)])
    workers, store = (result["messages"][-1].text for result in results)

    assert "4" in workers
    assert "kiln.db" in store


def test_a_question_asked_three_times_is_answered_each_time(
    strong: ChatOpenAI,
) -> None:
    """The same call comes three times, each time for a person: that is no loop."""
    runner = agent(strong, prompt=WITH_FILES, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    results = [runner.invoke(ask(WORKERS), config) for _ in range(3)]
    calls = asked(results[-1])

    assert calls == calls[:1] * 3
    assert_no_loop(results[-1])
    assert all("4" in result["messages"][-1].text for result in results)

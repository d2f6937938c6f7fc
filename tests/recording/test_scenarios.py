"""What real models did, with and without a guard."""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.checkpoint.memory import InMemorySaver

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


def test_a_weak_model_goes_in_circles(weak: BaseChatModel) -> None:
    """Left alone, it makes the same call again and again."""
    limit = ModelCallLimitMiddleware(run_limit=8)
    calls = asked(agent(weak, limit).invoke(ask(PORT)))

    assert max(map(calls.count, calls)) >= 3


def test_a_strong_model_finds_the_workers(strong: BaseChatModel) -> None:
    """With the list of files it looks once, and answers from what it found."""
    result = agent(strong, prompt=WITH_FILES).invoke(ask(WORKERS))

    assert len(asked(result)) == 1
    assert "4" in result["messages"][-1].text


async def test_a_strong_model_streams_its_run(strong: BaseChatModel) -> None:
    """Chunks of calls and of words arrive, and make up the answer."""
    runner = agent(strong, prompt=WITH_FILES)
    stream = runner.astream(ask(STORE), stream_mode="messages")
    chunks = [message async for message, _ in stream]
    words = [c.text for c in chunks if isinstance(c, AIMessageChunk) and c.text]

    assert any(getattr(chunk, "tool_call_chunks", None) for chunk in chunks)
    assert len(words) > 1
    assert "kiln.db" in "".join(words)


async def test_a_strong_model_does_two_tasks_at_once(strong: BaseChatModel) -> None:
    """Two runs side by side each get their own answers."""
    results = await agent(strong, prompt=WITH_FILES).abatch([ask(WORKERS), ask(STORE)])
    workers, store = (result["messages"][-1].text for result in results)

    assert "4" in workers
    assert "kiln.db" in store


def test_a_question_asked_three_times_is_answered_each_time(
    strong: BaseChatModel,
) -> None:
    """The same call comes three times, each time for a person: that is no loop."""
    runner = agent(strong, prompt=WITH_FILES, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    results = [runner.invoke(ask(WORKERS), config) for _ in range(3)]
    calls = asked(results[-1])

    assert calls == calls[:1] * 3
    assert all("4" in result["messages"][-1].text for result in results)

"""Parts of a guarded run that hang on an event loop, and a budget of seconds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage

from loopguard_lg import Budget, Policy, guarded
from loopguard_lg.errors import LoopHaltedError

SOON = Policy(budget=Budget(seconds=0.05))
CALL = ToolCall(name="fetch", args={"url": "a"}, id="1")


@guarded
async def ask(messages: list[Any]) -> AIMessage:
    """A model that never answers."""
    await asyncio.Event().wait()
    return AIMessage("never")


@guarded
async def execute(asked: ToolCall) -> ToolMessage:
    """A tool that never answers."""
    await asyncio.Event().wait()
    return ToolMessage("never", tool_call_id=asked["id"])


@guarded
async def fetch(url: str) -> str:
    """A step that never ends."""
    await asyncio.Event().wait()
    return url


async def within(part: Any, given: Any) -> Any:
    """What a run gives that consists of one part."""

    @guarded(SOON)
    async def run() -> Any:
        return await part(given)

    return await asyncio.wait_for(run(), 20)


async def test_a_model_that_is_cut_ends_the_run_with_a_report() -> None:
    """As it does in an agent: no error of the guard's own gets out."""
    reply = await within(ask, [HumanMessage("find it")])

    assert reply.response_metadata["loopguard_exit"]["budget"] == "seconds"


async def test_a_tool_that_is_cut_is_an_error_result() -> None:
    """So that its call has an answer."""
    result = await within(execute, CALL)

    assert (result.status, result.tool_call_id) == ("error", "1")
    assert "budget of seconds is used" in result.text


async def test_a_step_that_is_cut_halts_the_run() -> None:
    """Nobody else can be told."""
    with pytest.raises(LoopHaltedError) as stopped:
        await within(fetch, "a")

    assert stopped.value.report["reason"] == "budget"

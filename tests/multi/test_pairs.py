"""The guard beside each middleware of the host that it can get in the way of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    LLMToolSelectorMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
    wrap_model_call,
)
from langchain_anthropic import ChatAnthropic
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import LoopGuardMiddleware, Policy
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.testing.histories import validate_history
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    executed,
    laddered,
    notes,
    same,
)
from tests.multi.teams import used


def routed() -> AgentMiddleware[Any, Any, Any]:
    """A middleware that chooses the model by itself, the same one for all."""

    def route(request: Any, handler: Any) -> Any:
        return handler(request.override(model=request.model))

    async def aroute(request: Any, handler: Any) -> Any:
        return await handler(request.override(model=request.model))

    class Router(AgentMiddleware[Any, Any, Any]):
        """Sync and async."""

        wrap_model_call = staticmethod(route)
        awrap_model_call = staticmethod(aroute)

    return Router()


def summarizing(messages: int) -> SummarizationMiddleware:
    """A summary from so many messages on."""
    return SummarizationMiddleware(
        ScriptedModel(default="a summary of what was before"),
        trigger=("messages", messages),
        keep=("messages", 4),
    )


def selecting() -> LLMToolSelectorMiddleware:
    """A model that selects all tools, by the schema that it is asked to fill."""
    chosen = call("ToolSelectionResponse", tools=["read", "search"])
    return LLMToolSelectorMiddleware(
        model=ScriptedModel(default=chosen), always_include=["write"]
    )


PAIRS: dict[str, Callable[[], Any]] = {
    "summarization": lambda: summarizing(99),
    "context editing": lambda: ContextEditingMiddleware(
        edits=[ClearToolUsesEdit(trigger=100_000)]
    ),
    "model retry": lambda: ModelRetryMiddleware(initial_delay=0),
    "tool retry": lambda: ToolRetryMiddleware(initial_delay=0),
    "tool error": lambda: ToolErrorMiddleware(lambda error, request: str(error)),
    "fallback": lambda: ModelFallbackMiddleware(ScriptedModel(model_name="spare")),
    "router": routed,
    "model limit": lambda: ModelCallLimitMiddleware(run_limit=90),
    "tool limit": lambda: ToolCallLimitMiddleware(run_limit=90),
    "human in the loop": lambda: HumanInTheLoopMiddleware({"write": True}),
    "todo": TodoListMiddleware,
    "tool selection": selecting,
    "pii": lambda: PIIMiddleware("email", apply_to_tool_results=True),
    "prompt caching": lambda: AnthropicPromptCachingMiddleware(
        unsupported_model_behavior="ignore"
    ),
}


@pytest.fixture(params=PAIRS)
def other(request: pytest.FixtureRequest) -> Any:
    """One other middleware."""
    return PAIRS[request.param]()


@pytest.fixture(params=["first", "last"])
def place(request: pytest.FixtureRequest) -> str:
    """Where the guard stands."""
    where: str = request.param
    return where


def beside(
    model: Any, other: Any, place: str, policy: Policy | None = None, **settings: Any
) -> Any:
    """An agent with the guard and another middleware."""
    guard = LoopGuardMiddleware(policy)
    listed = [guard, other] if place == "first" else [other, guard]
    settings |= {"checkpointer": InMemorySaver(), "system_prompt": "Find it."}
    return create_agent(model, TOOLS, middleware=listed, **settings)


def test_a_loop_is_led_to_its_end_with_a_valid_history(
    other: Any, place: str, way: Way
) -> None:
    """Told, taken back, and ended: every request and the state keep their pairing."""
    strong = ScriptedModel(replies=[call("read", path="a")], default=same(1)[0])
    model = ScriptedModel(default=same(1)[0])

    state = way(beside(model, other, place, laddered(strong)), ask(), THREAD)

    validate_history(state["messages"], request=False)
    assert state["loopguard_exit"]["reason"] == "loop"
    assert "3 times" in notes(model)[3]
    assert executed.count("search x") <= 8


def test_nothing_is_counted_twice(other: Any, place: str, way: Way) -> None:
    """Each reply, each call and each batch once."""
    batch = [call("read", path="a"), call("read", path="b")]
    model = ScriptedModel(replies=[batch, call("read", path="c"), "found"])
    agent = beside(model, other, place)

    way(agent, ask(), THREAD)

    spent, selects = used(agent), isinstance(other, LLMToolSelectorMiddleware)
    assert (spent["steps"], spent["tool_calls"]) == (2, 3)
    assert spent["model_calls"] == (6 if selects and place == "first" else 3)


def contents(messages: Any) -> list[tuple[str, Any, Any]]:
    """What a provider is sent of messages."""
    return [(m.type, m.content, getattr(m, "tool_calls", None)) for m in messages]


def test_the_prefix_of_each_request_is_that_without_the_guard(
    other: Any, place: str
) -> None:
    """A note stands at the very end, so that prompt caches hold."""
    plain = ScriptedModel(replies=[*same(5), "found"])
    create_agent(plain, TOOLS, middleware=[other], system_prompt="Find it.").invoke(
        ask()
    )
    model = ScriptedModel(replies=[*same(4), "found"])
    policy = Policy(leave_tools=(), advisors=())
    beside(model, other, place, policy).invoke(ask(), THREAD)

    for with_guard, without in zip(model.requests[:4], plain.requests, strict=False):
        sent, bare = contents(with_guard.messages), contents(without.messages)
        assert sent[: len(bare)] == bare
        assert with_guard.tool_names == without.tool_names
    assert len(model.requests[3].messages) == len(plain.requests[3].messages) + 1


def test_a_loop_across_summaries_is_caught(place: str, way: Way) -> None:
    """The state is cut again and again; the memory is not in it."""
    model = ScriptedModel(default=same(1)[0])
    agent = beside(model, summarizing(6), place, laddered())

    state = way(agent, ask(), THREAD)

    validate_history(state["messages"], request=False)
    assert state["loopguard_exit"]["reason"] == "loop"


def test_results_that_were_cleared_still_count_as_they_were(place: str) -> None:
    """Context editing changes the request, not what happened."""
    edits = [ClearToolUsesEdit(trigger=1, keep=0, placeholder="[cleared]")]
    model = ScriptedModel(replies=[call("read", path=str(n)) for n in range(8)])
    model._script.default = "found"

    other = ContextEditingMiddleware(edits=edits)
    beside(model, other, place).invoke(ask(), THREAD)

    assert "[cleared]" in model.requests[-1].text
    assert set(notes(model)) == {""}


def test_redacted_results_are_compared_as_the_model_sees_them(place: str) -> None:
    """What a middleware hides from the model is no news."""
    addresses = iter(f"mail{n}@example.com" for n in range(99))

    @tool
    def lookup(who: str) -> str:
        """Look up an address."""
        return f"write to {next(addresses)}"

    hides = PIIMiddleware("email", apply_to_tool_results=True)
    guard = LoopGuardMiddleware()
    model = ScriptedModel(replies=[*[call("lookup", who="x")] * 4, "found"])
    listed = [guard, hides] if place == "first" else [hides, guard]

    create_agent(model, [lookup], middleware=listed).invoke(ask())

    assert "lookup" in notes(model)[4]


def test_the_cache_marks_of_a_real_provider_stay(place: str) -> None:
    """The note is no part of what is cached: system, tools and settings are equal."""
    sent: list[Any] = []
    replies = iter([*["x"] * 4, None])

    @wrap_model_call
    def answered(request: Any, handler: Any) -> Any:
        sent.append(request)
        if next(replies) is None:
            return AIMessage("found")
        made = {"name": "search", "args": {"query": "x"}, "id": f"c{len(sent)}"}
        return AIMessage("", tool_calls=[made])

    caches = AnthropicPromptCachingMiddleware()
    guard = LoopGuardMiddleware()
    listed = [guard, caches] if place == "first" else [caches, guard]
    create_agent(
        ChatAnthropic(model="claude-sonnet-4-5", api_key="none"),
        TOOLS,
        middleware=[*listed, answered],
        system_prompt="Find it.",
    ).invoke(ask())

    first, told = sent[0], sent[3]
    assert first.model_settings["cache_control"] == told.model_settings["cache_control"]
    assert first.system_message == told.system_message
    assert [t.name for t in first.tools] == [t.name for t in told.tools]
    assert isinstance(told.messages[-1], HumanMessage)
    assert told.messages[-1].name == "loopguard"


def test_the_selector_is_not_asked_by_the_guards_note() -> None:
    """With the guard last, tools are selected for what the person wants."""
    picks = selecting()
    selector = picks.model
    assert isinstance(selector, ScriptedModel)
    model = ScriptedModel(replies=[*same(4), "found"])

    beside(model, picks, "last").invoke(ask(), THREAD)

    asked: list[BaseMessage] = [r.messages[-1] for r in selector.requests]
    assert {message.text for message in asked} == {"find it"}

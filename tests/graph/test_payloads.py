"""Requests as the integrations of providers build them, after each intervention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import anthropic.types as anthropic
import openai.types.chat as openai
import openai.types.responses as responses
import pytest
from google.genai import types as google
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolCall
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, TypeAdapter, ValidationError

from loopguard_lg.testing.doubles import ScriptedModel
from loopguard_lg.testing.histories import assert_valid_history
from tests.graph.graphs import guarded, react, run
from tests.graph.shapes import SHAPES, Shape
from tests.graph.test_shapes import ran, runs
from tests.middleware.runs import TOOLS, invoke, laddered

History = Sequence[BaseMessage]
KEY: Any = "none"


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """What validates one of the SDK's own types."""
    return TypeAdapter(kind)


@cache
def model_of(kind: Any, name: str, **settings: Any) -> Any:
    """A model of an integration with the tools, made once: that takes a while."""
    strict = {"strict": True} if settings else {}
    return kind(model=name, api_key=KEY, **settings).bind_tools(TOOLS, **strict)


def validated(kind: Any, payload: Mapping[str, Any]) -> None:
    """Validate with the SDK's types; what is iterated lazily is iterated."""
    _iterated(adapter(kind).validate_python(payload))


def _iterated(value: Any) -> None:
    if isinstance(value, str | bytes | BaseModel):
        return
    if isinstance(value, Mapping):
        value = value.values()
    for item in value if isinstance(value, Iterable) else ():
        _iterated(item)


def by_openai(history: History) -> None:
    """Chat completions: the results follow their calls, in order."""
    payload = _payload(model_of(ChatOpenAI, "gpt-5.5"), history)
    validated(
        openai.completion_create_params.CompletionCreateParamsNonStreaming, payload
    )
    messages = payload["messages"]
    for at, message in enumerate(messages):
        ids = [call["id"] for call in message.get("tool_calls") or ()]
        after = messages[at + 1 : at + 1 + len(ids)]
        assert [m.get("tool_call_id") for m in after] == ids


def by_responses(history: History) -> None:
    """Responses: every call has its output."""
    model = model_of(ChatOpenAI, "gpt-5.5", use_responses_api=True)
    payload = _payload(model, history)
    filled = {**payload, "input": [_filled(item) for item in payload["input"]]}
    validated(responses.response_create_params.ResponseCreateParamsNonStreaming, filled)
    items = payload["input"]
    calls = [i["call_id"] for i in items if i.get("type") == "function_call"]
    outs = [i["call_id"] for i in items if i.get("type") == "function_call_output"]
    assert calls == outs


def _filled(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """An item with what the types ask of an assistant's texts, and the API does not."""
    texts = item.get("type") == "message" and item.get("role") == "assistant"
    return {"id": "msg_1", "status": "completed", **item} if texts else item


def by_anthropic(history: History) -> None:
    """Messages: the turn after a call begins with its results; the end is a person.

    Turns of one role in a row are one turn to it.
    """
    payload = _payload(model_of(ChatAnthropic, "claude-sonnet-4-5"), history)
    validated(anthropic.message_create_params.MessageCreateParamsNonStreaming, payload)
    messages = payload["messages"]
    assert messages[-1]["role"] == "user"
    for before, after in pairwise(messages):
        calls = [b["id"] for b in _blocks(before) if b["type"] == "tool_use"]
        found = [b.get("tool_use_id") for b in _blocks(after)[: len(calls)]]
        assert found == calls


def by_google(history: History) -> None:
    """Generate content: as many responses after the calls, and a person at the end."""
    model = model_of(ChatGoogleGenerativeAI, "gemini-2.5-pro").bound
    prepared = model._prepare_request([*history])
    contents = [google.Content.model_validate(c) for c in prepared["contents"]]
    google.GenerateContentConfig.model_validate(prepared["config"])
    assert contents[-1].role == "user"
    parts = [part for content in contents for part in content.parts or ()]
    open_ = 0
    for part in parts:
        open_ += 1 if part.function_call else -1 if part.function_response else 0
        assert open_ >= 0
        assert not (part.text and open_)
    assert open_ == 0


def _payload(bound: Any, history: History) -> dict[str, Any]:
    found: dict[str, Any] = bound.bound._get_request_payload([*history], **bound.kwargs)
    return found


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    content = message["content"]
    return content if isinstance(content, list) else []


Sends = Callable[[History], None]


@pytest.fixture(params=[by_openai, by_responses, by_anthropic, by_google])
def sends(request: pytest.FixtureRequest) -> Sends:
    """Each way to send a history."""
    found: Sends = request.param
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_what_each_intervention_leaves_can_be_sent(shape: Shape, sends: Sends) -> None:
    """Every request of the runs, and their ends with one more question.

    The runs take every rung, the stronger model, each answer of a person and the end
    of a budget.
    """
    for done in runs(shape):
        histories = [request.messages for request in done.requests]
        after = [*done.messages, *histories[0][-1:]]
        for history in (*histories, after):
            sends([SystemMessage("You find things."), *history])


def test_the_check_refuses_what_a_provider_refuses(sends: Sends) -> None:
    """A call without its result does not pass."""
    asked = ToolCall(name="search", args={"query": "x"}, id="1")
    history = [*ran(SHAPES[0]).messages[:1], AIMessage("", tool_calls=[asked])]

    with pytest.raises((AssertionError, ValidationError)):
        sends([*history, *history[:1]])


THINKING = {
    "anthropic": {"type": "thinking", "thinking": "hm", "signature": "s"},
    "openai": {"type": "reasoning", "id": "rs_1", "summary": []},
}


@pytest.mark.parametrize(
    ("author", "reader", "sent"),
    [("anthropic", "openai", by_responses), ("openai", "anthropic", by_anthropic)],
)
def test_a_stronger_model_of_another_provider_is_sent_no_foreign_reasoning(
    author: str, reader: str, sent: Sends
) -> None:
    """Nor is the weaker one, when its turn comes again."""
    asked = ToolCall(name="search", args={"query": "x"}, id="")
    reply = AIMessage(
        [THINKING[author], {"type": "text", "text": "again"}],
        tool_calls=[asked],
        response_metadata={"model_provider": author},
    )
    replies = [
        reply.model_copy(update={"tool_calls": [{**asked, "id": f"c{n}"}]})
        for n in range(4)
    ]
    weak = ScriptedModel(replies=[*replies], model_name="weak")
    strong = ScriptedModel(replies=["found"], model_name="strong")

    run(invoke, guarded(react(weak), laddered(strong)))

    assert_valid_history(strong.requests[0].messages, provider=reader)
    sent(strong.requests[0].messages)


def test_every_type_of_the_sdk_is_really_checked() -> None:
    """Lazily validated parts are looked at: a wrong role does not pass."""
    params = openai.completion_create_params.CompletionCreateParamsNonStreaming
    wrong = {"model": "m", "messages": [{"role": "nobody", "content": "x"}]}

    with pytest.raises(ValidationError):
        validated(params, wrong)

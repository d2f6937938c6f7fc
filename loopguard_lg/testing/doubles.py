"""A chat model that answers from a script and remembers what it was sent."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeAlias

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    CallbackManagerForLLMRun,
)
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import ToolCallChunk, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from loopguard_lg.testing.histories import outline, validate_history

_ARGUMENT_CHARACTERS = 12
_TOKEN_CHARACTERS = 4


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call in a script; `id` `None`: numbered by the script."""

    tool: str
    args: dict[str, Any]
    id: str | None = None


def call(tool: str, /, call_id: str | None = None, **args: Any) -> Call:
    """A tool call as a reply: `call("search", query="x")`.

    `call_id` fixes the id (`""`: without one); the script numbers them otherwise.
    """
    return Call(tool, args, call_id)


Reply: TypeAlias = (
    str
    | Call
    | AIMessage
    | BaseException
    | type[BaseException]
    | Sequence[str | Call]
    | Callable[[list[BaseMessage]], Any]
)
"""What a script holds: a text, a call, a list of both (one message with a parallel
batch), a ready message, an exception to raise, or a function of the request's messages
that returns any of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the model was sent.

    Attributes:
        messages: The history, as it arrived.
        tools: The tools bound, as OpenAI schemas.
        tool_choice: What was forced, `None` where nothing was.
        temperature: As bound for this request, else the model's own.
        settings: All that was bound beside the above.
        streamed: Whether the reply was asked for in chunks.
    """

    messages: tuple[BaseMessage, ...]
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: Any = None
    temperature: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    streamed: bool = False

    @property
    def tool_names(self) -> list[str]:
        """Names of the tools bound, in order."""
        return [tool.get("function", tool)["name"] for tool in self.tools]

    @property
    def text(self) -> str:
        """All texts of the request, a line each: for `assert "..." in request.text`."""
        return "\n".join(message.text for message in self.messages)


class Script:
    """The replies and the requests; shared by all copies of one model."""

    def __init__(
        self, replies: Sequence[Reply], default: Reply | None, loop: bool
    ) -> None:
        self.replies = list(replies)
        self.default = default
        self.loop = loop
        self.requests: list[Request] = []
        self.refused: list[AssertionError] = []
        self._calls = 0
        self._lock = Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Script:
        return self

    @property
    def remaining(self) -> int:
        """Replies that were not asked for yet."""
        return max(0, len(self.replies) - len(self.requests))

    def answer(self, request: Request, validate: bool, name: str) -> AIMessage:
        """Note the request and return, or raise, the reply that is due."""
        with self._lock:
            self.requests.append(request)
            try:
                if validate:
                    validate_history(request.messages)
                reply = self._due(name)
            except AssertionError as problem:
                self.refused.append(problem)
                raise
            return self._message(reply, request)

    def _due(self, name: str) -> Reply:
        at = len(self.requests) - 1
        if self.loop and self.replies:
            at %= len(self.replies)
        if at < len(self.replies):
            return self.replies[at]
        if self.default is not None:
            return self.default
        raise AssertionError(
            f"the script of {name!r} ran dry: it has {len(self.replies)} replies, "
            f"this is request {at + 1}:\n{outline(self.requests[-1].messages)}"
        )

    def _message(self, reply: Any, request: Request) -> AIMessage:
        if isinstance(reply, BaseException) or _is_error(reply):
            raise reply
        if isinstance(reply, AIMessage):
            return reply.model_copy()
        if isinstance(reply, str | Call):
            return self._batch([reply])
        if callable(reply):
            return self._message(reply(list(request.messages)), request)
        return self._batch(reply)

    def _batch(self, parts: Sequence[str | Call]) -> AIMessage:
        texts = [part for part in parts if isinstance(part, str)]
        calls = [self._numbered(part) for part in parts if isinstance(part, Call)]
        return AIMessage("\n".join(texts), tool_calls=calls)

    def _numbered(self, part: Call) -> Any:
        self._calls += 1
        id_ = f"call_{self._calls}" if part.id is None else part.id
        return tool_call(name=part.tool, args=dict(part.args), id=id_)


def _is_error(reply: Any) -> bool:
    return isinstance(reply, type) and issubclass(reply, BaseException)


class ScriptedModel(BaseChatModel):
    """A chat model for tests and demos that answers from a script.

    It works with `create_agent`, sync, async and streamed. Copies of it (`bind`,
    `bind_tools`, `with_config`, `model_copy`) go on with the same script.

    Attributes:
        model_name: Stands in the replies' `response_metadata`.
        temperature: The model's own; what is bound for a request goes before it.
        validate_requests: Refuse requests that a strict provider would refuse.
        report_usage: Fill `usage_metadata`, estimated from the length of the texts.
    """

    model_name: str = "scripted"
    temperature: float | None = None
    validate_requests: bool = True
    report_usage: bool = True
    _script: Script = PrivateAttr()

    def __init__(
        self,
        replies: Sequence[Reply] = (),
        *,
        default: Reply | None = None,
        loop: bool = False,
        validate: bool = True,
        usage: bool = True,
        **fields: Any,
    ) -> None:
        """Set the script up.

        Args:
            replies: The answers, in order.
            default: The answer to all that comes after the script; without it such a
                request is an `AssertionError`.
            loop: Begin the script again when it is over.
            validate: Refuse histories that `validate_history` refuses.
            usage: Report estimated tokens.
            **fields: `model_name`, `temperature` and the fields of every chat model.
        """
        fields |= {"validate_requests": validate, "report_usage": usage}
        super().__init__(**fields)
        self._script = Script(replies, default, loop)

    @property
    def requests(self) -> list[Request]:
        """Every request so far, oldest first."""
        return self._script.requests

    @property
    def remaining(self) -> int:
        """Replies that were not asked for yet."""
        return self._script.remaining

    def verify(self) -> None:
        """Assert that no request was refused and that every reply was asked for.

        Finds what an `except Exception` around the model hid.
        """
        for problem in self._script.refused:
            raise problem
        assert not self.remaining, f"{self.remaining} replies were not asked for"

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools as OpenAI schemas, so that requests show what was really sent."""
        schemas = [convert_to_openai_tool(tool) for tool in tools]
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=schemas, **kwargs)

    @property
    def _llm_type(self) -> str:
        return "loopguard-scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name}

    def _reply(
        self, messages: list[BaseMessage], streamed: bool, settings: dict[str, Any]
    ) -> AIMessage:
        settings = dict(settings)
        request = Request(
            messages=tuple(messages),
            tools=tuple(settings.pop("tools", ())),
            tool_choice=settings.pop("tool_choice", None),
            temperature=settings.pop("temperature", self.temperature),
            settings=settings,
            streamed=streamed,
        )
        reply = self._script.answer(request, self.validate_requests, self.model_name)
        update: dict[str, Any] = {
            "response_metadata": {
                "model_name": self.model_name,
                "finish_reason": "tool_calls" if reply.tool_calls else "stop",
                **reply.response_metadata,
            }
        }
        if self.report_usage and reply.usage_metadata is None:
            update["usage_metadata"] = _usage(messages, reply)
        return reply.model_copy(update=update)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _result(self._reply(messages, False, kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _result(self._reply(messages, False, kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from _chunks(self._reply(messages, True, kwargs))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(self._reply(messages, True, kwargs)):
            yield chunk


def _result(reply: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=reply)])


def _usage(messages: Sequence[BaseMessage], reply: AIMessage) -> UsageMetadata:
    """Tokens by the rule of thumb of four characters each: the same on every run."""
    calls = [json.dumps(asked["args"], default=str) for asked in reply.tool_calls]
    given = sum(map(_tokens, (message.text for message in messages)))
    made = sum(map(_tokens, [reply.text, *calls]))
    return UsageMetadata(
        input_tokens=given, output_tokens=made, total_tokens=given + made
    )


def _tokens(text: str) -> int:
    return len(text) // _TOKEN_CHARACTERS + 1


def _chunks(reply: AIMessage) -> Iterator[ChatGenerationChunk]:
    """The reply as a provider streams it: words, then calls, then what it cost."""
    for content in _contents(reply.content):
        yield _chunk(reply, content=content)
    for index, asked in enumerate([*reply.tool_calls, *reply.invalid_tool_calls]):
        for part in _pieces(asked, index):
            yield _chunk(reply, tool_call_chunks=[part])
    yield _chunk(
        reply,
        additional_kwargs=reply.additional_kwargs,
        response_metadata=reply.response_metadata,
        usage_metadata=reply.usage_metadata,
        chunk_position="last",
    )


def _pieces(asked: Any, index: int) -> Iterator[ToolCallChunk]:
    """A call as name and id, then its arguments bit by bit."""
    args = asked["args"] or ""
    text = args if isinstance(args, str) else json.dumps(args)
    yield tool_call_chunk(name=asked["name"], id=asked["id"], args="", index=index)
    for at in range(0, len(text), _ARGUMENT_CHARACTERS):
        piece = text[at : at + _ARGUMENT_CHARACTERS]
        yield tool_call_chunk(args=piece, index=index)


def _contents(content: Any) -> list[Any]:
    if isinstance(content, str):
        return re.findall(r"\s*\S+\s*$|\s*\S+", content) or ([content] * bool(content))
    return [[block] for block in content]


def _chunk(reply: AIMessage, content: Any = "", **parts: Any) -> ChatGenerationChunk:
    message = AIMessageChunk(content=content, id=reply.id, name=reply.name, **parts)
    return ChatGenerationChunk(message=message)

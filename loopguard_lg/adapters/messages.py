"""Messages of LangChain as the facts that the engine is fed."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeGuard, TypeVar, get_args

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.tools import BaseTool

from loopguard_lg import prompts
from loopguard_lg.acts.advisors import MARKER
from loopguard_lg.steps import Nested, Role, Step, Tokens, Touch, Turn

MARK = "loopguard"
"""Key in `response_metadata` of tool messages under which the guard leaves facts."""

EXIT = "loopguard_exit"
"""Where an exit report is: in the state, in the metadata of the last message, and in
that of the result of the call in which an agent was ended."""

_ADVICE = (MARKER, MARKER.lstrip())
"""What advice begins with: after the tool's own text, and where that is empty."""


def text_of(message: BaseMessage) -> str:
    """The text of a message; blocks that are not text are given as JSON."""
    content = message.content
    if isinstance(content, str):
        return content
    return "\n".join(_block(block) for block in content)


Marked = TypeVar("Marked", AIMessage, ToolMessage)


def with_mark(message: Marked, mark: Mapping[str, Any]) -> Marked:
    """A message with facts of the guard's in its metadata; those there win."""
    within = mark_of(message)  # by another guard
    facts, ended = {**mark}, {}
    if report := facts.pop("exit", None):
        ended = {EXIT: report}
    metadata = {**ended, **message.response_metadata, MARK: {**facts, **within}}
    return message.model_copy(update={"response_metadata": metadata})


def own_text(result: ToolMessage) -> str:
    """What the tool itself said, without the guard's advice after it."""
    text, size = text_of(result), mark_of(result).get("advised")
    if isinstance(size, int) and text[len(text) - size :].startswith(_ADVICE):
        return text[: len(text) - size]
    return text


def own_content(result: ToolMessage) -> Any:
    """What the tool itself gave, text or blocks, without the guard's advice."""
    text = own_text(result)
    if isinstance(result.content, str):
        return text
    return result.content if text == text_of(result) else result.content[:-1]


def with_advice(result: ToolMessage, advice: str) -> ToolMessage:
    """The result with the guard's advice after what the tool said.

    Args:
        result: The tool's result.
        advice: As `advise` returned it, with its marker.
    """
    content: Any = result.content
    if isinstance(content, str) or not content:
        advice = advice if content else advice.lstrip()
        content = f"{content or ''}{advice}"
    else:
        content = [*content, {"type": "text", "text": advice.lstrip()}]
    before = mark_of(result)
    mark = {**before, "advised": before.get("advised", 0) + len(advice)}
    metadata = {**result.response_metadata, MARK: mark}
    return result.model_copy(update={"content": content, "response_metadata": metadata})


def _block(block: Any) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, Mapping) and isinstance(block.get("text"), str):
        return str(block["text"])
    return json.dumps(block, ensure_ascii=False, default=str, sort_keys=True)


def note(text: str) -> HumanMessage:
    """A message of the guard's to the model."""
    return HumanMessage(text, name=prompts.NAME)


def newest_word(
    messages: Sequence[BaseMessage],
    made: Collection[str] = (),
    *,
    through: bool = False,
) -> HumanMessage | None:
    """What a person said after the newest reply of the model, if anything.

    Notes of the guard, and what other middlewares put in a person's place (a summary
    of a compacted past, a grader's remarks), are no words of a person's.

    Args:
        messages: The messages of the state.
        made: Ids of other messages that are no words of a person's.
        through: Look behind replies too, as they may be other agents'.
    """
    for message in reversed(messages):
        if isinstance(message, AIMessage) and not through:
            return None
        if is_word(message) and message.id not in made:
            return message
    return None


def is_word(message: BaseMessage) -> TypeGuard[HumanMessage]:
    """Whether it is a human message that neither guard nor middleware wrote."""
    return isinstance(message, HumanMessage) and not _made(message)


def _made(message: HumanMessage) -> bool:
    return message.name == prompts.NAME or "lc_source" in message.additional_kwargs


def newest_reply(
    messages: Sequence[BaseMessage], id_: str | None = None
) -> tuple[AIMessage | None, list[ToolMessage]]:
    """The newest reply of the model, and the results that follow it in order.

    With `id_` it is the reply of that id, whatever other agents said after it.
    """
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            if id_ is None or message.id == id_:
                return message, results[::-1]
            results = []
        elif isinstance(message, ToolMessage):
            results.append(message)
    return None, []


def pair(
    reply: AIMessage, results: Iterable[ToolMessage]
) -> list[tuple[Any, ToolMessage | None]]:
    """Each call of `reply` with its result, where there is one yet.

    Ids may be used twice or be missing: a result is taken once, in order.
    """
    left = list(results)
    out: list[tuple[Any, ToolMessage | None]] = []
    for call in reply.tool_calls:
        found = next((m for m in left if m.tool_call_id == (call["id"] or "")), None)
        if found is not None:
            left.remove(found)
        out.append((call, found))
    return out


def readable(result: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """The reply, with calls that can't be read answered with an error.

    A reply whose only call is broken JSON would end the run without a word: the host
    sees neither text nor calls in it.
    """
    reply, results = newest_reply(result)
    if reply is None:
        return result
    if reply.tool_calls:
        return _numbered(result, reply)
    if not reply.invalid_tool_calls:
        return result
    mended, *answers = _mended(reply)
    return [mended, *results, *answers]


def _mended(reply: AIMessage) -> Iterator[BaseMessage]:
    """The reply with its broken calls as calls, then an answer to each."""
    calls, answers = [], []
    for n, bad in enumerate(reply.invalid_tool_calls):
        name, id_ = bad["name"] or "unknown", bad["id"] or f"{prompts.NAME}_invalid_{n}"
        calls.append(ToolCall(name=name, args={}, id=id_, type="tool_call"))
        text = prompts.not_json(name, bad["error"])
        answers.append(ToolMessage(text, name=name, tool_call_id=id_, status="error"))
    yield reply.model_copy(update={"tool_calls": calls, "invalid_tool_calls": []})
    yield from answers


def _numbered(result: Sequence[BaseMessage], reply: AIMessage) -> Sequence[BaseMessage]:
    """The reply with an id for each call: the host can't execute one without."""
    if all(call["id"] is not None for call in reply.tool_calls):
        return result
    calls = [
        {**call, "id": f"{prompts.NAME}_call_{n}" if call["id"] is None else call["id"]}
        for n, call in enumerate(reply.tool_calls)
    ]
    numbered = reply.model_copy(update={"tool_calls": calls})
    return [numbered if message is reply else message for message in result]


def refused(call: Mapping[str, Any], text: str, why: str) -> ToolMessage:
    """The result of a call that the guard did not let through."""
    return ToolMessage(
        text,
        name=call["name"],
        tool_call_id=call["id"] or "",
        status="error",
        response_metadata={MARK: {"blocked": why}},
    )


def tokens_of(reply: AIMessage) -> Tokens | None:
    """What the model call took, where the provider said so."""
    usage = reply.usage_metadata
    if not usage:
        return None
    details = usage.get("input_token_details") or {}
    return Tokens(
        input=max(0, usage["input_tokens"]),  # no usage gives a budget back
        output=max(0, usage["output_tokens"]),
        cached=max(0, details.get("cache_read") or 0),
    )


def turn_of(
    reply: AIMessage,
    results: Iterable[ToolMessage],
    tools: Mapping[str, BaseTool],
    **known: Any,
) -> Turn:
    """The turn that a reply and its results make.

    Args:
        reply: The model's reply.
        results: The results of its calls; a call without one was cut off.
        tools: The tools by name, for their defaults and what they say of themselves.
        known: What the adapter measured: `model`, `tokens`, `cost`, `seconds`, `agent`.
    """
    pairs = pair(reply, results)
    marks = [mark_of(result) for _, result in pairs]
    steps = tuple(
        step_of(call, result, mark, tools.get(call["name"]))
        for (call, result), mark in zip(pairs, marks, strict=True)
    )
    if reply.name:  # a name that the app gave to the agent
        known["agent"] = reply.name
    return Turn(
        text=text_of(reply),
        steps=steps,
        nested=nested_of([mark_of(reply), *marks]),
        progress="; ".join(mark["progress"] for mark in marks if "progress" in mark),
        touched=_touched(marks),
        **known,
    )


def _touched(marks: Iterable[Mapping[str, Any]]) -> tuple[Touch, ...]:
    """The changes of files that a watcher saw while calls ran."""
    return tuple(
        Touch(path=path, t=t, size=size)
        for mark in marks
        for path, t, size in mark.get("touched", ())
    )


def mark_of(message: BaseMessage | None) -> Mapping[str, Any]:
    """What a guard noted of a result, or of a reply."""
    mark = message.response_metadata.get(MARK) if message is not None else None
    return mark if isinstance(mark, Mapping) else {}


def nested_of(marks: Iterable[Mapping[str, Any]]) -> tuple[Nested, ...]:
    """What was spent inside calls, and on replies that were not taken."""
    return tuple(_nested(n) for mark in marks for n in mark.get("nested", ()))


def _nested(data: Mapping[str, Any]) -> Nested:
    return Nested(
        model_calls=data["model_calls"],
        tokens=Tokens(
            input=data["input"],
            output=data["output"],
            estimated=bool(data.get("estimated")),
        ),
        cost=data.get("cost"),
    )


def step_of(
    call: Mapping[str, Any],
    result: ToolMessage | None,
    mark: Mapping[str, Any],
    tool: BaseTool | None,
) -> Step:
    """One call with its result as a `Step`."""
    return Step(
        tool=call["name"],
        args={**defaults(tool), **(call["args"] or {})},
        result=prompts.no_result() if result is None else own_text(result),
        error=True if _failed(result) else None,
        id=call["id"] or "",
        seconds=mark.get("seconds"),
        blocked=bool(mark.get("blocked")),
        attempts=mark.get("attempts", 1),
        cached=bool(mark.get("cached")),
        changed_state=False if mark.get("cached") else None,
        state=mark.get("state"),
        role=role_of(tool),
    )


def _failed(result: ToolMessage | None) -> bool:
    """Whether a call failed, as far as its message tells: an agent that its guard
    ended has not done its task.
    """
    return (
        result is None or result.status == "error" or EXIT in result.response_metadata
    )


def defaults(tool: BaseTool | None) -> dict[str, Any]:
    """What a tool's own schema fills in where an argument is left out."""
    schema = tool.args_schema if tool is not None else None
    return _defaults(schema) if isinstance(schema, type) else {}


@lru_cache(maxsize=1024)
def _defaults(schema: type) -> dict[str, Any]:
    model_fields: Mapping[str, Any] = getattr(schema, "model_fields", {})
    return {
        name: field.default
        for name, field in model_fields.items()
        if isinstance(field.default, bool | int | float | str)
    }


def tool_name(tool: Any) -> str:
    """The name of a tool, which may be a provider's own in a dict."""
    if isinstance(tool, Mapping):
        inner = tool.get("function", tool)
        return str(inner.get("name") or inner.get("type"))
    return str(getattr(tool, "name", tool))


def is_idempotent(tool: Any) -> bool:
    """Whether a tool says that a call made twice has the effect of one.

    Source: `idempotentHint` in the `ToolAnnotations` of the Model Context Protocol.
    """
    hints = tool.metadata or {} if isinstance(tool, BaseTool) else {}
    return hints.get("idempotentHint") is True


_ROLES = frozenset(get_args(Role))


def role_of(tool: Any) -> Role | None:
    """What a tool says of itself: a tag, or the hints of the MCP specification.

    Source: the `ToolAnnotations` of the Model Context Protocol, which
    langchain-mcp-adapters puts into `metadata`.
    """
    if not isinstance(tool, BaseTool):
        return None
    named = next((tag for tag in tool.tags or () if tag in _ROLES), None)
    if named:
        return named  # type: ignore[return-value]  # checked against the literal
    return _hinted(tool.metadata or {})


def _hinted(hints: Mapping[str, Any]) -> Role | None:
    reads = hints.get("readOnlyHint")
    if reads is True:
        return "read"
    writes = reads is False or hints.get("destructiveHint") is True
    return "write" if writes else None

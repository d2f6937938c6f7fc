"""Is this list of messages one that every provider accepts?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)


def validate_history(messages: Iterable[object], *, request: bool = True) -> None:
    """Check `messages` against the rules of the strictest chat providers.

    Each tool call is answered once, in order, directly after its AI message; at most
    one system message, and that first; nothing but system, human, AI and tool
    messages; with `request` also: not empty, and not ending on an AI message. Calls
    with broken arguments count as calls, since they are sent as such.

    Raises:
        AssertionError: Says which message breaks which rule, and shows the history.
    """
    history = convert_to_messages(list(messages))  # type: ignore[arg-type]
    problem = _placement(history) or _pairing(history)
    if problem is None and request:
        problem = _ending(history)
    if problem is not None:
        at, text = problem
        raise AssertionError(f"message {at}: {text}\n{outline(history, mark=at)}")


def assert_valid_history(
    messages: Iterable[object], *, provider: str | None = None, request: bool = True
) -> None:
    """Assert that `provider` takes `messages`: `validate_history`, and what it adds.

    No reasoning blocks of another provider are in it (with no provider given: of more
    than one), and it ends on an assistant message only where the provider goes on from
    there. Whose blocks they are is told by `response_metadata["model_provider"]`, else
    by their type.

    Args:
        messages: The history.
        provider: As LangChain names it: `openai`, `anthropic`, `google_genai`, ...;
            the strictest if `None`.
        request: Whether it is about to be sent, so that its end counts.

    Raises:
        AssertionError: Says which message breaks which rule, and shows the history.
    """
    history = convert_to_messages(list(messages))  # type: ignore[arg-type]
    validate_history(history, request=request and provider not in _GOES_ON)
    reader = provider
    for at, message in enumerate(history):
        for author in _authors(message):
            reader = reader or author
            if author != reader:
                text = f"reasoning of {author!r} in a history for {reader!r}"
                raise AssertionError(
                    f"message {at}: {text}\n{outline(history, mark=at)}"
                )


_GOES_ON = frozenset({"openai"})
"""Providers that go on from an assistant message at the end."""

_REASONING = {
    "thinking": "anthropic",
    "redacted_thinking": "anthropic",
    "reasoning": "openai",
}
"""Types of reasoning blocks, by who writes them."""


def _authors(message: BaseMessage) -> Iterator[str]:
    """Who wrote the reasoning in a message, once for each block."""
    known = message.response_metadata.get("model_provider")
    blocks = message.content if isinstance(message.content, list) else []
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in _REASONING:
            yield known or _REASONING[kind]
    if "reasoning_content" in message.additional_kwargs:
        yield known or "deepseek"


def outline(messages: Sequence[BaseMessage], *, mark: int | None = None) -> str:
    """One line per message: position, type, ids, the beginning of its text."""
    return "\n".join(
        f"{'>' if i == mark else ' '} {i} {_line(m)}" for i, m in enumerate(messages)
    )


def _line(message: BaseMessage) -> str:
    text = " ".join(message.text.split())
    head = message.type + (f" ({message.name})" if message.name else "")
    if isinstance(message, ToolMessage):
        head += f" for {message.tool_call_id!r}"
    if asked := [f"{name}[{id_}]" for id_, name in _asked(message)]:
        head += f" calls {', '.join(asked)}"
    return f"{head}: {text[:60]}{'...' if len(text) > 60 else ''}"


def _asked(message: BaseMessage) -> list[tuple[str, str]]:
    """Id and name of each call of an AI message, in the order they are sent in."""
    if not isinstance(message, AIMessage):
        return []
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    return [(call["id"] or "", call["name"] or "") for call in calls]


_Problem = tuple[int, str] | None


def _placement(history: Sequence[AnyMessage | BaseMessage]) -> _Problem:
    allowed = (SystemMessage, HumanMessage, AIMessage, ToolMessage)
    for at, message in enumerate(history):
        if not isinstance(message, allowed):
            return at, f"a message of type {message.type!r} can't be sent to a model"
        if at and isinstance(message, SystemMessage):
            return at, "a system message that is not the first message"
    return None


def _pairing(history: Sequence[BaseMessage]) -> _Problem:
    pending: list[tuple[str, str]] = []
    for at, message in enumerate(history):
        if isinstance(message, ToolMessage):
            if (problem := _answer(message, pending)) is not None:
                return at, problem
            pending = pending[1:]
        elif pending:
            return at, f"comes before the answer to {_names(pending)}"
        else:
            pending = _asked(message)
    if pending:
        return len(history) - 1, f"no answer to {_names(pending)}"
    return None


def _answer(message: ToolMessage, pending: Sequence[tuple[str, str]]) -> str | None:
    got = message.tool_call_id
    if not pending:
        return f"answers {got!r}, which is not asked, or answered already"
    if got == pending[0][0]:
        return None
    if any(got == id_ for id_, _ in pending):
        return f"answers {got!r} out of order: next is {_names(pending[:1])}"
    return f"answers {got!r}, but open is {_names(pending)}"


def _names(pending: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{id_!r} ({name})" for id_, name in pending)


def _ending(history: Sequence[BaseMessage]) -> _Problem:
    if not history:
        return 0, "the history is empty"
    if isinstance(history[-1], AIMessage):
        return len(history) - 1, "the request ends on an assistant message"
    return None

"""Tokens where the provider does not say how many there were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately

from loopguard_lg.steps import Tokens

Size: TypeAlias = list[Any]
"""How large a request was, as plain data: `[messages, id of the newest one, length of
their contents, tokens]`."""


def estimated(
    sent: Sequence[BaseMessage], reply: AIMessage, size: Size | None = None
) -> Tokens:
    """Tokens of a model call, from what was sent or, where that is known, its size."""
    return Tokens(
        input=count_tokens_approximately(sent) if size is None else size[-1],
        output=count_tokens_approximately([reply]),
        estimated=True,
    )


def sized(sent: Sequence[BaseMessage], before: Any) -> Size:
    """The size of a request that may go on from an earlier one.

    Each message is counted once and not once a turn, or a run would take time that
    grows with the square of its length. Where older ones are others now, or shorter
    (other middlewares trim and clear), all are counted again.

    Args:
        sent: The messages.
        before: The size of an earlier request, as it was stored.
    """
    at, length, tokens = _known(sent, before)
    more = sent[at:]
    return [
        len(sent),
        sent[-1].id if sent else None,
        length + _length(more),
        tokens + count_tokens_approximately(more),
    ]


def _known(sent: Sequence[BaseMessage], before: Any) -> tuple[int, int, int]:
    """How many messages begin both requests, their length and their tokens."""
    match before:
        case [int(at), id_, int(length), int(tokens)] if 0 < at <= len(sent):
            if sent[at - 1].id == id_ and _length(sent[:at]) == length:
                return at, length, tokens
    return 0, 0, 0


def _length(messages: Sequence[BaseMessage]) -> int:
    return sum(_extent(message.content) for message in messages)


def _extent(content: str | Sequence[str | Mapping[str, Any]]) -> int:
    """How long contents are, as a text or as blocks: of each the texts in it."""
    if isinstance(content, str):
        return len(content)
    values = (
        v for b in content for v in (b.values() if isinstance(b, Mapping) else [b])
    )
    return sum(len(value) for value in values if isinstance(value, str))

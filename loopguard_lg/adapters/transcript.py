"""A list of messages as the events that the engine is fed, and what it makes of them.

For hosts that have no channel of their own: what the guard remembers is derived from
the conversation each time, so that it survives whatever the messages survive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool

from loopguard_lg import budgets
from loopguard_lg.adapters.messages import newest_word, text_of, tokens_of, turn_of
from loopguard_lg.engine import decide
from loopguard_lg.memory import Memory, fresh
from loopguard_lg.policy import Policy
from loopguard_lg.steps import Event, Human, Nested, Turn
from loopguard_lg.telemetry import prices

HANDED_BACK = "__is_handoff_back"
"""How langgraph-supervisor marks the messages by which it takes over again."""

_UNASKED = Nested(model_calls=-1)
"""Takes back what a turn counts as a call: no model was asked for that reply."""


def events_of(
    messages: Iterable[Any],
    tools: Mapping[str, BaseTool] | None = None,
    policy: Policy | None = None,
    agent: str = "",
) -> Iterator[Event]:
    """What happened in a conversation; what is no message is passed on as it is.

    Args:
        messages: Messages, or events already.
        tools: The tools by name, for their defaults and roles.
        policy: With it, what the replies took is told as well.
        agent: Whose turns they are.
    """
    parts = list(messages)
    for at, part in enumerate(parts):
        if not isinstance(part, BaseMessage):
            yield part
        elif isinstance(part, AIMessage):
            known = _measured(part, policy) if policy is not None else {}
            results = results_after(parts[at + 1 :])
            turn = turn_of(part, results, tools or {}, agent=agent, **known)
            unasked = HANDED_BACK in part.response_metadata
            yield replace(turn, nested=(_UNASKED,)) if unasked else turn
        elif (word := newest_word([part])) is not None:
            yield Human(text=text_of(word))


def _measured(reply: AIMessage, policy: Policy) -> dict[str, Any]:
    name, tokens = reply.response_metadata.get("model_name"), tokens_of(reply)
    cost = prices.cost(name, tokens, policy.prices)
    return {"model": name, "tokens": tokens, "cost": cost}


def results_after(messages: Sequence[Any]) -> Iterator[ToolMessage]:
    """The answers that follow directly."""
    for message in messages:
        if not isinstance(message, ToolMessage):
            return
        yield message


def judged(
    policy: Policy,
    messages: Sequence[BaseMessage],
    tools: Mapping[str, BaseTool] | None = None,
    memory: Memory | None = None,
    agent: str = "",
) -> Memory:
    """What the guard remembers of a conversation of an agent's.

    `memory` is of what came before it.
    """
    memory = fresh() if memory is None else memory
    for event in events_of(messages, tools, policy, agent):
        _, memory = decide(policy, memory, event)
    return memory


def since_batch(messages: Sequence[BaseMessage]) -> int:
    """Where what follows the newest batch of calls, and its results, begins."""
    calling = (n for n, m in enumerate(messages) if getattr(m, "tool_calls", None))
    at = max(calling, default=-1) + 1
    return at + sum(1 for _ in results_after(messages[at:]))


def current_run(
    messages: Sequence[BaseMessage], policy: Policy
) -> Sequence[BaseMessage]:
    """The messages since a person spoke last; all of them for budgets of a thread."""
    if any(budget.scope == "thread" for budget in policy.budgets):
        return messages
    word = newest_word(messages, through=True)
    at = next((n for n, m in enumerate(messages) if m is word), 0)
    return messages[at:]


def step_alone(
    call: Mapping[str, Any],
    result: ToolMessage,
    agent: str,
    tools: Mapping[str, BaseTool] | None = None,
) -> Turn:
    """A step that no model asked for, as a turn."""
    reply = AIMessage("", tool_calls=[cast(ToolCall, call)])
    return turn_of(reply, [result], tools or {}, agent=agent)


def without_reply(memory: Memory) -> Memory:
    """The memory before a turn that would count as a model call and is none."""
    none = {"model_calls": -1, "unpriced": -1}
    used = {scope: budgets.add(u, none) for scope, u in memory["used"].items()}
    return {**memory, "used": used}

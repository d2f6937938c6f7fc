"""The end of a run: the exit report, the last message, the question to a person."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall
from pydantic import PydanticUserError, TypeAdapter

from loopguard_lg import budgets, prompts
from loopguard_lg.adapters.messages import EXIT, MARK, is_word, text_of
from loopguard_lg.adapters.standing import standing
from loopguard_lg.claims import unproven
from loopguard_lg.engine import Verdict
from loopguard_lg.hooks import logger
from loopguard_lg.memory import Memory
from loopguard_lg.quoting import plain
from loopguard_lg.redaction import masked

KEY = EXIT
"""Where the exit report is."""

UNPROVEN = "loopguard_unproven"
"""Where a last message says which of its claims no check shows."""

PARTIAL = 2_000
"""Most characters of the partial result."""

CHILDREN = 8
"""Most agents inside that a report names."""


_UNKNOWN = Verdict()
"""Of an end that no verdict led to."""


def newest(old: Any, new: Any) -> Any:
    """The report after a write: two guards of one agent may write in one step."""
    return new


def made(result: Sequence[BaseMessage]) -> dict[str, Any] | None:
    """The report in a reply that another guard made in the model's place, if any."""
    reports = (m.response_metadata.get(KEY) for m in result if isinstance(m, AIMessage))
    return next((found for found in reports if found), None)


def ended(state: Mapping[str, Any]) -> dict[str, Any] | None:
    """The report of a run that has ended: in its key, else in the newest message.

    Beside an open call it is a question to a person: the run has not ended.
    """
    newest = next(reversed(state.get("messages") or []), None)
    over = isinstance(newest, AIMessage) and not newest.tool_calls
    return state.get(KEY) or (made([newest]) if newest is not None and over else None)


def report(
    reason: str,
    detail: str,
    memory: Memory,
    messages: Sequence[BaseMessage],
    verdict: Verdict | None = None,
    agent: str = "",
) -> dict[str, Any]:
    """The machine-readable exit report, plain data.

    Args:
        reason: `loop`, `budget`, `gave_up` or `recursion_limit`.
        detail: One sentence for a person.
        memory: What the guard knows.
        messages: The state's messages; the newest words of the agent are the partial
            result.
        verdict: What led here.
        agent: Whose run ends.
    """
    pad = memory["pad"]
    partial = _partial(messages)
    return {
        "version": 1,
        "agent": agent,
        "reason": reason,
        "detail": masked(plain(detail)),
        **_why(reason, verdict),
        "rung": memory["ladder"].get("rung", 0),
        "usage": {
            name: amount
            for name, amount in memory["used"]["run"].items()
            if not name.startswith(budgets.RAISED)
        },
        "tried": [
            f"{call} ({times}x)" for call, times, _ in pad.get("tried", {}).values()
        ],
        "ruled_out": [f"{call} ({why})" for call, why in pad.get("ruled", [])],
        "writes": [f"{call} -> {receipt}" for call, receipt in pad.get("writes", [])],
        "facts": list(pad.get("facts", [])),
        "partial": partial,
        "unproven": unproven(memory["history"], partial),
        **standing(memory, messages),
        "children": _children(messages),
        "inside": False,
    }


def _why(reason: str, verdict: Verdict | None) -> dict[str, Any]:
    """What was found, and which budget is out, as far as that ends the run."""
    verdict = verdict or _UNKNOWN
    finding = verdict.finding if reason == "loop" else None
    exceeded = verdict.exceeded
    return {
        "kind": finding.kind if finding else None,
        "steps": list(finding.steps) if finding else [],
        "budget": exceeded.name if exceeded else None,
        "outer": (exceeded.owner or None) if exceeded else None,
    }


_ABOUT = ("agent", "reason", "detail", "kind", "budget", "outer")
"""What a report says of an agent inside that was ended."""


def _children(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """The agents that were ended inside this run by their guards, newest last."""
    found: list[dict[str, Any]] = []
    for message in reversed(messages):
        if is_word(message) or len(found) == CHILDREN:
            break
        report = message.response_metadata.get(KEY)
        if report and not getattr(message, "tool_calls", None):
            found.append({name: report.get(name) for name in _ABOUT})
    return found[::-1]


def _partial(messages: Sequence[BaseMessage]) -> str:
    """The newest words of the agent in this run, not those of the guard.

    Without secrets, and without what steers the terminal that shows them.
    """
    for message in reversed(messages):
        if isinstance(message, HumanMessage) and is_word(message):
            break
        if not isinstance(message, AIMessage) or KEY in message.response_metadata:
            continue
        if text := text_of(message).strip():
            return masked(plain(text[: PARTIAL * 2]))[:PARTIAL]
    return ""


def tagged(result: Sequence[BaseMessage], memory: Memory) -> list[BaseMessage]:
    """The messages, those that end a run with the claims in them that no check shows.

    Args:
        result: What a model replied; its messages are left as they are.
        memory: What the guard knows.
    """
    return [_tagged(message, memory["history"]) for message in result]


def _tagged(message: BaseMessage, history: Mapping[str, Any]) -> BaseMessage:
    ends = isinstance(message, AIMessage) and not message.tool_calls
    claims = unproven(history, text_of(message)) if ends else []
    if not claims:
        return message
    metadata = {**message.response_metadata, UNPROVEN: claims}
    return message.model_copy(update={"response_metadata": metadata})


def final(report: dict[str, Any]) -> AIMessage:
    """The last message of a run that gave up."""
    return AIMessage(prompts.farewell(report), response_metadata={KEY: report})


@lru_cache(maxsize=256)
def warn_unasked(agent: str) -> None:
    """Say once for each agent why it ended where its ladder says to ask a person."""
    logger.warning(
        "loopguard: %r can't ask a person (AskUser): it has no checkpointer, so no "
        "answer could come back, and its runs end as with GiveUp()",
        agent,
    )


def question(
    report: dict[str, Any], number: int, choices: Sequence[str] = ()
) -> AIMessage:
    """The reply that asks a person; the tool `ask_user` interrupts.

    Args:
        report: The exit report as it would be if the run ended here.
        number: Tells the questions of a thread apart; the call's id is made of it.
        choices: What can be answered beside words.
    """
    return AIMessage(
        "",
        tool_calls=[
            ToolCall(
                name="ask_user",
                args={"question": prompts.question(report["detail"])},
                id=f"{prompts.NAME}_ask_{number}",
            )
        ],
        response_metadata={KEY: report, MARK: {"choices": [*choices]}},
    )


def structured(format_: Any, text: str) -> Any:
    """A structured response where the partial result fits the schema.

    A schema that is all defaults is not filled from nothing: nobody said so.

    Args:
        format_: The response format of the request. A schema in JSON can't be checked
            against and is not filled.
        text: The partial result.
    """
    schema = getattr(format_, "schema", None)
    if schema is None or isinstance(schema, dict):
        return None
    candidate = _json(text)
    if candidate is None:
        return None
    try:
        return TypeAdapter(schema).validate_python(candidate)
    except (ValueError, PydanticUserError):
        return None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None

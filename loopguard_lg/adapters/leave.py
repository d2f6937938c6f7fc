"""The tools by which a model leaves by itself: `give_up` and `ask_user`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.types import interrupt

from loopguard_lg import prompts
from loopguard_lg.adapters.exits import KEY
from loopguard_lg.adapters.messages import MARK, newest_reply


def _give_up(reason: str) -> str:
    """End the task when nothing is left to try. Say what is missing and why."""
    return f"The run ends here: {reason}"


def _ask_user(question: str) -> str:
    """Ask the person a question that only they can answer, and wait for the answer."""
    return question


give_up: BaseTool = tool("give_up")(_give_up)
ask_user: BaseTool = tool("ask_user")(_ask_user)

TOOLS: Mapping[str, BaseTool] = {"give_up": give_up, "ask_user": ask_user}
"""The tools by name."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "loop": ("hint", "stop"),
    "budget": ("raise_budget", "stop"),
}
"""What a person can answer beside plain text, by the reason of the question. Whatever
is answered to a used budget, but `stop`, grants the run another one."""


def offers_leave(tools: Mapping[str, BaseTool] | None) -> bool:
    """Whether `give_up` is the guard's, and not a tool of the app's own."""
    return tools is not None and tools.get("give_up") is give_up


def asked(
    call: Mapping[str, Any], messages: Sequence[BaseMessage], *, resumable: bool
) -> ToolMessage:
    """The result of a call of `ask_user`: interrupts, and returns with the answer.

    The payload of the interrupt is `{"type", "question", "choices", "report"}`; the
    `report` is the exit report if it is the guard who asks. The answer is text, or an
    object `{"choice": one of the choices, "text": ...}`.
    """
    if not resumable:
        return _result(call, prompts.nobody(), status="error")
    reply, _ = newest_reply(messages)
    report = reply.response_metadata.get(KEY) if reply is not None else None
    answer = interrupt(
        {
            "type": "loopguard_ask_user",
            "question": str(call["args"].get("question", "")),
            "choices": list(CHOICES.get(report["reason"], ())) if report else [],
            "report": report,
        }
    )
    result = _result(call, answer_text(answer))
    result.response_metadata[MARK] = {"choice": _chosen(answer)}
    return result


def _result(
    call: Mapping[str, Any], text: str, status: Literal["success", "error"] = "success"
) -> ToolMessage:
    return ToolMessage(
        text, name=call["name"], tool_call_id=call["id"] or "", status=status
    )


_ALL = frozenset(choice for choices in CHOICES.values() for choice in choices)


def choice_of(result: ToolMessage) -> str | None:
    """What the person chose, where it was more than words."""
    mark = result.response_metadata.get(MARK)
    choice = mark.get("choice") if isinstance(mark, Mapping) else None
    return choice if isinstance(choice, str) else None


def _chosen(answer: Any) -> str | None:
    """The choice in an answer: `stop`, `{"choice": "stop"}` or `{"type": "stop"}`."""
    found = answer
    if isinstance(answer, Mapping):
        found = answer.get("choice", answer.get("type"))
    word = found.strip().lower() if isinstance(found, str) else ""
    return word if word in _ALL else None


def answer_text(answer: Any) -> str:
    """A person's answer as text, whatever shape it came in; nothing of it is lost."""
    if not isinstance(answer, Mapping):
        return str(answer)
    parts = [answer[key] for key in ("choice", "type", "text") if answer.get(key)]
    known = len(parts) == len(answer)
    return ": ".join(map(str, parts)) if known else json.dumps(answer, default=str)

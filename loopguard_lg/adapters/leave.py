"""The tools by which a model leaves by itself: `give_up` and `ask_user`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.types import interrupt

from loopguard_lg import prompts
from loopguard_lg.adapters import asking
from loopguard_lg.adapters.exits import KEY
from loopguard_lg.adapters.messages import MARK, mark_of, newest_reply
from loopguard_lg.quoting import plain
from loopguard_lg.redaction import masked


def _give_up(reason: str) -> str:
    """End the task when nothing is left to try. Say what is missing and why."""
    return f"The run ends here: {reason}"


def _ask_user(question: str) -> str:
    """Ask the person a question that only they can answer, and wait for the answer."""
    return question


give_up: BaseTool = tool("give_up")(_give_up)
give_up.tags = ["exit"]  # so that the engine, and a replay, tell it from an app's own
ask_user: BaseTool = tool("ask_user")(_ask_user)

TOOLS: Mapping[str, BaseTool] = {"give_up": give_up, "ask_user": ask_user}
"""The tools by name."""


def offers_leave(tools: Mapping[str, BaseTool] | None) -> bool:
    """Whether `give_up` is the guard's, and not a tool of the app's own."""
    return tools is not None and tools.get("give_up") is give_up


def asked(
    call: Mapping[str, Any], messages: Sequence[BaseMessage], *, resumable: bool
) -> ToolMessage:
    """The result of a call of `ask_user`: interrupts, and returns with the answer."""
    if not resumable:
        return _result(call, prompts.nobody(), status="error")
    reply, _ = newest_reply(messages)
    report = reply.response_metadata.get(KEY) if reply is not None else None
    offered = mark_of(reply).get("choices", ()) if report else ()
    question = masked(plain(str(call["args"].get("question", ""))))
    answer = _answer(question, offered, report)
    result = _result(call, answer.text)
    result.response_metadata[MARK] = {"choice": answer.choice, "to": answer.to}
    return result


def _answer(
    question: str, offered: Sequence[str], report: Mapping[str, Any] | None
) -> asking.Answer:
    """The first answer that can be carried out: after another one it is asked again.

    Answers are kept with the checkpoint in the order of the questions, so that each
    time the node runs again it comes to the same place.
    """
    again = ""
    while True:
        request = asking.request(f"{question}{again}", offered, report)
        answer = asking.read(interrupt(request), offered)
        if answer.clear:
            return answer
        again = f"\n{prompts.unclear(masked(plain(answer.text)), offered)}"


def _result(
    call: Mapping[str, Any], text: str, status: Literal["success", "error"] = "success"
) -> ToolMessage:
    return ToolMessage(
        text, name=call["name"], tool_call_id=call["id"] or "", status=status
    )


def choice_of(result: ToolMessage) -> str | None:
    """What the person chose, where it was more than words."""
    mark = result.response_metadata.get(MARK)
    choice = mark.get("choice") if isinstance(mark, Mapping) else None
    return choice if isinstance(choice, str) else None


def raised_to(result: ToolMessage) -> float | None:
    """What the person raised a budget to, if it was to an amount."""
    to = mark_of(result).get("to")
    return to if isinstance(to, int | float) else None

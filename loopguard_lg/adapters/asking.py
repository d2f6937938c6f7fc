"""A question to a person: what is shown, and which answers there are.

The payload has the shape of LangChain's human-in-the-loop requests, so that an inbox
made for those shows it, and answers of that shape are understood.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopguard_lg import prompts
from loopguard_lg.ladder import Escalate
from loopguard_lg.policy import Policy

_BY_REASON = {
    "loop": ("hint", "rollback", "change_model", "stop"),
    "budget": ("raise_budget", "stop"),
}
_ALL = frozenset(choice for choices in _BY_REASON.values() for choice in choices)
_YES = frozenset(
    {"yes", "y", "yes please", "yeah", "yep", "ok", "okay", "sure", "true"}
    | {"go on", "yes go on", "go ahead", "yes go ahead", "continue", "proceed"}
    | {"carry on", "keep going", "approve", "approved", "granted"}
    | {"raise budget", "raise the budget", "raise it"}
)
"""All of a text that says yes to spending more; another one may mean no."""


def choices(policy: Policy, reason: str) -> list[str]:
    """What a person can answer beside plain text, by the reason of the question.

    A used budget is granted once more only by a choice, an amount or a plain yes.
    """
    rungs = policy.ladder.rungs
    able = any(isinstance(r, Escalate) and r.model is not None for r in rungs)
    offered = _BY_REASON.get(reason, ())
    return [choice for choice in offered if able or choice != "change_model"]


def request(
    question: str, offered: Sequence[str], report: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The value of the interrupt.

    Args:
        question: What is asked.
        offered: The choices beside plain text; none where the model asks.
        report: The exit report as it would be, if it is the guard who asks.
    """
    args = {"question": question}
    allowed = ["respond"]
    if offered:
        args |= {"choice": offered[0], "text": ""}
        allowed += ["edit", "approve", "reject"]
    description = prompts.inquiry(question, report) if report else question
    return {
        "type": "loopguard_ask_user",
        "question": question,
        "choices": [*offered],
        "report": report,
        "action_requests": [
            {"name": "ask_user", "args": args, "description": description}
        ],
        "review_configs": [
            {
                "action_name": "ask_user",
                "allowed_decisions": allowed,
                "args_schema": _form(offered),
            }
        ],
        "answer_schema": _schema(offered, allowed),
    }


def _form(offered: Sequence[str]) -> dict[str, Any]:
    """The schema of an answer with a choice."""
    fields: dict[str, Any] = {"text": {"type": "string"}}
    if offered:
        fields["choice"] = {"enum": [*offered]}
    if "raise_budget" in offered:
        fields["to"] = {"type": "number", "exclusiveMinimum": 0}
    required = ["choice"] if offered else ["text"]
    return {"type": "object", "properties": fields, "required": required}


def _schema(offered: Sequence[str], allowed: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of all answers."""
    edited = {
        "type": "object",
        "properties": {"name": {"const": "ask_user"}, "args": _form(offered)},
        "required": ["args"],
    }
    decision = {
        "type": "object",
        "properties": {
            "type": {"enum": [*allowed]},
            "message": {"type": "string"},
            "edited_action": edited,
        },
        "required": ["type"],
    }
    one = {"type": "array", "items": decision, "minItems": 1, "maxItems": 1}
    decided = {
        "type": "object",
        "properties": {"decisions": one},
        "required": ["decisions"],
    }
    return {"anyOf": [{"type": "string"}, _form(offered), decided]}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person answered.

    Attributes:
        text: All of it as text, as the model reads it.
        choice: What was chosen, where it was more than words.
        to: What a budget is to be raised to; `None`: once more what it was.
        clear: Whether it can be carried out; where not, the person is asked again.
    """

    text: str
    choice: str | None = None
    to: float | None = None
    clear: bool = True


def read(answer: Any, offered: Sequence[str]) -> Answer:
    """A person's answer, whatever shape it came in; nothing of it is lost.

    Words are a hint, but never money: to a used budget only a choice, an amount or a
    plain yes is clear.

    Args:
        answer: Text, `{"choice": ..., "text": ...}`, or decisions of the
            human-in-the-loop shape.
        offered: The choices that there were; none where the model asked.
    """
    plain = _plain(answer, offered)
    text, to = _text(plain), _raised(plain)
    chosen = _choice(plain, to, offered)
    if chosen not in offered:
        words = chosen is None and "raise_budget" not in offered
        return Answer(text, clear=words or not offered)
    lacks = to is None and _names_amount(plain)
    return Answer(text, chosen, to, clear=chosen != "raise_budget" or not lacks)


def _plain(answer: Any, offered: Sequence[str]) -> Any:
    """The answer without the shape of a decision."""
    found = _decision(answer)
    match found:
        case {"type": "edit"}:
            return _edited(found)
        case {"type": "respond"}:
            return found.get("message") or ""
        case {"type": ("reject" | "approve") as kind}:
            return _reviewed(kind, found.get("message") or "", offered)
    return found


def _reviewed(kind: str, message: str, offered: Sequence[str]) -> Any:
    """What a yes or a no means to a question: its first choice, or to stop."""
    if not offered:
        return message or kind
    choice = "stop" if kind == "reject" else offered[0]
    return {"choice": choice, "text": message}


def _decision(answer: Any) -> Any:
    """The only decision in an answer, or the answer."""
    match answer:
        case {"decisions": list([only])}:
            return only
    return answer


def _edited(decision: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a person made of the question's arguments; all of it where it is odd."""
    action = decision.get("edited_action")
    args = action.get("args") if isinstance(action, Mapping) else None
    if not isinstance(args, Mapping):
        return decision
    return {key: value for key, value in args.items() if key != "question"}


def _chosen(answer: Any) -> str | None:
    """The choice in an answer: `stop`, `{"choice": "stop"}` or `{"type": "stop"}`.

    What a form sends as a choice is one, known or not; a text is only if it is known.
    """
    if isinstance(answer, Mapping):
        found = answer.get("choice")
        if found not in (None, ""):
            return str(found).strip().lower()
        answer = answer.get("type")
    word = answer.strip().lower() if isinstance(answer, str) else ""
    return word if word in _ALL else None


def _choice(answer: Any, to: float | None, offered: Sequence[str]) -> str | None:
    """What was chosen; to a used budget an amount or a plain yes chooses as well."""
    chosen = _chosen(answer)
    grants = chosen is None and "raise_budget" in offered and _grants(answer, to)
    return "raise_budget" if grants else chosen


def _grants(answer: Any, to: float | None) -> bool:
    """Is an answer without a choice a plain yes, or an amount and no more?"""
    words = answer.get("text") if isinstance(answer, Mapping) else answer
    if to is not None and (words is answer or not words):
        return True
    said = str(words).casefold().replace(",", " ").strip(" \n.!")
    return " ".join(said.split()) in _YES and not _names_amount(answer)


def _names_amount(answer: Any) -> bool:
    """Does a form give an amount, right or wrong?"""
    return isinstance(answer, Mapping) and answer.get("to") not in (None, "")


def _raised(answer: Any) -> float | None:
    """The amount in an answer, or the number that it is; a form may send it as text."""
    try:
        to = float(answer["to"] if isinstance(answer, Mapping) else answer)
    except (TypeError, KeyError, ValueError, OverflowError):
        return None
    known = not isinstance(answer, bool) and 0 < to < math.inf
    return to if known else None


def _text(answer: Any) -> str:
    if not isinstance(answer, Mapping):
        return str(answer)
    keys = ("choice", "type", "to", "text")
    parts = [answer[key] for key in keys if answer.get(key)]
    known = {*keys} >= answer.keys()
    return ": ".join(map(str, parts)) if known else json.dumps(answer, default=str)

"""Asking a chat model for a judgement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from loopguard_lg.analysis.judge import SCHEMA, SYSTEM, Ask
from loopguard_lg.deadlines import Aside
from loopguard_lg.errors import LoopGuardError

_AT_ONCE = 16
"""Most questions at once; one without an answer keeps its thread."""


def asking(model: Any, seconds: float = 300.0) -> Ask:
    """A function that puts a question to `model` and gives its structured answer.

    Args:
        model: A chat model, or the name of one as `init_chat_model` takes it.
        seconds: How long it may take for an answer.

    Raises:
        LoopGuardError: There is no such model, or, by the function, it fails, or does
            not answer in time.
    """
    chat = _made(model) if isinstance(model, str) else model
    if not isinstance(chat, BaseChatModel):
        raise LoopGuardError(f"{model!r} is no chat model")
    structured = chat.with_structured_output(dict(SCHEMA))
    aside = Aside(_AT_ONCE)

    def ask(question: str) -> Mapping[str, Any]:
        messages = [SystemMessage(SYSTEM), HumanMessage(question)]
        try:
            asked: Callable[[], Any] = partial(structured.invoke, messages)
            answer = aside.in_time(asked, seconds)
        except ValueError as error:  # what came back is no JSON, or of another shape
            return {"reason": str(error)}
        except Exception as error:
            problem = " ".join(str(error).split())[:300]
            raise LoopGuardError(f"the judge failed: {problem}") from error
        return answer if isinstance(answer, Mapping) else {"reason": str(answer)}

    return ask


def _made(name: str) -> Any:
    from langchain.chat_models import init_chat_model

    try:
        return init_chat_model(name, temperature=0)
    except Exception as error:
        problem = " ".join(str(error).split())[:300]
        raise LoopGuardError(f"{name!r} can't be made: {problem}") from error

"""Where a run stands, read off its messages: goal, open items, files, good point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from loopguard_lg.adapters.messages import (
    is_word,
    mark_of,
    pair,
    step_of,
    text_of,
)
from loopguard_lg.memory import Memory
from loopguard_lg.progress import todos_done
from loopguard_lg.roles import read_use
from loopguard_lg.scratchpad import quote
from loopguard_lg.steps import Step

_GOAL = 600
"""Most characters of what the person asked for."""
_FILES = 40
"""Most files that are listed, the newest."""
_OPEN = 20
"""Most items of the plan that are listed."""
_MESSAGES = 1_000
"""Messages that are looked at, the newest."""


def standing(memory: Memory, messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """What an exit report says of where a run stands, beside its scratchpad."""
    steps = [*_steps(messages)]
    good = memory["host"].get("good") or [[0, None]]
    return {
        "goal": _goal(messages),
        "open": _open(steps),
        "files": _files(steps, messages),
        "good": good[-1][1],
    }


def _goal(messages: Sequence[BaseMessage]) -> str:
    """What the person said last: answers to questions of the run are not said so."""
    word = next((m for m in reversed(messages) if is_word(m)), None)
    return quote(text_of(word), _GOAL) if word is not None else ""


def _steps(messages: Sequence[BaseMessage]) -> Iterator[Step]:
    """The calls that worked, newest first."""
    results: list[ToolMessage] = []
    for message in reversed(messages[-_MESSAGES:]):
        if isinstance(message, ToolMessage):
            results.insert(0, message)
        elif isinstance(message, AIMessage):
            for call, result in reversed(pair(message, results)):
                if result is not None and result.status != "error":
                    yield step_of(call, result, mark_of(result), None)
            results = []


def _files(steps: Sequence[Step], messages: Sequence[BaseMessage]) -> list[str]:
    """The files that calls named as written, or that were seen to change."""
    found: dict[str, None] = {}
    for step in steps:
        use = read_use(step, None)
        if use.role == "write" and use.path and not step.blocked:
            found[quote(use.path, 200)] = None
    for message in reversed(messages):
        for path, *_ in mark_of(message).get("touched", ()):
            found[quote(path, 200)] = None
    return [*found][:_FILES]


def _open(steps: Sequence[Step]) -> list[str]:
    """The items of the newest plan that are not ticked off."""
    for step in steps:
        if read_use(step, None).role != "plan":
            continue
        items = next((v for v in step.args.values() if isinstance(v, list)), None)
        if items is not None:
            open_ = [_item(item) for item in items if not _is_done(item)]
            return [text for text in open_ if text][:_OPEN]
    return []


def _item(item: Any) -> str:
    if not isinstance(item, Mapping):
        return quote(str(item), 160)
    named = (item.get(key) for key in ("content", "task", "text", "title", "step"))
    return quote(str(next(filter(None, named), "")), 160)


def _is_done(item: Any) -> bool:
    return todos_done({"": [item]}) > 0

"""Trajectories of mini-SWE-agent (`.traj.json`): chat messages, one shell command each.

Up to version 1 a reply holds the command in a fenced block and the next message what
came of it, in `<returncode>` and `<output>`; later ones call tools like any chat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from loopguard_lg.traces.formats import openai
from loopguard_lg.traces.formats.base import (
    Call,
    Fields,
    Format,
    Item,
    Reply,
    Word,
    answered,
    known,
    listed,
    mapping,
    real,
    text_of,
    whole,
)
from loopguard_lg.traces.formats.swe_agent import run_in

_FENCED = re.compile(r"```(?:bash|sh|mswea_bash_command)\s*\n(.*?)\n?```", re.DOTALL)
_CODE = re.compile(r"<returncode>\s*(-?\d+)")


def _matches(record: Any) -> bool:
    outer = mapping(record)
    kind = outer.get("trajectory_format")
    named = isinstance(kind, str) and kind.startswith("mini-swe-agent")
    return "messages" in outer and (
        named or "mini_version" in mapping(outer.get("info"))
    )


def _read(records: Sequence[Any], key: str) -> Fields:
    record = mapping(records[0])
    messages = [*map(mapping, listed(record.get("messages")))]
    return run_in(record, key, _items(messages), source="mini_swe_agent")


def _items(messages: Sequence[Fields]) -> Iterator[Item]:
    waiting = False
    for message in messages:
        text = text_of(message.get("content"))
        match message.get("role"):
            case "assistant":
                calls = openai.calls_of(message) or _commands(message, text)
                waiting = bool(calls)
                yield Reply(text=text, calls=calls, about=_about(message))
            case "user" if not (waiting and _answers(message, text)):
                yield Word(text=text)
            case "user" | "tool":
                yield answered(
                    message.get("tool_call_id"), text, _failed(message, text)
                )


def _commands(message: Fields, text: str) -> list[Call]:
    actions = listed(mapping(message.get("extra")).get("actions"))
    found = [mapping(action).get("command") for action in actions]
    commands = [*filter(None, found)] or _FENCED.findall(text)
    return [Call(tool="bash", args={"command": command}) for command in commands]


def _about(message: Fields) -> dict[str, Any]:
    extra = mapping(message.get("extra"))
    return {
        **openai.usage_of(mapping(extra.get("response"))),
        **known(cost=real(extra.get("cost"))),
    }


def _answers(message: Fields, text: str) -> bool:
    """Whether it is what came of a command, and no word of a person's."""
    return "returncode" in mapping(message.get("extra")) or bool(
        _CODE.search(text) or "<output>" in text or "<exception>" in text
    )


def _failed(message: Fields, text: str) -> bool | None:
    code = whole(mapping(message.get("extra")).get("returncode"))
    if code is None and (found := _CODE.search(text)):
        code = whole(found[1])
    return None if code is None else code != 0


FORMAT = Format("a mini-SWE-agent trajectory", _matches, _read)

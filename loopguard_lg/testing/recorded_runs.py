"""The runs of agents that recorded model traffic tells of.

Every request to a chat model repeats what was said before, so a run can be read off its
requests: each adds the newest reply and what came of its calls.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from loopguard_lg import prompts
from loopguard_lg.acts.advisors import MARKER
from loopguard_lg.errors import TraceFormatError
from loopguard_lg.testing import bodies
from loopguard_lg.traces.formats import format_of
from loopguard_lg.traces.model import Trajectory, from_dict
from loopguard_lg.traces.readers import read

_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".yaml")


def runs_below(path: str | os.PathLike[str]) -> Iterator[Trajectory]:
    """The runs of a file, or of all files below a folder.

    Files are recordings of runs, of any format that `loopguard check` reads, or of
    model traffic (`.yaml`); in a folder, those that end in `.jsonl`, `.jsonl.gz`,
    `.json` or `.yaml`.

    Raises:
        TraceFormatError: One can't be read.
        FileNotFoundError: There is no such file.
    """
    top = Path(path)
    files = sorted(p for p in top.rglob("*") if p.name.endswith(_SUFFIXES))
    for file in files if top.is_dir() else [top]:
        if file.suffix == ".yaml":
            yield from conversations(file)
            continue
        for run in read(file):
            if isinstance(run, TraceFormatError):
                raise run
            yield run


def conversations(path: str | os.PathLike[str]) -> Iterator[Trajectory]:
    """The runs in a file of recorded model traffic, in the order in which they begin.

    Requests belong to one run that begin with the same messages; one that has no more
    than these, and no note of the guard's, begins another. What the guard said is left
    out. Of what it took back from the model's view, the last turn is not known.

    Raises:
        TraceFormatError: The file holds no recorded traffic.
    """
    name = f"{Path(path).parent.name}/{Path(path).stem}"
    found = _talks(path)
    for number, talk in enumerate(found, 1):
        form = format_of(talk.record)
        if form is not None:
            said = form.read([talk.record], name)
            own = name if len(found) == 1 else f"{name}#{number}"
            yield from_dict({**said, "id": own})


def _talks(path: str | os.PathLike[str]) -> list[_Talk]:
    """The runs, those with one opening together."""
    known: dict[str, list[_Talk]] = {}
    for asked, gave in _exchanges(path):
        talks = known.setdefault(_opening(asked), [])
        if not talks or talks[-1].is_over(asked):
            talks.append(_Talk(asked))
        talks[-1].take(asked, gave)
    return [talk for talks in known.values() for talk in talks]


class _Talk:
    """A run, as far as its requests have told."""

    def __init__(self, first: Mapping[str, Any]) -> None:
        self._first = len(_messages(first))
        self._said: list[Any] = []
        self.record: dict[str, Any] = {}

    def is_over(self, asked: Mapping[str, Any]) -> bool:
        """Whether a request with the same opening begins another run."""
        fresh = not any(map(_is_note, asked["messages"]))
        return fresh and len(_messages(asked)) <= self._first

    def take(self, asked: Mapping[str, Any], gave: Any) -> None:
        """Add what a request tells that is new, and its response for the end."""
        self._said += _news(_messages(asked), self._said)
        request = {**asked, "messages": self._said}
        self.record = {"request": request, "response": gave}


def _news(messages: list[Any], said: list[Any]) -> list[Any]:
    """The newest reply of a request with what follows it, unless it is said already."""
    replies = [n for n, m in enumerate(messages) if m.get("role") == "assistant"]
    news = messages[replies[-1] :] if said and replies else messages
    if said and news[0] in said:
        news = [message for message in news if message not in said]
    return news


def _exchanges(path: str | os.PathLike[str]) -> Iterator[tuple[Any, Any]]:
    """Requests that hold messages, each with its response as far as that is JSON."""
    try:
        found = [*bodies.load(Path(path).read_text("utf-8"))["interactions"]]
    except (KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        problem = f"this is no recorded traffic ({error})"
        raise TraceFormatError(str(path), 1, problem) from None
    for each in found:
        asked = each["request"]["body"].get("json")
        if isinstance(asked, dict) and isinstance(asked.get("messages"), list):
            yield asked, each["response"]["body"].get("json") or {}


def _opening(asked: Mapping[str, Any]) -> str:
    """What the requests of a run have in common: all up to the first question."""
    messages = _messages(asked)
    users = [n for n, m in enumerate(messages) if m.get("role") == "user"]
    return repr((asked.get("system"), messages[: users[0] + 1 if users else 1]))


def _messages(asked: Mapping[str, Any]) -> list[Any]:
    """The messages without what the guard said."""
    found = [message for message in asked["messages"] if isinstance(message, dict)]
    return [_without_advice(message) for message in found if not _is_note(message)]


def _is_note(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    text = message.get("content")
    told = isinstance(text, str) and text.startswith(MARKER.strip())
    user = message.get("role") == "user"
    return user and (message.get("name") == prompts.NAME or told)


def _without_advice(message: Mapping[str, Any]) -> Mapping[str, Any]:
    text = message.get("content")
    if not isinstance(text, str) or message.get("role") != "tool":
        return message
    return {**message, "content": text.partition(MARKER)[0]}

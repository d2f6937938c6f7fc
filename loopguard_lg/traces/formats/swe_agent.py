"""Trajectories of SWE-agent (`.traj`): `trajectory` with an action and what came back.

A tool is named by the first word of the action, as SWE-agent's commands are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from loopguard_lg.traces.formats.base import (
    Answer,
    Call,
    Fields,
    Format,
    Item,
    Reply,
    known,
    listed,
    mapping,
    real,
    run_of,
    string,
    text_of,
)


def _matches(record: Any) -> bool:
    steps = listed(mapping(record).get("trajectory"))
    return bool(steps) and "action" in mapping(steps[0])


def _read(records: Sequence[Any], key: str) -> Fields:
    record = mapping(records[0])
    found = _items(listed(record.get("trajectory")))
    return run_in(record, key, found, source="swe_agent")


def run_in(record: Fields, key: str, found: Iterable[Item], source: str) -> Fields:
    """The run of items, with what the file that holds them says of it."""
    info = mapping(record.get("info"))
    return run_of(
        string(record.get("instance_id")) or key,
        found,
        source=source,
        model=_model_of(record),
        success=_solved(record, info),
        exit_status=string(info.get("exit_status")),
    )


def _model_of(record: Fields) -> str | None:
    """The model by the settings of the run, where the file holds them."""
    settings = mapping(mapping(record.get("info")).get("config"))
    for outer in (settings, mapping(record.get("replay_config"))):
        for inner in (outer, mapping(outer.get("agent"))):
            model = mapping(inner.get("model"))
            if name := string(model.get("name") or model.get("model_name")):
                return name
    return None


def _solved(record: Fields, info: Fields) -> bool | None:
    """Whether the tests of the task passed, where somebody has noted it."""
    found = (record.get("resolved"), info.get("resolved"), record.get("target"))
    return next((value for value in found if isinstance(value, bool)), None)


def _items(steps: Sequence[Any]) -> Iterator[Item]:
    for step in map(mapping, steps):
        action = text_of(step.get("action")).strip()
        text = string(step.get("thought")) or text_of(step.get("response"))
        tool = action.split(maxsplit=1)[0] if action else ""
        calls = [Call(tool=tool, args={"command": action})] if action else []
        yield Reply(text=text, calls=calls)
        if action:
            seconds = real(step.get("execution_time"))
            result = text_of(step.get("observation"))
            about = known(seconds=seconds, state=_state(step.get("state")))
            yield Answer(text=result, about=about)


def _state(state: Any) -> str | None:
    """The state of the shell, which says more than nothing where it is an object."""
    return text_of(state) if isinstance(state, dict) and "diff" in state else None


FORMAT = Format("a SWE-agent trajectory", _matches, _read)

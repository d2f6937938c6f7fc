"""How a recording is written down, so that people can read it and its diffs.

JSON bodies stand as nested YAML, event streams as one event a line, all else as text.
Reading a file back gives bodies that mean the same to a client.
"""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BaseDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_UNFIT_FOR_BLOCKS = re.compile("[\r\t\x85\u2028\u2029]| \n|^[ \n]")


class _Event(dict[str, Any]):
    """One event of a stream; written on a line of its own."""


class _Dumper(_BaseDumper):  # type: ignore[misc]
    """Writes texts of several lines as blocks, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """A repeated message is written out each time, as it was sent."""
        return True


def _text_node(dumper: Any, text: str) -> Any:
    block = "\n" in text and not _UNFIT_FOR_BLOCKS.search(text)
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if block else None
    )


def _event_node(dumper: Any, event: _Event) -> Any:
    return dumper.represent_mapping("tag:yaml.org,2002:map", event, flow_style=True)


_Dumper.add_representer(str, _text_node)
_Dumper.add_representer(_Event, _event_node)


def serialize(recording: dict[str, Any]) -> str:
    """The text of a recording; vcrpy's serializer interface."""
    interactions = [
        {
            "request": each["request"] | {"body": fold(each["request"]["body"])},
            "response": each["response"]
            | {"body": fold(each["response"]["body"].get("string"))},
        }
        for each in recording["interactions"]
    ]
    return str(
        yaml.dump(
            recording | {"interactions": interactions},
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=1_000_000,
        )
    )


def deserialize(text: str) -> dict[str, Any]:
    """The recording in a text; vcrpy's serializer interface."""
    recording = load(text)
    for each in recording["interactions"]:
        each["request"]["body"] = unfold(each["request"]["body"])
        each["response"]["body"] = {"string": unfold(each["response"]["body"])}
    return recording


def load(text: str) -> dict[str, Any]:
    """A recording as it stands in its file, with readable bodies."""
    recording: dict[str, Any] = yaml.load(text, Loader=_Loader)  # noqa: S506  # safe
    return recording


def fold(body: str | bytes | None) -> dict[str, Any]:
    """The readable form: `{"json": ...}`, `{"events": [...]}` or `{"text": ...}`."""
    if not isinstance(body, str):
        return {"text": body}
    if (value := _structure(body)) is not None:
        return {"json": value}
    if (events := _events(body)) is not None:
        return {"events": events}
    return {"text": body}


def unfold(body: dict[str, Any]) -> str | bytes | None:
    """The body that `fold` was given, up to white space and escapes in JSON."""
    if "json" in body:
        return _json(body["json"])
    if "events" in body:
        return "".join(map(_frame, body["events"]))
    return body["text"]  # type: ignore[no-any-return]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _structure(text: str) -> Any:
    """The object or list that `text` is; `None` where YAML would not keep it."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = json.loads(text)
        _json(value).encode()
    except ValueError:
        return None
    return value


def _events(text: str) -> list[_Event] | None:
    frames = text.replace("\r\n", "\n").split("\n\n")
    if frames.pop() != "":
        return None
    events = [_event(frame) for frame in frames]
    return None if None in events or not events else events  # type: ignore[return-value]


def _event(frame: str) -> _Event | None:
    """The fields of one event; `None` where a list of fields can't hold it."""
    lines = [line.partition(": ") for line in frame.split("\n")]
    fields = {name: value for name, colon, value in lines if colon}
    if len(fields) < len(lines) or not all(map(str.isidentifier, fields)):
        return None
    return _Event({name: _read(value) for name, value in fields.items()})


def _read(value: str) -> Any:
    found = _structure(value)
    return value if found is None else found


def _frame(event: dict[str, Any]) -> str:
    lines = (
        f"{name}: {value if isinstance(value, str) else _json(value)}\n"
        for name, value in event.items()
    )
    return "".join(lines) + "\n"

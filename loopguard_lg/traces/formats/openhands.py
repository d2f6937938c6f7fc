"""Event logs of OpenHands: `action` and `observation` events, or events with a `kind`.

The first are of the app (up to version 0.x, one list, or `history` of an evaluation's
output line), the second of its agent SDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from loopguard_lg.traces.formats.base import (
    Answer,
    Call,
    Cut,
    Fields,
    Format,
    Item,
    Reply,
    Word,
    known,
    listed,
    mapping,
    moment,
    real,
    run_of,
    string,
    text_of,
    tokens,
)

_PASSIVE = frozenset(
    {"system", "message", "change_agent_state", "null", "recall", "condensation"}
)
"""Actions that are no calls of a tool's."""

_ASIDE = frozenset({"agent_state_changed", "null", "recall", "condense", "success"})
"""Observations that answer no call."""
_KINDS = ("Event", "Condensation", "Observation", "CondensationRequest")
"""What kinds of events of the SDK end with."""


def is_event(record: Any) -> bool:
    """Is it an event of one of the two kinds?"""
    event = mapping(record)
    old = ("action" in event or "observation" in event) and "source" in event
    kind = event.get("kind")
    return old or (isinstance(kind, str) and kind.endswith(_KINDS))


def _holds(record: Any) -> bool:
    found = listed(mapping(record).get("history"))
    return any(map(is_event, found[:4]))


def _read_output(records: Sequence[Any], key: str) -> Fields:
    """One line of an evaluation's output."""
    record = mapping(records[0])
    name = string(record.get("instance_id")) or key
    report = mapping(mapping(record.get("test_result")).get("report"))
    done = report.get("resolved")
    settings = mapping(mapping(record.get("metadata")).get("llm_config"))
    return run_of(
        name,
        _items(listed(record.get("history"))),
        source="openhands",
        model=string(settings.get("model")),
        success=done if isinstance(done, bool) else None,
    )


def _read(records: Sequence[Any], key: str) -> Fields:
    return run_of(key, _items(records), source="openhands")


def _items(events: Sequence[Any]) -> Iterator[Item]:
    flat = [inner for e in events for inner in (e if isinstance(e, list) else [e])]
    began = next((t for e in flat if (t := moment(mapping(e).get("timestamp")))), None)
    held: list[Fields] = []  # actions of one reply: a parallel batch
    for event in map(mapping, flat):
        if held and _reply_id(event) != _reply_id(held[0]):
            yield _reply(held, began)
            held = []
        if event.get("kind") == "ActionEvent":
            held.append(event)
        elif "kind" in event:
            yield from _of_kind(event)
        else:
            yield from _of_app(event, began)
    if held:
        yield _reply(held, began)


def _reply_id(event: Fields) -> Any:
    id_ = event.get("llm_response_id") or event.get("id")
    return (event.get("kind"), id_)


def _reply(events: Sequence[Fields], began: float | None) -> Reply:
    calls = [
        Call(
            tool=str(event.get("tool_name") or "unknown"),
            args=_arguments(event),
            id=str(event.get("tool_call_id") or ""),
        )
        for event in events
    ]
    text = text_of(events[0].get("thought"))
    return Reply(text=text, calls=calls, about=_since(events[0], began))


def _arguments(event: Fields) -> Any:
    """The arguments, as the model gave them where they are kept."""
    function = mapping(mapping(event.get("tool_call")).get("function"))
    given = function.get("arguments") or mapping(event.get("tool_call")).get(
        "arguments"
    )
    if given:
        return given
    action = mapping(event.get("action"))
    return {k: v for k, v in action.items() if k != "kind" and v is not None}


def _of_kind(event: Fields) -> Iterator[Item]:
    kind, id_ = event.get("kind"), str(event.get("tool_call_id") or "")
    tool = str(event.get("tool_name") or "")
    if kind == "ObservationEvent":
        seen = mapping(event.get("observation"))
        failed = seen.get("is_error")
        yield Answer(
            id=id_,
            tool=tool,
            text=text_of(seen.get("content") or seen.get("output") or seen),
            error=_code(seen.get("exit_code"), failed),
        )
    elif kind in ("AgentErrorEvent", "UserRejectObservation"):
        text = text_of(event.get("error") or event.get("rejection_reason"))
        yield Answer(id=id_, tool=tool, text=text, error=True)
    elif kind == "Condensation":
        yield Cut()
    elif kind == "MessageEvent":
        text = text_of(mapping(event.get("llm_message")).get("content"))
        user = event.get("source") == "user"
        yield Word(text=text) if user else Reply(text=text)


def _of_app(event: Fields, began: float | None) -> Iterator[Item]:
    action, seen = event.get("action"), event.get("observation")
    args = mapping(event.get("args"))
    if event.get("source") == "user" and action == "message":
        yield Word(text=text_of(args.get("content") or event.get("message")))
    elif action == "condensation":
        yield Cut()
    elif seen is not None:
        yield from _observed(event, str(seen))
    elif event.get("source") == "agent" and action == "message":
        yield Reply(text=text_of(args.get("content")), about=_since(event, began))
    elif event.get("source") == "agent" and action not in _PASSIVE:
        yield _acted(event, args, str(action), began)


def _acted(event: Fields, args: Fields, action: str, began: float | None) -> Reply:
    call = mapping(event.get("tool_call_metadata"))
    given = {
        k: v
        for k, v in args.items()
        if k not in ("thought", "is_input", "confirmation_state") and v is not None
    }
    about = {**_since(event, began), **_usage(call)}
    one = Call(tool=action, args=given, id=str(event.get("id", "")))
    return Reply(text=text_of(args.get("thought")), calls=[one], about=about)


def _usage(call: Fields) -> dict[str, Any]:
    response = mapping(call.get("model_response"))
    usage = mapping(response.get("usage"))
    spent = tokens(usage.get("prompt_tokens"), usage.get("completion_tokens"))
    return known(model=string(response.get("model")), tokens=spent)


def _observed(event: Fields, seen: str) -> Iterator[Item]:
    if seen in _ASIDE or event.get("cause") is None:
        return
    extras = mapping(event.get("extras"))
    code = mapping(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
    failed = _code(code, True if seen == "error" else None)
    text = text_of(event.get("content"))
    yield Answer(id=str(event["cause"]), tool=seen, text=text, error=failed)


def _code(code: Any, known_: Any) -> bool | None:
    """Did it fail, by an exit code; -1 is of a command that still runs."""
    if isinstance(known_, bool) and known_:
        return True
    number = real(code)
    return None if number is None or number == -1 else number != 0


def _since(event: Fields, began: float | None) -> dict[str, Any]:
    at = moment(event.get("timestamp"))
    if at is None or began is None:
        return {}
    return {"t": round(max(0.0, at - began), 3)}


RUN = Format("an OpenHands output", _holds, _read_output)
EVENTS = Format("OpenHands events", is_event, _read, lambda record: [""])

"""Event logs of OpenHands: `action` and `observation` events, or events with a `kind`.

The first are of the app (up to version 0.x, one list, or `history` of an evaluation's
output line), the second of its agent SDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
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
    answered,
    called,
    first,
    known,
    listed,
    mapping,
    moment,
    real,
    run_of,
    several,
    since,
    string,
    text_of,
    tokens,
    truth,
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
    settings = mapping(mapping(record.get("metadata")).get("llm_config"))
    return run_of(
        name,
        _items(listed(record.get("history"))),
        source="openhands",
        model=string(settings.get("model")),
        success=truth(report.get("resolved")),
    )


def _read(records: Sequence[Any], key: str) -> Fields:
    return run_of(key, _items(records), source="openhands")


def _items(events: Sequence[Any]) -> Iterator[Item]:
    flat = [*map(mapping, chain.from_iterable(map(several, events)))]
    began = first(moment(event.get("timestamp")) for event in flat)
    for (kind, _), group in groupby(flat, _reply_id):
        if kind == "ActionEvent":  # actions of one reply: a parallel batch
            yield _reply([*group], began)
            continue
        for event in group:
            yield from _of_kind(event) if kind else _of_app(event, began)


def _reply_id(event: Fields) -> tuple[Any, Any]:
    id_ = event.get("llm_response_id") or event.get("id")
    return event.get("kind"), id_


def _reply(events: Sequence[Fields], began: float | None) -> Reply:
    calls = [
        called(event.get("tool_name"), _arguments(event), event.get("tool_call_id"))
        for event in events
    ]
    text, at = text_of(events[0].get("thought")), events[0].get("timestamp")
    return Reply(text=text, calls=calls, about=since(began, at))


def _arguments(event: Fields) -> Any:
    """The arguments, as the model gave them where they are kept."""
    call, action = mapping(event.get("tool_call")), mapping(event.get("action"))
    function = mapping(call.get("function"))
    given = first([function.get("arguments"), call.get("arguments")])
    return given or {k: v for k, v in known(**action).items() if k != "kind"}


def _of_kind(event: Fields) -> Iterator[Item]:
    match event.get("kind"), event.get("source"):
        case "ObservationEvent", _:
            seen = mapping(event.get("observation"))
            text = text_of(first([seen.get("content"), seen.get("output"), seen]))
            yield _answer(
                event, text, _code(seen.get("exit_code"), seen.get("is_error"))
            )
        case (("AgentErrorEvent" | "UserRejectObservation"), _):
            why = first([event.get("error"), event.get("rejection_reason")])
            yield _answer(event, text_of(why), True)
        case "Condensation", _:
            yield Cut()
        case "MessageEvent", "user":
            yield Word(text=_said(event))
        case "MessageEvent", _:
            yield Reply(text=_said(event))


def _answer(event: Fields, text: str, failed: bool | None) -> Answer:
    id_, tool = event.get("tool_call_id"), event.get("tool_name")
    return answered(id_, text, failed, tool)


def _said(event: Fields) -> str:
    return text_of(mapping(event.get("llm_message")).get("content"))


def _of_app(event: Fields, began: float | None) -> Iterator[Item]:
    args, timed = mapping(event.get("args")), since(began, event.get("timestamp"))
    match event.get("source"), event.get("action"), event.get("observation"):
        case "user", "message", _:
            yield Word(text=text_of(args.get("content") or event.get("message")))
        case _, "condensation", _:
            yield Cut()
        case _, _, seen if seen is not None:
            yield from _observed(event, str(seen))
        case "agent", "message", _:
            yield Reply(text=text_of(args.get("content")), about=timed)
        case "agent", action, _ if action not in _PASSIVE:
            yield _acted(event, args, str(action), timed)


def _acted(event: Fields, args: Fields, action: str, timed: Fields) -> Reply:
    call = mapping(event.get("tool_call_metadata"))
    given = {
        k: v
        for k, v in args.items()
        if k not in ("thought", "is_input", "confirmation_state") and v is not None
    }
    about = {**timed, **_usage(call)}
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


RUN = Format("an OpenHands output", _holds, _read_output)
EVENTS = Format("OpenHands events", is_event, _read, lambda record: [""])

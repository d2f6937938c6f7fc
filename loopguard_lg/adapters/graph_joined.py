"""What a tool node returned, and the guard's answers, in the order of the calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Command

from loopguard_lg.adapters.graph_state import (
    leaves_graph,
    parts,
    rewritten,
    update_of,
    written,
)

Call = Mapping[str, Any]


def joined(outs: Sequence[Any], key: str, calls: Sequence[Call]) -> Any:
    """What a node returned for each group of calls, in the order of the calls."""
    if len(outs) == 1:
        return outs[0]
    commands = (_command(part, key) for out in outs for part in parts(out))
    single = [one for command in commands for one in _single(command, key)]
    return _in_order(single, lambda part: _id_in(written(part, key)), calls)


def latest(outs: Sequence[Any], key: str, single: Collection[str]) -> list[Any]:
    """What the runs of a node returned, without values that a later run replaces.

    Args:
        outs: What each run returned, in order.
        key: The state key of the messages.
        single: State keys that take one value in a superstep: without a reducer.
    """
    kept: list[Any] = []
    over: set[str] = set()
    for out in reversed(outs):
        kept.append([_without(part, over) for part in parts(out)])
        wrote = {name for part in parts(out) for name in _keys(part)}
        over |= wrote.intersection(single) - {key}
    return kept[::-1]


def _keys(part: Any) -> Collection[str]:
    update = update_of(part)
    return update.keys() if isinstance(update, Mapping) else ()


def _without(part: Any, names: Collection[str]) -> Any:
    """What a node returned, without some keys of the state."""
    if not {*_keys(part)}.intersection(names):
        return part
    update = {k: v for k, v in update_of(part).items() if k not in names}
    return replace(part, update=update) if isinstance(part, Command) else update


def _single(part: Any, key: str) -> Iterator[Any]:
    """What a node wrote with one result in each command, so that they can be sorted."""
    found = written(part, key)
    results = sum(isinstance(message, ToolMessage) for message in found)
    if results < 2 or leaves_graph(part):  # to the parent goes all or nothing
        yield part
        return
    yield rewritten(part, key, lambda messages: messages[:1])
    for message in found[1:]:
        yield Command(update={key: [message]})


def _command(part: Any, key: str) -> Command[Any]:
    if isinstance(part, Command):
        return part
    return Command(update={key: [part]} if isinstance(part, BaseMessage) else part)


def merged(
    out: Any, key: str, answers: Mapping[int, ToolMessage], calls: Sequence[Call]
) -> Any:
    """What a node returned with the guard's answers, by position, among it."""
    if not answers:
        return out
    if isinstance(out, Mapping | Command) and written(out, key):
        return rewritten(
            out, key, lambda found: _in_order(found, _id_of, calls, answers)
        )
    alone: dict[int, Command[Any]] = {
        n: Command(update={key: [answer]}) for n, answer in answers.items()
    }
    single = [one for part in parts(out) for one in _single(part, key)]
    return _in_order(single, lambda part: _id_in(written(part, key)), calls, alone)


def _in_order(
    found: Sequence[Any],
    id_of: Callable[[Any], str | None],
    calls: Sequence[Call],
    answers: Mapping[int, Any] | None = None,
) -> list[Any]:
    """What was found, and the guard's answers, in the order of the calls.

    Calls may share an id: what is found is of those that the guard has not answered,
    in turn.
    """
    given = answers or {}
    first: dict[str | None, int] = {}
    left: dict[str | None, list[int]] = {}
    for n, call in enumerate(calls):
        first.setdefault(call["id"] or "", n)
        left.setdefault(call["id"] or "", []).extend([n] * (n not in given))
    placed = [*given.items()]
    for one in found:
        id_ = id_of(one)
        open_ = left.get(id_)
        place = open_.pop(0) if open_ else first.get(id_, len(calls))
        placed.append((place, one))
    return [one for _, one in sorted(placed, key=lambda pair: pair[0])]


def _id_of(message: BaseMessage) -> str | None:
    return message.tool_call_id if isinstance(message, ToolMessage) else None


def _id_in(found: Sequence[BaseMessage]) -> str | None:
    return next((id_ for id_ in map(_id_of, found) if id_ is not None), None)

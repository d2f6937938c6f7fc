"""The guard's channels in a graph's state, and how guarded parts read that state.

Every guarded node and branch is given the whole state and the guard's channels; the
user's own node then gets exactly what it got without the guard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Annotated, Any, NotRequired, TypeAlias, get_type_hints

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    convert_to_messages,
)
from langgraph.graph import StateGraph
from langgraph.managed.is_last_step import RemainingStepsManager
from langgraph.types import Command, Overwrite, Send
from pydantic import BaseModel
from typing_extensions import TypedDict

from loopguard_lg import budgets
from loopguard_lg.adapters.messages import (
    is_word,
    mark_of,
    newest_reply,
    newest_word,
    pair,
)
from loopguard_lg.budgets import Used
from loopguard_lg.errors import PolicyError
from loopguard_lg.memory import fold

CHANNEL = "loopguard"
"""The state key of the guard's memory."""

BESIDE = "loopguard_beside"
"""The state key of what nodes other than the model's and the tools' have spent."""

REMAINING = "loopguard_remaining"
"""The state key of the supersteps left before the recursion limit."""

SENT = "loopguard_sent"
"""The key under which the argument of a `Send` travels, beside what the guard needs."""

OWN = (CHANNEL, BESIDE, REMAINING)
"""Keys that only the guard sees."""

_SAID = 16
"""Human messages made by nodes that are remembered; an older one is no news."""

State: TypeAlias = Mapping[str, Any]


def add_beside(left: Any, right: Any) -> dict[str, Any]:
    """The reducer of what other nodes have spent; no writer of a step is lost.

    A write is `{"word": id of the run's human word, "spend": used, "step": superstep,
    "said": ids of human messages that a node made}`. The value is
    `{"word", "run": used since that word, "thread": used, "step", "longest", "said"}`.
    Nodes that run side by side count as long as the slowest.
    """
    before: Mapping[str, Any] = left or {}
    same = before.get("step") == right["step"]
    longest = before.get("longest", 0) if same else 0
    spend = dict(right["spend"])
    seconds = spend.pop("seconds", 0)
    if seconds > longest:
        spend["seconds"] = seconds - longest
    run = before.get("run", {}) if before.get("word") == right["word"] else {}
    return {
        "word": right["word"],
        "run": budgets.add(run, spend),
        "thread": budgets.add(before.get("thread", {}), spend),
        "step": right["step"],
        "longest": max(longest, seconds),
        "said": [*before.get("said", ()), *right["said"]][-_SAID:],
    }


def unseen(value: Any, seen: Any, word: str | None) -> dict[str, Used]:
    """What of `value` was spent since `seen`, by scope; `word` begins the run."""
    now: Mapping[str, Any] = value or {}
    before: Mapping[str, Any] = seen or {}
    same_run = before.get("word") == now.get("word")
    run = minus(now.get("run", {}), before.get("run", {}) if same_run else {})
    thread = minus(now.get("thread", {}), before.get("thread", {}))
    return {"run": run if now.get("word") == word else {}, "thread": thread}


def minus(left: Mapping[str, float], right: Mapping[str, float]) -> Used:
    """What is in `left` beyond `right`."""
    parts = {name: amount - right.get(name, 0) for name, amount in left.items()}
    return {name: amount for name, amount in parts.items() if amount}


def wide(builder: StateGraph[Any, Any, Any, Any]) -> type[Any]:
    """A schema with all keys of the graph's state and the guard's own."""
    hints: dict[str, Any] = {}
    for schema in builder.schemas:
        hints |= get_type_hints(schema, include_extras=True)
    known = {k: v for k, v in hints.items() if _is_key(builder, k)}
    own = {
        CHANNEL: NotRequired[Annotated[dict[str, Any], fold]],
        BESIDE: NotRequired[Annotated[dict[str, Any], add_beside]],
        REMAINING: NotRequired[Annotated[int, RemainingStepsManager]],
    }
    made: type[Any] = TypedDict("GuardedState", {**known, **own})  # type: ignore[misc]
    return made


def _is_key(builder: StateGraph[Any, Any, Any, Any], name: str) -> bool:
    return name in builder.channels or name in builder.managed


@dataclass(frozen=True, slots=True)
class Shape:
    """What a node or a branch of the user's reads of the state."""

    schema: type[Any]
    keys: tuple[str, ...]

    @property
    def is_object(self) -> bool:
        """Whether it is given as an object of the schema; else as a dict."""
        return issubclass(self.schema, BaseModel) or is_dataclass(self.schema)

    def of(self, state: State) -> Any:
        """The input as it would be without the guard."""
        values = {key: state[key] for key in self.keys if key in state}
        return self.schema(**values) if self.is_object else values


def shape(builder: StateGraph[Any, Any, Any, Any], schema: type[Any]) -> Shape:
    """What a node with this input schema reads."""
    return Shape(schema, tuple(builder.schemas[schema]))


def reducer(
    builder: StateGraph[Any, Any, Any, Any], key: str
) -> Callable[[Any, Any], Any]:
    """How the messages channel takes an update.

    Raises:
        PolicyError: There is no such channel, or it has no reducer.
    """
    channel = builder.channels.get(key)
    if channel is None:
        known = ", ".join(builder.channels)
        raise PolicyError(
            f"messages_key={key!r}: {builder.state_schema.__name__} has no such key "
            f"(it has {known}). The guard reads the conversation there: add "
            "`messages: Annotated[list, add_messages]`, or name the key that holds it"
        )
    operator: Callable[[Any, Any], Any] | None = getattr(channel, "operator", None)
    if operator is not None:
        return operator
    batch: Callable[[Any, Any], Any] | None = getattr(channel, "reducer", None)
    if batch is not None:
        return lambda old, new: batch(old, [new])
    raise PolicyError(
        f"messages_key={key!r}: it has no reducer, so what a node writes replaces the "
        "conversation, and so would the guard's results: declare it as "
        f"`{key}: Annotated[list, add_messages]`"
    )


def opened(given: Any) -> tuple[State, Any]:
    """The state that the guard reads, and the argument of a `Send` if it came by one.

    Without a `Send` the second is `None`.
    """
    if isinstance(given, Mapping) and SENT in given:
        sent = given[SENT]
        inner = sent if isinstance(sent, Mapping) else {}
        return {**given, **{k: v for k, v in inner.items() if k not in OWN}}, sent
    return (given, None) if isinstance(given, Mapping) else ({}, given)


def enclosed(send: Send, state: State, key: str) -> Send:
    """A `Send` that carries what the guard needs beside its argument."""
    messages = state.get(key) or []
    word = newest_word(messages, made_by_nodes(state), through=True)
    reply, _ = newest_reply(messages)
    return Send(
        send.node,
        {
            SENT: send.arg,
            key: [m for m in (word, reply) if m is not None],
            **{k: state[k] for k in (CHANNEL, BESIDE) if k in state},
        },
    )


def made_by_nodes(state: State) -> Collection[str]:
    """Ids of human messages that nodes wrote."""
    found: Collection[str] = (state.get(BESIDE) or {}).get("said", ())
    return found


def identified(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """The messages with ids, by position where the channel gives none."""
    if all(message.id for message in messages):
        return messages
    return [
        message if message.id else message.model_copy(update={"id": f"at_{n}"})
        for n, message in enumerate(messages)
    ]


def pending(messages: Sequence[BaseMessage], made: Collection[str] = ()) -> list[Any]:
    """The calls of the newest reply that have no result yet; none once a person has
    spoken again: then nobody waits for them.

    Args:
        messages: The messages of the state.
        made: Ids of human messages that are no words of a person's.
    """
    reply, results = newest_reply(messages)
    if reply is None or newest_word(messages, made) is not None:
        return []
    return [call for call, found in pair(reply, results) if found is None]


def parts(out: Any) -> list[Any]:
    """What a node returned, as a list of updates and commands."""
    if out is None:
        return []
    return list(out) if isinstance(out, list | tuple) else [out]


def update_of(part: Any) -> Any:
    """The state update in what a node returned."""
    update = part.update if isinstance(part, Command) else part
    if isinstance(update, list | tuple) and all(_is_pair(u) for u in update):
        return dict(update)
    return update


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)


def written(out: Any, key: str) -> list[BaseMessage]:
    """The messages that a node wrote."""
    return [message for part in parts(out) for message in _messages(part, key)]


def _messages(part: Any, key: str) -> list[BaseMessage]:
    if isinstance(part, BaseMessage):
        return [part]
    update = update_of(part)
    is_map = isinstance(update, Mapping)
    found = update.get(key) if is_map else getattr(update, key, None)
    return [_as_message(item) for item in _listed(found)]


def _listed(found: Any) -> list[Any]:
    if found is None or isinstance(found, Overwrite):
        return []
    return found if isinstance(found, list) else [found]


def _as_message(item: Any) -> BaseMessage:
    return item if isinstance(item, BaseMessage) else convert_to_messages([item])[0]


def rewritten(
    out: Any, key: str, change: Callable[[list[BaseMessage]], list[BaseMessage]]
) -> Any:
    """What a node returned, with its messages changed; its own objects are not.

    Only what is a mapping, or a command with one, can be rewritten.
    """
    if isinstance(out, list | tuple):
        return [rewritten(part, key, change) for part in out]
    update = update_of(out)
    if not isinstance(update, Mapping) or not (found := _messages(out, key)):
        return out
    new = {**update, key: change(found)}
    return _replaced(out, update=new) if isinstance(out, Command) else new


def _replaced(command: Command[Any], **changes: Any) -> Command[Any]:
    same = {
        "graph": command.graph,
        "update": command.update,
        "resume": command.resume,
        "goto": command.goto,
    }
    return Command(**{**same, **changes})


def with_update(out: Any, update: Mapping[str, Any]) -> Any:
    """What a node returned, with the guard's update beside it."""
    if not update:
        return out
    if out is None:
        return dict(update)
    if isinstance(out, Mapping):
        return {**out, **update}
    own = update_of(out)
    if isinstance(out, Command) and (own is None or isinstance(own, Mapping)):
        return _replaced(out, update={**(own or {}), **update})
    return [*parts(out), Command(update=dict(update))]


def rerouted(out: Any, goto: Any) -> Any:
    """What a node returned, going to `goto` instead of where it wanted to go."""
    if isinstance(out, Command):
        return _replaced(out, goto=goto)
    kept = [
        _replaced(part, goto=()) if isinstance(part, Command) else part
        for part in parts(out)
    ]
    return [*kept, Command(goto=goto)]


def resent(out: Any, change: Callable[[Send], Send]) -> Any:
    """What a node returned, with the `Send`s in its commands changed."""
    if isinstance(out, list | tuple):
        return [resent(part, change) for part in out]
    if not isinstance(out, Command) or not (found := gotos(out)):
        return out
    goto = [change(item) if isinstance(item, Send) else item for item in found]
    return _replaced(out, goto=goto)


def gotos(out: Any) -> list[str | Send]:
    """Where a node's commands go, within its graph."""
    found: list[str | Send] = []
    for part in parts(out):
        if isinstance(part, Command) and part.graph is None:
            goto = part.goto
            found += [goto] if isinstance(goto, str | Send) else list(goto)
    return found


def leaves_graph(out: Any) -> bool:
    """Whether a node hands over to the parent of its graph."""
    return any(isinstance(p, Command) and p.graph is not None for p in parts(out))


def names(targets: Sequence[str | Send]) -> set[str]:
    """The nodes behind destinations."""
    return {t.node if isinstance(t, Send) else t for t in targets}


def is_left(messages: Sequence[BaseMessage], place: str) -> bool:
    """Whether the guard of the graph at `place` has ended this run already.

    Graphs in one another may share messages, and the names of their nodes as well.
    """
    for message in reversed(messages):
        if is_word(message):
            return False
        if isinstance(message, AIMessage) and mark_of(message).get("place") == place:
            return not message.tool_calls
    return False

"""Threads in databases of LangGraph's checkpointers, SQLite and PostgreSQL.

A thread is read off the writes to its `messages` channel, from the first checkpoint to
the newest one, along its own branch: so what was compacted away is still there, and
when it went is known. Nothing that is stored is made into an object: values are decoded
as plain data, and LangGraph itself is not needed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import ormsgpack

from loopguard_lg.errors import install_hint

Rows: TypeAlias = Sequence[Sequence[Any]]
Query: TypeAlias = Callable[[str, Sequence[Any]], Rows]

CHANNEL = "messages"
_REMOVE_ALL = "__remove_all__"
_ROLES = {"human": "user", "ai": "assistant"}
_SNAPSHOT = 7  # an extension that holds a value, where others hold a name before it

FAULTS = (sqlite3.Error, ormsgpack.MsgpackDecodeError, OSError, RuntimeError)
"""What reading a database may raise; psycopg's errors come as `RuntimeError`."""

_THREADS = "SELECT DISTINCT thread_id, checkpoint_ns FROM checkpoints ORDER BY 1, 2"
_CHAIN = (
    "SELECT checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints"
    " WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id"
)
_WRITES = (
    "SELECT checkpoint_id, type, {value} FROM {table}"
    " WHERE thread_id = ? AND checkpoint_ns = ? AND channel = ?"
    " ORDER BY checkpoint_id, {path}task_id, idx"
)
_PATH = "task_path"
"""Where a task stands in its superstep; older SQLite savers keep no such column."""


def is_address(path: str) -> bool:
    """Is it the address of a PostgreSQL database?"""
    return path.startswith(("postgresql://", "postgres://"))


def sqlite(path: str) -> Iterator[dict[str, Any] | str]:
    """The threads of a SQLite file; what can't be read comes as a text that says so."""
    address = f"{Path(path).absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(address, uri=True)
    try:

        def query(text: str, values: Sequence[Any]) -> Rows:
            return connection.execute(text, values).fetchall()

        columns = [row[1] for row in query("PRAGMA table_info(writes)", ())]
        path = f"{_PATH}, " if _PATH in columns else ""
        writes = _WRITES.format(table="writes", value="value", path=path)
        yield from _threads(query, writes, _sqlite_values)
    finally:
        connection.close()


def postgres(address: str) -> Iterator[dict[str, Any] | str]:
    """The threads of a PostgreSQL database (extra `fleet`)."""
    try:
        import psycopg
    except ModuleNotFoundError:
        raise RuntimeError(f"this needs {install_hint('fleet')}") from None
    try:
        with psycopg.connect(address) as connection:
            # Nobody who analyses a database means to change it.
            connection.read_only = True

            def query(text: str, values: Sequence[Any]) -> Rows:
                made: Any = text.replace("?", "%s")
                return connection.execute(made, values).fetchall()

            writes = _WRITES.format(
                table="checkpoint_writes", value="blob", path=f"{_PATH}, "
            )
            yield from _threads(query, writes, _postgres_values)
    except psycopg.Error as error:
        raise RuntimeError(str(error)) from None


def _threads(
    query: Query, writes: str, values: Callable[..., Rows]
) -> Iterator[dict[str, Any] | str]:
    for thread, namespace in query(_THREADS, ()):
        name = f"{thread}/{namespace}" if namespace else thread
        branch = _branch(query(_CHAIN, (thread, namespace)))
        try:
            found = _log(query(writes, (thread, namespace, CHANNEL)), branch)
            found = found or _log(values(query, thread, namespace, branch[-1]), ())
        except ValueError as error:
            yield f"thread {name}: {error}"
            continue
        if found:
            yield {"thread_id": name, "messages": found}


def _branch(rows: Rows) -> list[str]:
    """The checkpoints from the first to the newest one, without other branches.

    Where a run was forked the checkpoint is left out that it was forked from: what was
    written there is the other branch's.
    """
    found = {str(id_): (parent, _forked(about)) for id_, parent, about in rows}
    at, forked = str(rows[-1][0]), False
    branch: list[str] = []
    while at in found:
        if not forked:
            branch.append(at)
        at, forked = found.pop(at)
    return branch[::-1]


def _forked(metadata: Any) -> bool:
    """Does a checkpoint begin a branch?"""
    known = metadata if isinstance(metadata, dict) else orjson.loads(metadata or b"{}")
    return bool(known.get("source") == "fork")


def _log(rows: Rows, branch: Sequence[str]) -> list[Any]:
    """All messages that were ever there, in order, and where a view was cut.

    Args:
        rows: Checkpoint, type and value of each write.
        branch: The checkpoints that count; empty for all.
    """
    kept = frozenset(branch)
    log = _Log()
    for checkpoint, kind, value in rows:
        if not kept or checkpoint in kept:
            for message in _messages(decoded(kind, value)):
                log.take(message)
    return log.messages


class _Log:
    """Messages by the time they came; `first` is the id of the first one in view."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self._places: dict[str, int] = {}
        self._view: list[str] = []

    def take(self, message: Mapping[str, Any]) -> None:
        """Add a message, put it in the place of the one of its id, or cut the view."""
        id_ = str(message.get("id") or f"-{len(self.messages)}")
        if message.get("type") == "remove":
            self._remove(id_)
        elif id_ in self._places:
            self.messages[self._places[id_]] = message
        else:
            self._places[id_] = len(self.messages)
            self.messages.append(message)
            self._view.append(id_)

    def _remove(self, id_: str) -> None:
        """Mark a cut where the first message in view goes."""
        if id_ == _REMOVE_ALL or self._view[:1] == [id_]:
            self.messages.append({"type": "remove", "id": id_})
        self._view = [] if id_ == _REMOVE_ALL else [v for v in self._view if v != id_]


def _messages(value: Any) -> Iterator[Mapping[str, Any]]:
    """The messages of a write, in the forms that LangChain takes."""
    match value:
        case dict():
            yield value
        case str():
            yield {"type": "human", "content": value}
        case [str(role), str(content)]:
            yield {"role": _ROLES.get(role, role), "content": content}
        case [*several]:
            for inner in several:
                yield from _messages(inner)


def decoded(kind: str | None, value: Any) -> Any:
    """A stored value as plain data.

    Raises:
        ValueError: It is of a type that can't be read, an encrypted one perhaps.
    """
    if kind == "msgpack":
        return _unpacked(bytes(value))
    if kind == "json":
        return orjson.loads(bytes(value))
    if kind in ("null", "empty", None):
        return None
    raise ValueError(f"values of type {kind!r} can't be read")


def _unpacked(data: bytes) -> Any:
    option = ormsgpack.OPT_NON_STR_KEYS
    return ormsgpack.unpackb(data, ext_hook=_extension, option=option)


def _extension(code: int, data: bytes) -> Any:
    """The fields of an object, in the place of it."""
    found = _unpacked(data)
    if code == _SNAPSHOT or not isinstance(found, list | tuple) or len(found) < 3:
        return found
    return found[2]


def _sqlite_values(query: Query, thread: str, namespace: str, id_: str) -> Rows:
    """The messages as the newest checkpoint has them."""
    text = (
        "SELECT type, checkpoint FROM checkpoints"
        " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
    )
    ((kind, value),) = query(text, (thread, namespace, id_))
    found = decoded(kind, value).get("channel_values", {}).get(CHANNEL, [])
    return [(id_, "json", orjson.dumps(found, default=str))]


def _postgres_values(query: Query, thread: str, namespace: str, id_: str) -> Rows:
    """The same; values stand in a table of their own, by version."""
    text = (
        "SELECT checkpoint_id, b.type, b.blob FROM checkpoints c"
        " JOIN checkpoint_blobs b USING (thread_id, checkpoint_ns)"
        " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
        " AND b.channel = ?"
        " AND b.version = c.checkpoint -> 'channel_versions' ->> b.channel"
    )
    return query(text, (thread, namespace, id_, CHANNEL))

"""Locks that workers on several machines share, in PostgreSQL or Redis.

Time is the server's, so that the workers' clocks need not agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from loopguard_lg.workspace import waits
from loopguard_lg.workspace.locks import Change

if TYPE_CHECKING:
    from psycopg import Connection
    from redis import Redis

T = TypeVar("T")

_MAKE = """
    CREATE TABLE IF NOT EXISTS loopguard_locks
    (workspace text PRIMARY KEY, state text NOT NULL)
"""
_ROW = """
    INSERT INTO loopguard_locks VALUES (%s, %s) ON CONFLICT (workspace) DO NOTHING
"""
_READ = "SELECT state FROM loopguard_locks WHERE workspace = %s FOR UPDATE"
_TIME = "SELECT extract(epoch FROM clock_timestamp())::float8"
_WRITE = "UPDATE loopguard_locks SET state = %s WHERE workspace = %s"


class PostgresLocks:
    """The table as one row, which is locked while it is changed.

    Args:
        connect: Opens a connection as a context manager that commits at its end:
            `partial(psycopg.connect, url)`, or `pool.connection`.
        workspace: Name of the folder that is shared, the same for every worker.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractContextManager[Connection[Any]]],
        workspace: str,
    ) -> None:
        self._connect = connect
        self._workspace = workspace

    def setup(self) -> None:
        """Make what is needed in the database; once, before the workers start."""
        with self._connect() as connection:
            connection.execute(_MAKE)
            connection.execute(_ROW, (self._workspace, json.dumps(waits.fresh())))

    def update(self, change: Change[T], /) -> T:
        """Change the table in one piece."""
        with self._connect() as connection:
            rows = connection.execute(_READ, (self._workspace,)).fetchone()
            if rows is None:
                raise LookupError(
                    "PostgresLocks: call setup() once, before the workers"
                )
            now = connection.execute(_TIME).fetchone()
            assert now is not None
            table, answer = change(json.loads(rows[0]), now[0])
            connection.execute(_WRITE, (json.dumps(table), self._workspace))
        return answer


class RedisLocks:
    """The table as one value, written only if nobody else has written meanwhile.

    Args:
        client: A client of redis-py, with or without `decode_responses`.
        workspace: Name of the folder that is shared, the same for every worker.
    """

    def __init__(self, client: Redis, workspace: str) -> None:
        self._client = client
        self._key = f"loopguard:locks:{workspace}"

    def update(self, change: Change[T], /) -> T:
        """Change the table in one piece."""

        def within(pipe: Any) -> T:
            stored = pipe.get(self._key)
            seconds, micros = pipe.time()
            table = json.loads(stored) if stored else waits.fresh()
            table, answer = change(table, seconds + micros / 1e6)
            pipe.multi()
            pipe.set(self._key, json.dumps(table))
            return answer

        transact: Any = self._client.transaction  # its type knows no other answer
        answer: T = transact(within, self._key, value_from_callable=True)
        return answer

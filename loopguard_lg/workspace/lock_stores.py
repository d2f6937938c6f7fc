"""Locks that workers on several machines share, in PostgreSQL or Redis.

Time is the server's, so that the workers' clocks need not agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_random,
)

from loopguard_lg.errors import WorkspaceError
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
_PATIENCE = "SELECT set_config('lock_timeout', %s, true)"
_TIME = "SELECT extract(epoch FROM clock_timestamp())::float8"
_WRITE = "UPDATE loopguard_locks SET state = %s WHERE workspace = %s"

_KEPT = 86_400.0
"""Seconds that a table without locks is kept in Redis after it was written."""
_LONGEST = 365 * 86_400.0
"""Seconds after which Redis may forget any table: a lease may have no end."""


class PostgresLocks:
    """The table as one row, which is locked while it is changed.

    Args:
        connect: Opens a connection as a context manager that commits at its end:
            `partial(psycopg.connect, url)`, or `pool.connection`.
        workspace: Name of the folder that is shared, the same for every worker.
        patience: Seconds that a change waits for others to finish theirs.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractContextManager[Connection[Any]]],
        workspace: str,
        *,
        patience: float = 10.0,
    ) -> None:
        self._connect = connect
        self._workspace = workspace
        self._patience = f"{max(1, round(patience * 1000))}ms"  # 0 is no limit

    def setup(self) -> None:
        """Make what is needed in the database; once, before the workers start."""
        with self._connect() as connection:
            connection.execute(_MAKE)
            connection.execute(_ROW, (self._workspace, json.dumps(waits.fresh())))

    def update(self, change: Change[T], /) -> T:
        """Change the table in one piece.

        Raises:
            LookupError: `setup` was not called.
            psycopg.errors.LockNotAvailable: Others were at it for too long.
        """
        with self._connect() as connection:
            connection.execute(_PATIENCE, (self._patience,))
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
        patience: Seconds in which a change is tried again.
    """

    def __init__(
        self, client: Redis, workspace: str, *, patience: float = 10.0
    ) -> None:
        self._client = client
        self._key = f"loopguard:locks:{workspace}"
        self._patience = patience

    def update(self, change: Change[T], /) -> T:
        """Change the table in one piece.

        Raises:
            WorkspaceError: Others were faster each time, for too long.
        """
        from redis import WatchError

        def late(state: RetryCallState) -> T:
            raise WorkspaceError(
                f"the locks in {self._key!r} could not be changed for "
                f"{self._patience:g} seconds: others were faster "
                f"{state.attempt_number} times"
            )

        tries = Retrying(
            retry=retry_if_exception_type(WatchError),
            wait=wait_random(0, 0.02),
            stop=stop_after_delay(self._patience),
            retry_error_callback=late,
        )
        answer: T = tries(self._changed, change)
        return answer

    def _changed(self, change: Change[T]) -> T:
        """One try; raises redis-py's `WatchError` where others wrote meanwhile."""
        with self._client.pipeline() as piped:
            pipe: Any = piped  # its type knows no answers while it watches
            pipe.watch(self._key)
            stored = pipe.get(self._key)
            seconds, micros = pipe.time()
            now = seconds + micros / 1e6
            table = json.loads(stored) if stored else waits.fresh()
            table, answer = change(table, now)
            pipe.multi()
            pipe.set(self._key, json.dumps(table), px=_left(table, now))
            pipe.execute()
        return answer


def _left(table: waits.Table, now: float) -> int:
    """After how many milliseconds Redis may forget a table."""
    locks = [until for *_, until in (*table["held"].values(), *table["waits"])]
    lasts = max([0.0, *(until - now for until in locks)])
    return int(min(lasts + _KEPT, _LONGEST) * 1000)

"""A ledger in PostgreSQL: two tables, one transaction for each act."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import psycopg

from loopguard_lg.budgets import Exceeded
from loopguard_lg.fleet.background import ServerLedger
from loopguard_lg.fleet.ledger import Balance, Hold
from loopguard_lg.fleet.limits import GRACE, lacking

Connection: TypeAlias = psycopg.AsyncConnection[Any]

_TABLES = """
CREATE TABLE IF NOT EXISTS loopguard_fleet (
  key text PRIMARY KEY, spent double precision NOT NULL DEFAULT 0,
  ends double precision);
CREATE INDEX IF NOT EXISTS loopguard_fleet_ends ON loopguard_fleet (ends);
CREATE TABLE IF NOT EXISTS loopguard_fleet_holds (
  key text REFERENCES loopguard_fleet ON DELETE CASCADE, id text,
  amount double precision NOT NULL, expires double precision NOT NULL,
  PRIMARY KEY (key, id));
"""
_SETUP_LOCK = 7_106_102_103
"""Two workers that make the tables at once would fail: the number is any one."""

_OPEN = """
INSERT INTO loopguard_fleet (key, ends)
SELECT * FROM unnest(%s::text[], %s::double precision[]) ORDER BY 1
ON CONFLICT DO NOTHING
"""
# Rows are locked in the order of their keys, so that no two workers wait in a ring.
_LOCK = """
SELECT key FROM loopguard_fleet WHERE key = ANY(%s::text[]) ORDER BY key FOR UPDATE
"""
_EXPIRE = """
DELETE FROM loopguard_fleet_holds WHERE key = ANY(%s::text[]) AND expires <= %s
"""
_TAKEN = """
SELECT s.key, s.spent, coalesce(sum(h.amount), 0)
FROM loopguard_fleet s
LEFT JOIN loopguard_fleet_holds h ON h.key = s.key AND h.expires > %s
WHERE s.key = ANY(%s::text[]) GROUP BY s.key
"""
_HOLD = """
INSERT INTO loopguard_fleet_holds (key, id, amount, expires)
SELECT *, %s::double precision
FROM unnest(%s::text[], %s::text[], %s::double precision[])
"""
_LET_GO = """
DELETE FROM loopguard_fleet_holds WHERE key = ANY(%s::text[]) AND id = %s
"""
_SPEND = """
UPDATE loopguard_fleet f SET spent = f.spent + v.amount
FROM unnest(%s::text[], %s::double precision[]) AS v(key, amount) WHERE f.key = v.key
"""
# Others' rows are skipped where they are locked: this only tidies up.
_PURGE = """
DELETE FROM loopguard_fleet WHERE key IN (
  SELECT key FROM loopguard_fleet WHERE ends <= %s
  ORDER BY ends LIMIT 100 FOR UPDATE SKIP LOCKED)
"""


class PostgresLedger(ServerLedger):
    """Keeps the sums of a fleet in PostgreSQL; it makes its tables itself.

    Args:
        conninfo: A connection string, as for `psycopg.connect`.
        timeout: Seconds that one act may take, connecting included.
        connections: Most connections that stay open for the next act.
    """

    def __init__(
        self, conninfo: str, *, timeout: float = 2.0, connections: int = 4
    ) -> None:
        super().__init__(timeout=timeout)
        self.conninfo = conninfo
        self.connections = connections
        self._idle: list[tuple[int, Connection]] = []
        self._ready = False

    async def _reserve(self, hold: Hold, now: float) -> Exceeded | None:
        keys = [claim.key for claim in hold.claims]
        ends = [claim.ends for claim in hold.claims]
        async with self._transaction() as connection:
            async with connection.pipeline():
                await connection.execute(_PURGE, (now - GRACE,))
                await connection.execute(_OPEN, (keys, ends))
                await connection.execute(_LOCK, (keys,))
                await connection.execute(_EXPIRE, (keys, now))
                found = await connection.execute(_TAKEN, (now, keys))
                rows = await found.fetchall()
            taken = {key: spent + held for key, spent, held in rows}
            out = lacking(hold.claims, [taken[key] for key in keys])
            if out is None:
                amounts = [claim.amount for claim in hold.claims]
                ids = [hold.id] * len(keys)
                await connection.execute(_HOLD, (hold.expires, keys, ids, amounts))
        return out

    async def _settle(self, hold: Hold, spent: Sequence[float], now: float) -> None:
        keys = [claim.key for claim in hold.claims]
        ends = [claim.ends for claim in hold.claims]
        async with self._transaction() as connection, connection.pipeline():
            await connection.execute(_OPEN, (keys, ends))
            await connection.execute(_LOCK, (keys,))
            await connection.execute(_LET_GO, (keys, hold.id))
            await connection.execute(_SPEND, (keys, list(spent)))

    async def _balance(self, key: str, now: float) -> Balance:
        async with self._transaction() as connection:
            found = await connection.execute(_TAKEN, (now, [key]))
            row = await found.fetchone()
        return Balance(spent=row[1], held=row[2]) if row else Balance()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Connection]:
        """A connection in a transaction; one that failed in any way is not kept."""
        connection = await self._connected()
        try:
            async with connection.transaction():
                yield connection
        except BaseException:
            await connection.close()
            raise
        if len(self._idle) < self.connections:
            self._idle.append((self._process, connection))
        else:
            await connection.close()

    async def _connected(self) -> Connection:
        while self._idle:
            process, connection = self._idle.pop()
            if process == self._process and not connection.closed:
                return connection
        connection = await psycopg.AsyncConnection.connect(
            self.conninfo, autocommit=True
        )
        if not self._ready:
            async with connection.transaction():
                lock = "SELECT pg_advisory_xact_lock(%s)"
                await connection.execute(lock, (_SETUP_LOCK,))
                await connection.execute(_TABLES)
            self._ready = True
        return connection

    async def _close(self) -> None:
        while self._idle:
            process, connection = self._idle.pop()
            if process == self._process:
                await connection.close()

"""Runs and their steps in DuckDB, embedded: from replay, Parquet or JSON lines.

Two tables, `runs` and `steps`, joined by `run`. A store lives in memory, or in a file
where there is more than fits. Needs duckdb and pyarrow (extra `analysis`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any, Self, TypeAlias

import duckdb
import pyarrow as pa

from loopguard_lg.errors import LoopGuardError

BATCH = 500
"""Runs that are put into the tables at a time."""

Rows: TypeAlias = Sequence[Sequence[Any]]

RUNS = {
    "id": "VARCHAR", "source": "VARCHAR", "model": "VARCHAR", "task": "VARCHAR",
    "success": "BOOLEAN", "t0": "VARCHAR", "versions": "MAP(VARCHAR, VARCHAR)",
    "kind": "VARCHAR", "tool": "VARCHAR", "step": "BIGINT", "capped": "BOOLEAN",
    "left": "BOOLEAN", "right": "BOOLEAN", "cost": "DOUBLE",
}  # fmt: skip
"""Columns of `runs` behind `run`; `right`: the exit was right, by judge or label."""

STEPS = {
    "i": "BIGINT", "agent": "VARCHAR", "model": "VARCHAR", "tool": "VARCHAR",
    "args_hash": "VARCHAR", "result_hash": "VARCHAR", "state": "VARCHAR",
    "error": "BOOLEAN", "seconds": "DOUBLE", "tokens": "DOUBLE", "cost": "DOUBLE",
    "repeat": "BOOLEAN", "idle": "BOOLEAN", "loop": "BOOLEAN",
}  # fmt: skip
"""Columns of `steps` behind `run`; a turn without calls is a row without `tool`."""

_ARROW = {
    "VARCHAR": pa.string(), "BOOLEAN": pa.bool_(), "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(), "MAP(VARCHAR, VARCHAR)": pa.map_(pa.string(), pa.string()),
}  # fmt: skip

_TABLES = {"runs": RUNS, "steps": STEPS}


class Store:
    """The tables, and what is asked of them in SQL.

    Args:
        path: A DuckDB file to keep them in; `None` for memory.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._db = duckdb.connect(str(path or ":memory:"))
        self._db.execute("SET TimeZone = 'UTC'")  # days are the same on every machine
        self._next = count()
        for name, columns in _TABLES.items():
            fields = ", ".join(f'"{key}" {kind}' for key, kind in columns.items())
            self._db.execute(f"CREATE OR REPLACE TABLE {name} (run BIGINT, {fields})")

    def add(self, runs: Iterable[tuple[Sequence[Any], Rows]]) -> Self:
        """Put in runs, each as its row of `runs` and its rows of `steps`."""
        items = iter(runs)
        while batch := list(islice(items, BATCH)):
            numbered = [(next(self._next), *item) for item in batch]
            self._insert("runs", [(run, *row) for run, row, _ in numbered])
            rows = [(run, *step) for run, _, steps in numbered for step in steps]
            self._insert("steps", rows)
        return self

    def load(self, folder: str | Path) -> Self:
        """Put in what `save` wrote, or the same columns as `.jsonl` or `.jsonl.gz`.

        Raises:
            LoopGuardError: A table is missing, or is not of these columns.
        """
        for name, columns in _TABLES.items():
            found = sorted(Path(folder).glob(f"{name}*.*"))
            if not found:
                raise LoopGuardError(f"{folder}: has no {name}.parquet or .jsonl")
            keys = ", ".join(f'"{key}"' for key in ["run", *columns])
            for file in found:
                self._read(f"INSERT INTO {name} SELECT {keys} FROM", columns, file)
        return self

    def save(self, folder: str | Path) -> None:
        """Write the tables as `runs.parquet` and `steps.parquet`, for queries of one's
        own and for `load`.
        """
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name in _TABLES:
            path = str(Path(folder) / f"{name}.parquet")
            self._db.execute(f"COPY {name} TO '{_quoted(path)}' (FORMAT parquet)")

    def ask(self, sql: str, *values: Any) -> Iterator[dict[str, Any]]:
        """The rows of a query; a list of numbers comes as a Python list."""
        answer = self._db.execute(sql, list(values))
        names = [column[0] for column in answer.description]
        while rows := answer.fetchmany(1_000):
            yield from (dict(zip(names, row, strict=True)) for row in rows)

    def arrays(self, sql: str) -> dict[str, Any]:
        """The columns of a query as NumPy arrays: quicker where there are many rows."""
        found: dict[str, Any] = self._db.execute(sql).fetchnumpy()
        return found

    def _read(self, insert: str, columns: dict[str, str], file: Path) -> None:
        path = _quoted(str(file))
        source = f"read_parquet('{path}')"
        if ".jsonl" in file.name:
            kinds = ", ".join(f"{k!r}: {v!r}" for k, v in columns.items())
            form = "format = 'newline_delimited'"
            kinds = f"{{'run': 'BIGINT', {kinds}}}"
            source = f"read_json('{path}', columns = {kinds}, {form})"
        try:
            self._db.execute(f"{insert} {source}")
        except duckdb.Error as error:
            raise LoopGuardError(f"{file}: {' '.join(str(error).split())}") from None

    def _insert(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        if not rows:
            return
        kinds = {"run": "BIGINT", **_TABLES[name]}
        columns = zip(kinds.values(), zip(*rows, strict=True), strict=True)
        arrays = [pa.array(values, _ARROW[kind]) for kind, values in columns]
        batch = pa.table(arrays, names=[*kinds])
        self._db.register("batch", batch)
        self._db.execute(f"INSERT INTO {name} SELECT * FROM batch")  # noqa: S608
        self._db.unregister("batch")


def _quoted(path: str) -> str:
    return path.replace("'", "''")

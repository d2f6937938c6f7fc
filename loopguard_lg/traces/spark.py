"""Recorded runs on Apache Spark: the same function per run as on one machine.

Rows go to Python as plain lists, a partition at a time; no data frame is made of a
run, which would be several times slower. What comes of the runs stays on the executors'
disks until it is fetched, in order. Needs pyspark and Java (extra `spark`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

import orjson
from pyspark import RDD, SparkContext, StorageLevel
from pyspark.sql import SparkSession

from loopguard_lg.errors import LoopGuardError, TraceFormatError
from loopguard_lg.traces import readers
from loopguard_lg.traces.formats.base import arguments, listed, mapping
from loopguard_lg.traces.model import Trajectory, from_dict
from loopguard_lg.traces.readers import Line, lines, parse

R = TypeVar("R")

Looks: TypeAlias = Callable[[Trajectory], R]
Part: TypeAlias = Iterable[tuple[Any, int]]

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Of a session on this machine: it listens on loopback alone, and is quiet."""


def session(jobs: int | None = None) -> SparkSession:
    """The session that is active, else one by the settings of `spark-submit`, else one
    on this machine.

    Args:
        jobs: Cores of this machine; `None`: all.

    Raises:
        LoopGuardError: Spark does not start; says why.
    """
    builder = SparkSession.builder.appName("loopguard")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not from spark-submit
        # Without it, workers of this machine take whatever `python3` comes first.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.master(f"local[{jobs or '*'}]")
        for key, value in _SETTINGS.items():
            builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # Java is missing, or the cluster is
        problem = (str(error) or repr(error)).splitlines()[0]
        raise LoopGuardError(f"Spark does not start: {problem}") from None


def map_runs(
    look: Looks[R], paths: Sequence[str], spark: SparkSession
) -> Iterator[R | TraceFormatError]:
    """`look` at every run, in order, as `replay.map_runs` does on one machine.

    Args:
        look: What to do with a run; it has to pickle, and the executors need what it
            imports.
        paths: Files, or addresses that Spark knows. A file or folder of Parquet has a
            row per run; of files with one run a line partitions are read side by side;
            any other file is read by one executor.
        spark: The session.
    """
    context = spark.sparkContext
    parts = [_mapped(spark, look, path) for path in paths]
    if not parts:
        return
    done = context.union(parts).persist(StorageLevel.DISK_ONLY)
    try:
        done.count()  # all partitions side by side; the iterator takes one at a time
        yield from done.toLocalIterator(prefetchPartitions=True)
    finally:
        done.unpersist()


def _mapped(spark: SparkSession, look: Looks[R], path: str) -> RDD[Any]:
    """What comes of the runs of a path, not computed yet."""
    context = spark.sparkContext
    if _is_parquet(path):
        rows = spark.read.parquet(path).rdd.zipWithIndex()
        return rows.mapPartitions(partial(_of_rows, look, path))
    if _is_splittable(path):
        text = _text(context, path).zipWithIndex()
        return text.mapPartitions(partial(_of_lines, look, path))
    return context.parallelize([path], 1).flatMap(partial(_of_file, look))


def _text(context: SparkContext, path: str) -> RDD[str]:
    """The lines of a file; small ones are split, too, as replay takes long."""
    return context.textFile(path, minPartitions=2 * context.defaultParallelism)


def _is_parquet(path: str) -> bool:
    if path.rstrip("/").endswith(".parquet"):
        return True
    names = os.listdir(path) if os.path.isdir(path) else ()
    return any(name.endswith(".parquet") for name in names)


def _is_splittable(path: str) -> bool:
    """Has a file one run a line? What is elsewhere is taken to have."""
    return "://" in path or readers.has_run_per_line(path)


def _of_lines(look: Looks[R], path: str, part: Part) -> Iterator[R | TraceFormatError]:
    for text, at in part:
        # A mark of UTF-8 is at the beginning of what some editors have saved.
        if (text := text.removeprefix("\ufeff")) and not text.isspace():
            data = text.encode("utf-8", "replace")
            yield _looked(look, parse(Line(path, at + 1, data)))


def _of_file(look: Looks[R], path: str) -> Iterator[R | TraceFormatError]:
    for line in lines(path):
        yield _looked(look, parse(line))


def _of_rows(look: Looks[R], path: str, part: Part) -> Iterator[R | TraceFormatError]:
    for row, at in part:
        try:
            run: Trajectory | TraceFormatError = from_dict(_run(row.asDict(True)))
        except ValueError as error:
            run = TraceFormatError(path, at + 1, str(error))
        yield _looked(look, run)


def _looked(look: Looks[R], run: Trajectory | TraceFormatError) -> R | TraceFormatError:
    return run if isinstance(run, TraceFormatError) else look(run)


def _run(row: dict[str, Any]) -> dict[str, Any]:
    """A run of a row: columns are the keys of a run, or `run` holds it as JSON.

    Steps, and arguments of calls, may be JSON in a text, as Parquet has one type for
    a column and arguments have many.
    """
    run = orjson.loads(row["run"]) if isinstance(row.get("run"), str) else row
    steps = run.get("steps")
    steps = orjson.loads(steps) if isinstance(steps, str) else steps
    return {**run, "steps": [_step(step) for step in listed(steps)]}


def _step(step: Any) -> Any:
    calls = listed(mapping(step).get("calls"))
    if not any(isinstance(mapping(call).get("args"), str) for call in calls):
        return step
    read = [{**call, "args": arguments(call.get("args"))} for call in calls]
    return {**step, "calls": read}

"""Replay on a real Spark, on this machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq

from loopguard_lg import Policy
from loopguard_lg.analysis import report
from loopguard_lg.analysis.replay import map_runs
from loopguard_lg.errors import TraceFormatError
from loopguard_lg.traces import spark as engine
from loopguard_lg.traces.readers import lines
from tests.analysis.made import circles, works
from tests.traces.samples import SAMPLES

LOOK = partial(report.look, Policy(budget=()))


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session of Spark on this machine."""
    if shutil.which("java") is None:
        pytest.skip("no java on PATH: apt-get install default-jre")
    found = engine.session(1)
    yield found
    found.stop()


def runs(many: int) -> list[dict[str, Any]]:
    """Runs, each second of which loops."""
    made = (circles, works)
    return [made[i % 2](f"run-{i}", model=f"m{i % 3}") for i in range(many)]


def written(file: Path, found: list[dict[str, Any]]) -> str:
    """The runs as a file."""
    file.write_text("".join(json.dumps(run) + "\n" for run in found))
    return str(file)


def told(results: Any) -> dict[str, Any]:
    """The figures of a report."""
    return report.gather(Policy(budget=()), results).as_dict()


@pytest.mark.usefixtures("spark")
def test_a_report_is_the_same_as_on_one_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every figure, interval, loop and worst run, by the command."""
    from loopguard_lg.cli.app import run

    file = written(tmp_path / "runs.jsonl", runs(60))
    said = []
    for name in ("duckdb", "spark"):
        assert run(["report", file, "--engine", name, "--json", "--jobs", "1"]) == 0
        said.append(json.loads(capsys.readouterr().out) | {"made": ""})

    assert said[0] == said[1]
    assert said[0]["runs"] == 60


def test_parquet_has_a_row_per_run(spark: Any, tmp_path: Path) -> None:
    """Columns are keys of a run, with steps as JSON; or all of it is in `run`."""
    found = runs(20)
    columns = {
        key: [run.get(key) for run in found] for key in ("id", "model", "success")
    }
    steps = [json.dumps(run["steps"]) for run in found]
    whole = {"run": [json.dumps(run) for run in found]}
    pq.write_table(pa.table({**columns, "steps": steps}), tmp_path / "a.parquet")
    pq.write_table(pa.table(whole), tmp_path / "b.parquet")
    file = written(tmp_path / "runs.jsonl", found)
    expected = [facts for facts, _ in map_runs(LOOK, lines(file))]

    for name in ("a.parquet", "b.parquet"):
        got = engine.map_runs(LOOK, [str(tmp_path / name)], spark)
        rows = [facts.rows for facts, _ in got]  # type: ignore[misc]
        assert rows == [facts.rows for facts in expected]


def test_broken_lines_are_named_in_their_place(spark: Any, tmp_path: Path) -> None:
    """File and line, as on one machine, whatever part they were read in."""
    file = tmp_path / "runs.jsonl"
    texts = [json.dumps(run) for run in runs(9)]
    file.write_text("\n".join([*texts[:5], "{", "", *texts[5:]]) + "\n")
    got = [*engine.map_runs(LOOK, [str(file)], spark)]

    (error,) = [one for one in got if isinstance(one, TraceFormatError)]
    assert (error.path, error.line, got.index(error)) == (str(file), 6, 5)
    assert len(got) == 10


def test_other_formats_are_read_by_one_executor_each(
    spark: Any, tmp_path: Path
) -> None:
    """What spreads a run over lines, or is one document, is the same as without."""
    names = ("claude_code", "otlp", "swe_agent", "langsmith", "openai")
    for name in names:
        (tmp_path / name).write_bytes(SAMPLES[name]())
    paths = [str(tmp_path / name) for name in names]
    got = told(engine.map_runs(LOOK, paths, spark))

    plain = (line for path in paths for line in lines(path))
    assert got == told(map_runs(LOOK, plain))
    assert got["runs"] == len(names)

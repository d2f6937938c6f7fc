from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.errors import TraceFormatError
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import Line, parse, read

GOOD = b'{"id": "%s", "steps": []}\n'


def names(path: Path | str) -> list[str]:
    """Ids of the runs, and the errors as text."""
    return [run.id if isinstance(run, Trajectory) else str(run) for run in read(path)]


def test_each_line_is_a_run(tmp_path: Path) -> None:
    """Runs come in order; blank lines are nothing."""
    file = tmp_path / "runs.jsonl"
    file.write_bytes(GOOD % b"a" + b"\n  \n" + GOOD % b"b")

    assert names(file) == ["a", "b"]


def test_a_compressed_file_may_have_several_members(tmp_path: Path) -> None:
    """A file that was compressed line by line reads as one."""
    file = tmp_path / "runs.jsonl.gz"
    file.write_bytes(gzip.compress(GOOD % b"a") + gzip.compress(GOOD % b"b"))

    assert names(str(file)) == ["a", "b"]


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_a_json_file_is_one_run_on_many_lines(tmp_path: Path, suffix: str) -> None:
    """A pretty-printed object is read whole."""
    file = tmp_path / f"run{suffix}"
    data = b'{\n  "id": "a",\n  "steps": []\n}\n'
    file.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)

    assert names(file) == ["a"]


def test_standard_input_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads lines from standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD % b"a")))

    assert names("-") == ["a"]


@pytest.mark.parametrize(
    "line", [b"{", b"\xff\xfe", b"[]", b'{"id": "x"}', b'{"id": "x", "steps": [1]}']
)
def test_the_lines_after_a_broken_one_still_come(tmp_path: Path, line: bytes) -> None:
    """A line that can't be read is an error with file and line, in its place."""
    file = tmp_path / "runs.jsonl"
    file.write_bytes(GOOD % b"a" + line + b"\n" + GOOD % b"b")

    first, error, last = read(file)

    assert isinstance(error, TraceFormatError)
    assert (error.path, error.line) == (str(file), 2)
    assert [getattr(run, "id", None) for run in (first, last)] == ["a", "b"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-9],
        lambda data: data[:12] + b"!!!!" + data[16:],
        lambda _: b"no",
    ],
    ids=["cut short", "corrupt", "no gzip"],
)
def test_a_damaged_file_ends_with_an_error(tmp_path: Path, damage) -> None:
    """What can't be decompressed is an error, not an exception."""
    file = tmp_path / "runs.jsonl.gz"
    file.write_bytes(damage(gzip.compress(GOOD % b"a")))

    *_, last = read(file)

    assert isinstance(last, TraceFormatError)


def test_a_folder_is_an_error_that_says_so(tmp_path: Path) -> None:
    """The operating system's word for the problem is passed on."""
    assert names(tmp_path) == [f"{tmp_path}:1: Is a directory"]


KEYS = (
    "id",
    "steps",
    "calls",
    "tool",
    "args",
    "tokens",
    "nested",
    "event",
    "agent",
    "t",
    "i",
    "progress",
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
)


@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING), ANYTHING)
def test_whatever_a_line_holds_it_is_a_run_or_an_error(
    data: dict[str, Any], step: Any
) -> None:
    """No JSON makes the reader raise."""
    data |= {"id": "x", "steps": [step, {"calls": [step], "nested": [step]}]}

    found = parse(Line("f", 1, json.dumps(data).encode()))

    assert isinstance(found, Trajectory | TraceFormatError)

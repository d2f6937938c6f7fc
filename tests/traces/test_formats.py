from __future__ import annotations

import gzip
import io
import json
import sys
import tracemalloc
from pathlib import Path

import pytest

from loopguard_lg import Policy
from loopguard_lg.analysis.replay import check
from loopguard_lg.cli.app import run
from loopguard_lg.errors import TraceFormatError
from loopguard_lg.steps import Turn
from loopguard_lg.traces import files
from loopguard_lg.traces.formats import FORMATS
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import read
from tests.traces.samples import EVIL, SAMPLES, TIMES

every = pytest.mark.parametrize("name", SAMPLES)


def written(tmp_path: Path, data: bytes, name: str = "runs.txt") -> Path:
    """A file that holds the data, and no name that says what it is."""
    file = tmp_path / name
    file.write_bytes(data)
    return file


def only(path: Path) -> Trajectory:
    """The one run of a file."""
    (run,) = read(path)
    assert isinstance(run, Trajectory), run
    return run


def problems(path: Path) -> list[str]:
    """What can't be read, in words."""
    return [str(run) for run in read(path) if isinstance(run, TraceFormatError)]


@every
def test_a_loop_is_found_whatever_the_format(tmp_path: Path, name: str) -> None:
    """The same four calls in vain trip in every format, told by content alone."""
    found = only(written(tmp_path, SAMPLES[name]()))
    turns = [e for e in found.events if isinstance(e, Turn) and e.steps]

    assert len(turns) == TIMES
    assert {step.result for turn in turns for step in turn.steps} != {""}
    assert check(Policy(budget=()), found).kind == "repeat"


@every
def test_compression_is_told_by_content(tmp_path: Path, name: str) -> None:
    """A compressed file reads as the plain one, without its name saying so."""
    data = SAMPLES[name]()
    plain = only(written(tmp_path, data))

    assert only(written(tmp_path, gzip.compress(data))) == plain


@every
def test_every_format_streams(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes by standard input reads as the file does."""
    data = SAMPLES[name]()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    (piped,) = read("-")

    assert isinstance(piped, Trajectory)
    assert piped.events == only(written(tmp_path, data)).events


@every
def test_hostile_texts_are_kept_as_they_are(tmp_path: Path, name: str) -> None:
    """Script, control characters and quotes in every field are plain text."""
    run = only(written(tmp_path, SAMPLES[name](EVIL)))
    steps = [s for e in run.events if isinstance(e, Turn) for s in e.steps]

    assert len(steps) == TIMES
    assert any("<script>alert('x')</script>" in step.result for step in steps)


@every
def test_a_truncated_file_is_one_clear_error(tmp_path: Path, name: str) -> None:
    """Nothing that is whole is lost, and what is cut off is named once."""
    file = written(tmp_path, SAMPLES[name]()[:-30])
    (problem,) = problems(file)

    assert problem.startswith(f"{file}:")
    assert "\n" not in problem


@every
def test_a_broken_line_does_not_hide_the_others(tmp_path: Path, name: str) -> None:
    """A line of another encoding in a file of lines is an error in its place."""
    head, *rest = SAMPLES[name]().splitlines(keepends=True)
    if len(rest) < 3 or head.strip() in (b"{", b"["):
        rest = [head]  # a document, or one run a line
        head = SAMPLES["own"]()
    file = written(tmp_path, head + b'"caf\xe9"\n' + b"".join(rest), "runs.jsonl")
    found = [str(run) for run in read(file) if isinstance(run, TraceFormatError)]

    assert f"{file}:2: " in found[0]


@every
def test_another_encoding_is_named(tmp_path: Path, name: str) -> None:
    """A file of UTF-16 says so; a mark before UTF-8 is nothing."""
    text = SAMPLES[name]().decode()
    marked = only(written(tmp_path, b"\xef\xbb\xbf" + text.encode()))
    (problem,) = problems(written(tmp_path, text.encode("utf-16"), "other.txt"))

    assert marked.events
    assert problem.endswith(":1: the text is UTF-16: save it as UTF-8")


@every
def test_records_of_another_format_are_named(tmp_path: Path, name: str) -> None:
    """A file of two formats tells which line is not like those before."""
    other = SAMPLES["step_log" if name != "step_log" else "claude_code"]()
    data = SAMPLES[name]()
    if data.startswith((b"{\n", b"[\n")):
        data = json.dumps(json.loads(data)).encode() + b"\n"
    file = written(tmp_path, data + other.splitlines()[0] + b"\n")
    (problem,) = problems(file)

    assert problem.startswith(f"{file}:{data.count(bytes([10])) + 1}: this is a ")


@every
def test_a_gzip_bomb_is_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that swells beyond measure ends with an error that gives the cap."""
    monkeypatch.setattr(files, "FREE", 1 << 16)
    monkeypatch.setattr(files, "MOST", 1 << 20)
    bomb = gzip.compress(SAMPLES[name]() + b" \n" * (1 << 20))
    *_, last = read(written(tmp_path, bomb))

    swells = "swells to more than 200 times its size and 0 MiB: unpack it"
    assert swells in str(last) or "the document is longer than 1 MiB" in str(last)


def test_a_line_beyond_the_cap_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named, and never held in memory; the next run comes."""
    monkeypatch.setattr(files, "MOST", 1 << 20)
    own = SAMPLES["own"]()
    file = written(tmp_path, own + b'"' + b"x" * (5 << 20) + b'"\n' + own)
    first, error, last = read(file)

    assert first == last
    assert str(error) == f"{file}:2: the line is longer than 1 MiB"


def test_a_line_of_a_hundred_megabytes_is_read(tmp_path: Path) -> None:
    """Of a result that is so long the rest is kept; the text is clipped on replay."""
    run = json.loads(SAMPLES["own"]())
    run["steps"][0]["calls"][0]["result"] = "x" * (100 << 20)
    found = only(written(tmp_path, json.dumps(run).encode()))

    assert len(found.events) == TIMES


def test_runs_that_interleave_are_put_together(tmp_path: Path) -> None:
    """Lines of two sessions in turns are two runs, each in its own order."""
    one = SAMPLES["claude_code"]().splitlines()
    two = [line.replace(b'"s"', b'"other"') for line in one]
    pairs = [line for pair in zip(one, two, strict=True) for line in pair]
    first, second = read(written(tmp_path, b"\n".join(pairs)))

    assert (first.id, second.id) == ("s", "other")
    assert first.events == second.events


def test_a_file_need_not_fit_into_memory(tmp_path: Path) -> None:
    """Of runs that are spread over lines, one is held at a time."""
    session = SAMPLES["claude_code"]("x" * 20_000)
    names = [f'"{n:04d}"'.encode() for n in range(60)]
    data = b"".join(session.replace(b'"s"', name) for name in names)
    file = written(tmp_path, data)
    tracemalloc.start()
    runs = sum(isinstance(one, Trajectory) for one in read(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert runs == len(names)
    assert peak < len(data) / 4


def test_hostile_texts_are_safe_in_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every format: no script on the page, nothing that steers a terminal."""
    pytest.importorskip("duckdb")
    for name, make in SAMPLES.items():
        (tmp_path / name).write_bytes(make(EVIL))
    paths = [str(tmp_path / name) for name in SAMPLES]
    page = tmp_path / "page.html"

    assert run(["report", *paths, "-o", str(page), "--worst", "99", "-j", "1"]) == 0
    assert run(["check", *paths, "--jobs", "1"]) == 1
    said = capsys.readouterr()
    assert "<script>alert" not in page.read_text("utf-8")
    assert "\x1b" not in said.out + said.err


def test_every_format_has_a_sample() -> None:
    """The registry and what is tested agree."""
    names = {form.name for form in FORMATS}

    assert len(names) == len(FORMATS)
    assert len(SAMPLES) >= len(names)

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Shell


@pytest.fixture
def runs(loopguard: Shell, loop: dict[str, Any], fine: dict[str, Any]) -> str:
    """A file with a loop and an honest run."""
    return loopguard.write("r.jsonl", loop, fine)


def test_a_page_is_written(loopguard: Shell, runs: str) -> None:
    """One file, named on standard error; the exit status says that all was read."""
    out = loopguard.folder / "page.html"

    status, said, err = loopguard("report", runs, "--out", str(out))

    assert (status, said, err) == (0, "", f"loopguard: wrote {out}\n")
    assert "1 of 2 runs go in circles" in out.read_text("utf-8")


def test_json_has_every_figure(loopguard: Shell, runs: str) -> None:
    """`--json` prints what the page shows, and writes none."""
    status, out, _ = loopguard("report", runs, "--json")

    data = json.loads(out)
    (every,) = data["metrics"]["all"]
    assert (status, data["runs"], every["loop_rate"]["value"]) == (0, 2, 0.5)
    assert [run["id"] for run in data["worst"]] == ["loop"]
    assert not list(loopguard.folder.glob("*.html"))


def test_what_cannot_be_read_is_on_the_page(loopguard: Shell, runs: str) -> None:
    """A broken line is status two, and the figures say that they lack it."""
    broken = loopguard.write("b.jsonl", "{")
    out = loopguard.folder / "page.html"

    status, _, err = loopguard("report", runs, broken, "-o", str(out))

    assert status == 2
    assert "b.jsonl:1: " in err
    assert "1 recordings can&#x27;t be read" in out.read_text("utf-8")


def test_labels_tell_which_exits_were_right(
    loopguard: Shell, loop: dict[str, Any], trajectory: Any
) -> None:
    """The correct-exit rate is over the exits that have a label."""
    runs = loopguard.write("r.jsonl", trajectory("long", *["no results"] * 12))
    labels = loopguard.write("l.jsonl", {"id": "long", "loop": True})

    _, out, _ = loopguard("report", runs, "--labels", labels, "--json")

    (every,) = json.loads(out)["metrics"]["all"]
    assert (every["correct_exits"]["value"], every["correct_exits"]["n"]) == (1, 1)


def test_tables_are_kept_as_parquet(loopguard: Shell, runs: str) -> None:
    """`--save` leaves them for queries of one's own."""
    import duckdb

    loopguard("report", runs, "--json", "--save", str(loopguard.folder / "t"))

    steps = loopguard.folder / "t" / "steps.parquet"
    found = duckdb.sql(f"SELECT count(*) FROM '{steps}' WHERE repeat").fetchall()
    assert found == [(6,)]


def test_one_run_is_drawn(loopguard: Shell, runs: str, tmp_path: Path) -> None:
    """`--run` with `--svg` and `--png` writes pictures of that run."""
    svg, png = tmp_path / "a.svg", tmp_path / "a.png"

    status, _, err = loopguard(
        "report", runs, "--run", "loop", "--svg", str(svg), "--png", str(png)
    )

    assert (status, err) == (0, f"loopguard: wrote {svg} and {png}\n")
    assert svg.read_text("utf-8").startswith("<svg ")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_one_run_is_shown_in_the_terminal(loopguard: Shell, runs: str) -> None:
    """Without a file the timeline is printed."""
    status, out, _ = loopguard("report", runs, "--run", "loop", "--terminal")

    assert status == 0
    assert "repeat ×" in out


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--run", "gone"], "no run has the id gone"),
        (["--terminal"], "there are several runs: say which with --run ID"),
        (["--engine", "abacus"], "Invalid value for '--engine'"),
        (["--labels", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--out", "/nowhere/page.html"], "/nowhere/page.html"),
    ],
)
def test_what_is_wrong_is_one_line(
    loopguard: Shell, runs: str, args: list[str], problem: str
) -> None:
    """Bad input is named, with status two."""
    status, _, err = loopguard("report", runs, *args)

    assert status == 2
    assert problem in err
    assert err.count("\n") == 1

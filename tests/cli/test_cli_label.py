from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import OptionList, Static

from loopguard_lg.analysis.labelling import Session, begin, sheet
from loopguard_lg.analysis.labels import Label, read_labels
from loopguard_lg.cli import label as command
from loopguard_lg.cli.label_app import LabelApp
from loopguard_lg.traces.model import from_dict

from .conftest import Shell

ALL = Label(loop=True, kind="repeat", onset=0, cause="other")


@pytest.fixture
def app(tmp_path: Path, trajectory: Callable[..., dict[str, Any]]) -> LabelApp:
    """Two runs to label; the second holds what looks like markup."""
    runs = [trajectory("one", *["no results"] * 4), trajectory("two", "[bold]x[/]")]
    sheets = [sheet(from_dict(run)) for run in runs]
    return LabelApp(begin(sheets, {}), tmp_path / "labels.jsonl")


def text(app: LabelApp, name: str) -> str:
    """What a part of the screen shows."""
    return str(app.query_one(f"#{name}", Static).render())


async def test_every_key_is_on_disk_at_once(app: LabelApp) -> None:
    """A kill after any key loses nothing."""
    async with app.run_test() as pilot:
        await pilot.press("y", "down", "o")
        path = app._path
        assert read_labels(path) == {"one": Label(loop=True, onset=1)}

        await pilot.press("c", "l", "k", "l")
        assert read_labels(path)["one"].cause == "other"


async def test_the_screen_shows_where_one_is(app: LabelApp) -> None:
    """The run, the step in full, what is said and what is missing."""
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("y", "down")

        assert "run 1 of 2, 0 done   one" in text(app, "head")
        assert "missing: kind, onset, cause" in text(app, "side")
        assert app.query_one("#steps", OptionList).highlighted == 1
        assert 'search({"q":"x"}) -> no results' in text(app, "text")

        await pilot.press("c")
        assert "impossible_task" in text(app, "side")


async def test_texts_of_a_run_are_no_markup(app: LabelApp) -> None:
    """What a tool returned is shown as it is."""
    async with app.run_test() as pilot:
        await pilot.press("right")

        assert "[bold]x[/]" in text(app, "text")


async def test_q_leaves_but_writes_in_a_reason(app: LabelApp) -> None:
    """A letter of a text is no command."""
    async with app.run_test() as pilot:
        await pilot.press("y", "r", "q", "enter")
        assert app.session.labels["one"].reason == "q"
        await pilot.press("q")

    assert app.return_code == 0


async def test_a_label_that_cannot_be_written_is_not_shown(app: LabelApp) -> None:
    """The screen never says more than the file."""
    app._path = app._path / "no" / "such" / "folder"
    async with app.run_test() as pilot:
        await pilot.press("y")

        assert app.session.labels == {}
        assert "not written" in text(app, "side")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """The sessions that the command shows, without a screen."""
    sessions: list[Session] = []
    monkeypatch.setattr(command, "show", lambda session, _: sessions.append(session))
    return sessions


def test_runs_that_trip_are_drawn(
    loopguard: Shell, loop: Any, fine: Any, shown: list[Session]
) -> None:
    """Honest runs are not asked about, and no more than wanted."""
    runs = [{**loop, "id": f"loop{n}"} for n in range(9)]
    path = loopguard.write("r.jsonl", fine, *runs, "{")
    mine = str(loopguard.folder / "mine.jsonl")

    status, _, err = loopguard("label", path, "--labels", mine, "--sample", "4")

    assert (status, len(shown[0].sheets)) == (2, 4)
    assert all(sheet.id.startswith("loop") for sheet in shown[0].sheets)
    assert "r.jsonl:11: " in err


def test_labels_that_are_there_are_gone_on_with(
    loopguard: Shell, loop: Any, shown: list[Session]
) -> None:
    """The session begins with what the file says."""
    path = loopguard.write("r.jsonl", loop)
    mine = loopguard.write("mine.jsonl", ALL.as_dict("loop"))

    assert loopguard("label", path, "--labels", mine)[0] == 0
    assert (shown[0].labels, shown[0].done) == ({"loop": ALL}, 1)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ([], "Missing argument 'PATH'"),
        (["-"], "standard input is for the keys"),
        (["r.jsonl"], "no run trips"),
        (["--agreement", "loops.jsonl"], "labels.jsonl"),
        (["loops.jsonl"], "labelling needs a terminal"),
    ],
)
def test_what_cannot_be_labelled_is_one_line(
    loopguard: Shell,
    loop: Any,
    fine: Any,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    problem: str,
) -> None:
    """Bad input is status 2 and says what is wrong."""
    monkeypatch.chdir(loopguard.folder)
    loopguard.write("r.jsonl", fine)
    loopguard.write("loops.jsonl", loop)

    status, out, err = loopguard("label", *args)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert problem in err


@pytest.fixture
def two(loopguard: Shell) -> list[str]:
    """Options that compare two people's labels; they differ in one of four."""
    lines = [ALL.as_dict("a"), ALL.as_dict("b")]
    lines += [{"id": name, "loop": False} for name in "cd"]
    mine = loopguard.write("mine.jsonl", *lines)
    yours = loopguard.write("yours.jsonl", *lines[:3], ALL.as_dict("d"))
    return ["--labels", mine, "--agreement", yours]


def test_two_people_s_agreement_is_said(loopguard: Shell, two: list[str]) -> None:
    """Kappa with its interval, and the runs on which they differ."""
    status, out, _ = loopguard("label", *two)

    assert status == 0
    assert "loop  same in 75.0% of 4; kappa 0.50 (-0.23 to 1.00), moderate" in out
    assert "onset within one step in 2 of 2" in out
    assert "d: false / true, repeat, other" in out


def test_agreement_can_be_read_by_a_machine(loopguard: Shell, two: list[str]) -> None:
    """`--json` has the confusion and both labels of every difference."""
    _, out, _ = loopguard("label", *two, "--json")

    found = json.loads(out)
    assert found["loop"]["kappa"] == 0.5
    assert found["apart"][0]["second"]["cause"] == "other"


def test_labels_of_different_runs_cannot_be_compared(
    loopguard: Shell, two: list[str]
) -> None:
    """No run in common is an error, not full agreement."""
    other = loopguard.write("other.jsonl", {"id": "z", "loop": True})

    status, _, err = loopguard("label", "--labels", two[1], "--agreement", other)

    assert status == 2
    assert "no run is labelled in both" in err


def test_what_can_be_read_once_only_cannot_be_labelled(
    loopguard: Shell, loop: Any
) -> None:
    """A pipe is empty when the runs of the sample are looked up: one clear line."""
    read, write = os.pipe()
    with os.fdopen(read), os.fdopen(write, "wb") as pipe:
        pipe.write(json.dumps(loop).encode())
        pipe.close()
        status, _, err = loopguard("label", f"/dev/fd/{read}")

    assert (status, err) == (
        2,
        "loopguard: loop: the run is not there at the second reading\n",
    )

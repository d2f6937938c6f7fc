"""Every command's help shows an example, and it works as printed.

A new command is found by itself; what its example reads is made in `folder`.
"""

from __future__ import annotations

import gzip
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from textual.pilot import Pilot

from loopguard_lg.analysis.labelling import Session
from loopguard_lg.cli import label
from loopguard_lg.cli.app import app, run
from loopguard_lg.cli.label_app import LabelApp

from .conftest import Shell

TOOLS = "def search(q):\n    ...\n\nTOOLS = [search]\n"
MODELS = """
from loopguard_lg.testing import ScriptedModel, call

ANSWER = call("judgement", verdict="right", kind="repeat", reason="it repeats")
JUDGE = ScriptedModel([ANSWER], loop=True)
"""
POLICY = "[budget]\nsteps = 60\n\n[agents.researcher]\nbudget = {steps = 200}\n"


def commands() -> Iterator[tuple[str, ...]]:
    """Every command by its words, those of groups included."""
    found: Any = typer.main.get_command(app)
    for name, command in found.commands.items():
        inner = getattr(command, "commands", {})
        yield from ((name, other) for other in inner)
        if not inner:
            yield (name,)


@pytest.fixture
def folder(loopguard: Shell, trajectory: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the files that examples name."""
    loop = trajectory("loop", *["no results"] * 6, success=False)
    fine = [
        trajectory(f"fine{n}", f"{n} of three", f"and {n}", success=True)
        for n in range(3)
    ]
    back = trajectory("back", *["no results"] * 4, "Bergen has 289,330 people")
    runs = Path(loopguard.write("runs.jsonl", loop, back, *fine))
    Path(f"{runs}.gz").write_bytes(gzip.compress(runs.read_bytes()))
    loopguard.write("base.jsonl", *fine)
    loopguard.write("current.jsonl", *fine)
    labels = [{"id": "loop", "loop": True, "kind": "repeat", "onset_step": 1}]
    loopguard.write("labels.jsonl", *labels, {"id": "fine0", "loop": False})
    (loopguard.folder / "loopguard.toml").write_text(POLICY)
    (loopguard.folder / "my_tools.py").write_text(TOOLS)
    (loopguard.folder / "my_models.py").write_text(MODELS)
    monkeypatch.chdir(loopguard.folder)
    monkeypatch.setattr(label, "show", at_the_keyboard)
    return loopguard.folder


def at_the_keyboard(session: Session, path: Path) -> None:
    """Label one run and leave, on a screen that nobody sees."""

    async def keys(pilot: Pilot[None]) -> None:
        await pilot.press("n", "q")

    LabelApp(session, path).run(headless=True, auto_pilot=keys)


def example(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The words of the command line that the help shows, without a redirection."""
    capsys.readouterr()
    assert run([*command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    found = re.search(
        r"Example: loopguard (.*?)(?: > \S+)? (?:Arguments|Options):", text
    )
    assert found, f"the help of {' '.join(command)} shows no example"
    return shlex.split(found[1])


@pytest.mark.parametrize("command", [*commands()], ids=" ".join)
def test_the_example_of_the_help_works(
    command: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is of that command, and reads and writes what it says."""
    words = example(command, capsys)

    status = run(words)

    assert tuple(words[: len(command)]) == command
    assert status in (0, 1), capsys.readouterr().err
    for name in re.findall(r"(?:--out|-o) (\S+)", shlex.join(words)):
        assert (folder / name).stat().st_size


@pytest.mark.parametrize(
    ("args", "module"),
    [
        (("report", "runs.jsonl"), "duckdb"),
        (("report", "runs.jsonl", "--run", "loop", "--png", "a.png"), "matplotlib"),
        (("calibrate", "runs.jsonl"), "scipy"),
        (("compare", "base.jsonl", "current.jsonl"), "numpy"),
    ],
)
def test_a_missing_extra_is_one_line_that_says_what_to_install(
    args: tuple[str, ...],
    module: str,
    folder: Path,
    loopguard: Shell,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the package of an extra there is no traceback, and nothing is written."""
    for name in [*sys.modules]:
        ours = name.startswith(("loopguard_lg.analysis", "loopguard_lg.traces.store"))
        if name.partition(".")[0] == module or ours:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)

    status, out, err = loopguard(*args)

    assert (status, out) == (2, "")
    assert "pip install 'loopguard_lg[analysis]'" in err
    assert "from a clone pip install '.[analysis]'" in err
    assert err.count("\n") == 1

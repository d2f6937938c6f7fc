from __future__ import annotations

import subprocess
import sys

import pytest

from loopguard_lg.cli import main
from loopguard_lg.cli.app import app
from loopguard_lg.cli.common import counted

from .conftest import Shell

COMMANDS = [c.callback.__name__ for c in app.registered_commands if c.callback]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(loopguard: Shell, command: str) -> None:
    """Whoever asks a command for help sees how it is called."""
    name = command.replace("_", "-")

    status, out, _ = loopguard(name, "--help")

    assert status == 0
    assert f"Example: loopguard {name}" in out


def test_no_argument_is_a_call_for_help(loopguard: Shell) -> None:
    """`loopguard` alone lists the commands."""
    status, out, _ = loopguard()

    assert status == 0
    assert "Commands:" in out


def test_the_version_is_the_package_s(loopguard: Shell) -> None:
    """`--version` says name and version."""
    status, out, _ = loopguard("--version")

    assert status == 0
    assert out == "loopguard 0.1.0\n"


def test_a_shell_completes_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `--install-completion` puts into a shell is answered by the command."""
    monkeypatch.setenv("_LOOPGUARD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "loopguard cal")
    monkeypatch.setenv("COMP_CWORD", "1")

    monkeypatch.setattr(sys, "argv", ["loopguard"])

    with pytest.raises(SystemExit, match="0"):
        main()

    assert capsys.readouterr().out.split() == ["calibrate"]


def test_the_module_is_the_command() -> None:
    """`python -m loopguard_lg` passes arguments and exit status on."""
    command = [sys.executable, "-m", "loopguard_lg", "check", "nowhere.jsonl"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr == "loopguard: nowhere.jsonl: no such file\n"


def test_without_its_extra_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing typer is not a traceback."""
    monkeypatch.setitem(sys.modules, "typer", None)
    for name in [m for m in sys.modules if m.startswith("loopguard_lg.cli.")]:
        monkeypatch.delitem(sys.modules, name)

    with pytest.raises(SystemExit) as left:
        main()

    assert left.value.code == 2
    assert "pip install 'loopguard_lg[cli]'" in capsys.readouterr().err


@pytest.mark.parametrize("patience", [0.0, 60.0])
def test_a_terminal_is_shown_how_far_it_is_when_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], patience: float
) -> None:
    """The count is on standard error, and only after a while."""
    monkeypatch.setattr("loopguard_lg.cli.common.SHOW_AFTER", patience)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert list(counted(range(1_234), "runs checked")) == list(range(1_234))

    shown = capsys.readouterr()
    assert shown.out == ""
    assert ("runs checked" in shown.err) == (patience == 0.0)

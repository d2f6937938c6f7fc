from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from loopguard_lg import Budget, Policy
from loopguard_lg.analysis.explain import timeline, write_test
from loopguard_lg.analysis.replay import check
from loopguard_lg.traces.model import Trajectory, from_dict


def run(*steps: dict[str, Any]) -> Trajectory:
    """A run of these steps."""
    numbered = [{"i": i, "agent": "main", **step} for i, step in enumerate(steps)]
    return from_dict({"id": "r/1", "source": "here", "steps": numbered})


class Broken:
    """A detector with a fault in it."""

    kind: ClassVar[str] = "broken"
    shadow = False

    def observe(self, history: object) -> None:
        """Fail."""
        raise KeyError("lost")


def test_every_event_has_a_line() -> None:
    """Persons, compactions, reports and silent turns show, not only calls."""
    events = [
        {"agent": "user", "text": "find  it\nplease"},
        {"event": "compaction"},
        {"event": "progress", "text": "half way"},
        {"text": "w" * 90},
    ]

    head, *lines = timeline(Policy(budget=()), run(*events))

    assert head == "r/1, here"
    shown = [line.strip() for line in lines if line[:5].strip()]
    assert shown[:3] == [
        "0  user: find it please",
        "1  compaction",
        "2  progress: half way",
    ]
    assert shown[3].endswith("...")
    assert len(shown[3]) < 80


def test_what_the_guard_did_to_a_call_is_marked() -> None:
    """A call that was blocked, cached or failed says so."""
    call = {"tool": "x", "result": "no", "blocked": True, "cached": True, "error": True}

    lines = list(timeline(Policy(budget=()), run({"calls": [call]})))

    assert "       x({}) -> no [blocked] [cached] [failed]" in lines


def test_budgets_and_faults_are_shown() -> None:
    """A run that ends for another reason than a loop says for which."""
    policy = Policy(detectors=(Broken(),), budget=Budget(steps=1))

    text = "\n".join(timeline(policy, run({"calls": [{"tool": "x"}]})))

    assert "! broken failed: KeyError: 'lost'" in text
    assert "=> exit (rung 0): the run's budget of 1 steps is used" in text


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (None, "check(Policy(budget=()), run)"),
        ("coding", "check(Policy.load('coding', env={}), run)"),
        ("p.toml", "check(Policy.load('p.toml', env={}), run)"),
    ],
)
def test_a_written_test_has_the_policy_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str | None, code: str
) -> None:
    """The test judges by the settings that the verdict came from."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.toml").touch()
    fine = run({"text": "done"})

    test, data = write_test(fine, check(Policy(), fine), policy, "test_fine.py")

    text = test.read_text("utf-8")
    assert code in text
    assert "def test_r_1_does_not_trip() -> None:" in text
    assert data == Path("test_fine.json")
    compile(text, test, "exec")

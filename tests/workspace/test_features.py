"""What hooks and orchestrators watch for, on a real agent that edits real files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import GiveUp, LoopGuardMiddleware, Policy, Reflect
from loopguard_lg.detectors import Bloat, EditRate
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import call
from tests.workspace.coding import agent, edit, failing, policy, repository

PASS = call("run_tests")
TEST = "tests/test_price.py"
CONFIG: Any = {"configurable": {"thread_id": "1"}}


class Watched:
    """A run of an agent in a repository, and what its guard saw."""

    def __init__(self, root: Path, script: list[Any], settings: Policy | None = None):
        repository(root)
        self.found: list[str] = []
        guard = LoopGuardMiddleware(
            settings or policy(Reflect(), GiveUp()), observers=self.note
        )
        graph, self.model = agent(root, script, guard, checkpointer=InMemorySaver())
        self.graph = graph

    def note(self, event: GuardEvent) -> None:
        """Keep the kinds that were found, in order, each once."""
        kinds = [f.kind for f in event.verdict.findings if event.name == "seen"]
        self.found += [kind for kind in kinds if kind not in self.found]

    def run(self, word: str = "Add a discount to total") -> list[str]:
        """The kinds that are found, this far."""
        self.out = self.graph.invoke({"messages": [("user", word)]}, CONFIG)
        return self.found

    @property
    def refusals(self) -> list[str]:
        """Results of calls that were not executed."""
        texts = [message.text for message in self.out["messages"]]
        return [text for text in texts if text.startswith("Not executed")]


def test_three_failing_edits_are_a_loop(root: Path) -> None:
    """Two are not."""
    assert Watched(root, [PASS, *failing(2)]).run() == []


def test_the_third_failing_edit_is_named(root: Path) -> None:
    """By the edits, not by the checks."""
    assert "failing_edits" in Watched(root, [PASS, *failing(3)]).run()


def test_a_pass_resets_failing_edits(root: Path) -> None:
    """Two in vain, a pass, two in vain."""
    mended = edit("price * pieces - 2", "price * pieces")

    script = [*failing(2), mended, PASS, *failing(2)]
    assert "failing_edits" not in Watched(root, script).run()


def test_edits_that_never_apply_count(root: Path) -> None:
    """The text that they replace is not there."""
    script = [edit(f"nothing like {n}", "x") for n in range(4)]

    assert "failing_edits" in Watched(root, script).run()


def test_an_error_that_recurs_after_edits_is_a_loop(root: Path) -> None:
    """Under either of two kinds: it is the edits that lead nowhere."""
    script: list[Any] = []
    for n in range(4):
        broken = call("bash", command=f"python3 -c 'import nowhere' # {n}")
        script += [failing(4)[2 * n], broken]

    assert {"recurring_error", "failing_edits"} & {*Watched(root, script).run()}


def test_an_error_that_recurs_in_calls_that_differ_is_a_loop(root: Path) -> None:
    """The same normalised error, whatever the arguments."""
    calls = [edit("a", "b", path=f"gone{n}.py") for n in range(6)]

    assert {"recurring_error", "failing_edits"} & {*Watched(root, calls).run()}


def test_a_check_that_feeds_a_pipe_resets_nothing(root: Path) -> None:
    """Its pass may be the pipe's."""
    piped = call("bash", command="python -m pytest -q 2>&1 | tail -1; echo 9 passed")
    script = [PASS, *[turn for n in (1, 2, 3) for turn in (*failing(n)[-2:], piped)]]
    first = failing(1)

    assert "failing_edits" in Watched(root, [PASS, *first, piped, *script[1:]]).run()


def test_the_agent_is_told_once_and_then_blocked(root: Path) -> None:
    """The note says what was seen; the next edit of that file is not made."""
    watched = Watched(root, [PASS, *failing(5)])
    watched.run()

    notes = [
        request.messages[-1].text
        for request in watched.model.requests
        if "going in circles" in request.messages[-1].text
    ]
    assert "edits in a row left `run_tests` failing" in notes[0]
    assert len(notes) == 1
    assert "`price.py` was edited in circles" in watched.refusals[0]


def test_the_next_word_of_a_person_releases_the_file(root: Path) -> None:
    """The edit is made then."""
    again = edit("price * pieces - 3", "price * pieces")
    watched = Watched(root, [PASS, *failing(3), "stuck", again, PASS, "done"])
    watched.run()
    watched.run("go on")

    assert "pieces - " not in (root / "price.py").read_text()


def test_the_block_can_be_switched_off(root: Path) -> None:
    """By `loop.block_ignored` in the project's settings."""
    (root / "loopguard.toml").write_text("[loop]\nblock_ignored = false\n")
    settings = Policy.load(root / "loopguard.toml", env={})
    watched = Watched(root, [PASS, *failing(4)], settings)
    watched.run()

    assert not [text for text in watched.refusals if "price.py" in text]


def test_a_weakened_test_is_tampering(root: Path) -> None:
    """At the edit, after a check that failed."""
    script = [*failing(1), edit("assert total(2, 3) == 6", "assert True", path=TEST)]

    assert "tampering" in Watched(root, script).run()


def test_a_pass_by_test_edits_alone_is_tampering(root: Path) -> None:
    """At the pass: the expectation was made to fit."""
    script = [*failing(1), edit("(2, 3) == 6", "(2, 3) == 5", path=TEST), PASS]

    assert "tampering" in Watched(root, script).run()


def test_a_test_edit_beside_a_source_edit_is_work(root: Path) -> None:
    """Tests and sources change together."""
    script = [
        *failing(1),
        edit("(2, 3) == 6", "(2, 3) == 7", path=TEST),
        edit("price * pieces - 1", "price * pieces + 1"),
        PASS,
    ]

    assert "tampering" not in Watched(root, script).run()


def test_tampering_can_be_switched_off(root: Path) -> None:
    """By `tampering.enabled` in the project's settings."""
    (root / "loopguard.toml").write_text("[tampering]\nenabled = false\n")
    settings = Policy.load(root / "loopguard.toml", env={})
    script = [*failing(1), edit("(2, 3) == 6", "(2, 3) == 5", path=TEST), PASS]

    assert "tampering" not in Watched(root, script, settings).run()


def test_quick_edits_of_one_place_trip_the_rate(root: Path) -> None:
    """With no check between them."""
    script = [failing(5)[2 * n] for n in range(5)]
    settings = policy(Reflect(), GiveUp(), detectors=[EditRate()])

    assert Watched(root, script, settings).run() == ["edit_rate"]


def test_quick_edits_that_pass_do_not(root: Path) -> None:
    """Small and right."""
    script: list[Any] = []
    for n in range(6):
        ways = [f"price * pieces * {n + k}**0" for k in range(2)]
        script += [edit("price * pieces" if n == 0 else ways[0], ways[1]), PASS]
    settings = policy(Reflect(), GiveUp(), detectors=[EditRate()])

    assert Watched(root, script, settings).run() == []


@pytest.mark.parametrize("bloat", [Bloat(tokens=50), Bloat(output=400)])
def test_a_context_that_grows_too_large_is_bloat(root: Path, bloat: Bloat) -> None:
    """By its tokens, or by what tools have printed; the note says to hand over."""
    script = [call("bash", command="seq 1 200"), PASS]
    settings = policy(Reflect(), GiveUp(), detectors=[bloat])
    watched = Watched(root, script, settings)

    assert watched.run() == ["bloat"]
    assert any("hand over" in request.text for request in watched.model.requests)


def test_it_works_without_anybody_at_the_terminal(root: Path) -> None:
    """Nobody is asked: the run ends with its report."""
    watched = Watched(root, [PASS, *failing(9)])
    watched.graph = agent(
        root, [PASS, *failing(9)], LoopGuardMiddleware(policy(Reflect(), GiveUp()))
    )[0]
    watched.run()

    assert watched.out["loopguard_exit"]["kind"] == "failing_edits"

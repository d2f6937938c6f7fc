from __future__ import annotations

import io
import re

from rich.console import Console

from loopguard_lg.testing import demo
from tests.recording import demo as recorded


def shown() -> str:
    """What the demo prints on a terminal without colours."""
    out = io.StringIO()
    assert demo.main(Console(file=out, width=80)) == 0
    return out.getvalue()


def test_the_demo_plays_what_was_recorded() -> None:
    """Its replies are those of the recordings, to the letter."""
    assert recorded.REPLIES.read_text(encoding="utf-8") == recorded.text()


def test_the_demo_shows_the_way_out() -> None:
    """Cut off without the guard; nudged, held, rerouted and answered with it."""
    text = shown()
    marks = ["without the guard", "cut off", "with the guard", "nudge", "not executed"]
    marks += ["stronger model", "answered", "kiln.db", "loops as well", "exit"]
    marks += ["I stopped before the task was done", "saved:"]

    assert re.search(".*".join(map(re.escape, marks)), text, re.DOTALL)


def test_the_demo_counts_what_it_played() -> None:
    """Fewer model calls and fewer executed calls, by the recordings' own numbers."""
    saved = re.search(r"model calls (\d+) -> (\d+), .* (\d+) -> (\d+), tokens", shown())
    assert saved is not None
    before, after, ran_before, ran_after = map(int, saved.groups())

    assert (before, after) == (len(demo.replies("without")), len(demo.replies("with")))
    assert ran_after < ran_before

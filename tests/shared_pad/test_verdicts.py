"""No verdict depends on what other runs knew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, strategies as st
from langgraph.store.memory import InMemoryStore

from loopguard_lg import Policy, Recorder, decide, memory as memories, scratchpad
from loopguard_lg.adapters.shared_store import Entry
from loopguard_lg.steps import Event
from tests.core import wild
from tests.middleware.runs import ask
from tests.middleware.test_replay import replayed, told
from tests.shared_pad.agents import ACME, LEARNED, agent, looping

entries = st.lists(st.tuples(wild.texts, wild.texts), max_size=9)


@given(st.lists(wild.events, max_size=9), entries)
def test_no_verdict_depends_on_what_was_read(events: list[Event], found: Any) -> None:
    """Whatever happens, and whatever other runs knew."""
    alone = memories.fresh()
    knowing = {**memories.fresh(), "pad": scratchpad.recalled({}, found)}
    for event in events:
        one, alone = decide(wild.DEFAULTS, alone, event)
        other, knowing = decide(wild.DEFAULTS, knowing, event)

        assert one == other


def test_a_run_that_knew_more_replays_to_its_verdicts(tmp_path: Path) -> None:
    """A recording needs no store."""
    store, live = InMemoryStore(), []
    ACME.write(store, ("acme",), [LEARNED, Entry("a fact")])
    with Recorder(tmp_path / "run.jsonl") as recorder:
        seen = [live.append, recorder]
        agent(looping(), store, guard={"observers": seen}).invoke(ask())

    verdicts = [told(event.verdict) for event in live if event.name == "seen"]
    assert replayed(tmp_path / "run.jsonl", Policy()) == verdicts
    assert {"reflect", "escalate", "exit"} <= {verdict[1] for verdict in verdicts}

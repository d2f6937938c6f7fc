from __future__ import annotations

from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopguard_lg import AskUser, Recorder
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph.graphs import guarded, react, run, stubborn
from tests.middleware.runs import Way, laddered
from tests.middleware.test_replay import replayed, told


def test_a_recording_of_a_graph_replays_to_its_verdicts(
    way: Way, tmp_path: Path
) -> None:
    """What is asked ahead on edges leaves no trace: each event is there once."""
    live: list[tuple[Any, ...]] = []

    def note(event: GuardEvent) -> None:
        if event.name == "seen":
            live.append(told(event.verdict))

    long = [call("read", path="p" * 5_000), call("write", path="n", text="y" * 9_000)]
    weak = ScriptedModel(replies=[long], default=call("search", query="x"))
    policy = laddered(stubborn(), AskUser())
    with Recorder(tmp_path / "run.jsonl") as recorder:
        graph = guarded(
            react(weak),
            policy,
            observers=[note, recorder],
            checkpointer=InMemorySaver(),
        )
        run(way, graph)
        run(way, graph, Command(resume="try again"))

    assert replayed(tmp_path / "run.jsonl", policy) == live
    assert {"reflect", "escalate", "exit"} <= {verdict[1] for verdict in live}

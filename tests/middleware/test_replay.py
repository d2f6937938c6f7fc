from __future__ import annotations

from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopguard_lg import AskUser, Policy, Recorder, decide
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.traces.readers import read
from tests.middleware.runs import THREAD, Way, ask, guarded, laddered, same


def replayed(path: Path, policy: Policy) -> list[tuple[Any, ...]]:
    """What the engine decides on the one run that was recorded."""
    (trajectory,) = read(path)
    memory: dict[str, Any] = {}
    out = []
    for event in trajectory.events:
        verdict, memory = decide(policy, memory, event)
        out.append(told(verdict))
    return out


def told(verdict: Any) -> tuple[Any, ...]:
    """What has to be the same, live and replayed."""
    kind = verdict.finding and verdict.finding.kind
    return (verdict.i, verdict.action, verdict.rung, kind, verdict.progress)


def test_a_recording_replays_to_the_verdicts_of_the_live_run(
    way: Way, tmp_path: Path
) -> None:
    """Reflection, block, escalation, question, answer and exit come out the same."""
    live: list[tuple[Any, ...]] = []

    def note(event: GuardEvent) -> None:
        if event.name == "seen":
            live.append(told(event.verdict))

    long = [call("read", path="p" * 5_000), call("write", path="n", text="y" * 9_000)]
    strong = ScriptedModel(replies=[long, *same(9)])
    weak = ScriptedModel(replies=[long, *same(9), "found"])
    policy = laddered(strong, AskUser())
    with Recorder(tmp_path / "run.jsonl") as recorder:
        agent = guarded(
            weak, policy, observers=[note, recorder], checkpointer=InMemorySaver()
        )
        way(agent, ask(), THREAD)
        way(agent, Command(resume="try again"), THREAD)

    assert replayed(tmp_path / "run.jsonl", policy) == live
    assert {"reflect", "escalate", "exit"} <= {verdict[1] for verdict in live}

"""A recording of a run in which the acts acted replays to the verdicts of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolNode
from tenacity import wait_fixed

from loopguard_lg import (
    Escalate,
    GiveUp,
    Ladder,
    LoopGuardMiddleware,
    Policy,
    Recorder,
    Reflect,
    ToolPolicy,
    guard_graph,
)
from loopguard_lg.cli.app import run
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.traces.readers import read
from tests.acts import test_retries as retried
from tests.graph import graphs
from tests.middleware.runs import THREAD, Way, ask, same
from tests.middleware.test_replay import replayed, told

READ = call("read", path="a")
WRITE = call("write", path="n", text="x")
OUT = call("fetch", what="x")
RUNGS = (Reflect(samples=2, hide_tool=True), Escalate(turns=2))
POLICY = Policy(
    tools={
        "read": ToolPolicy(role="read", cache=True),
        "write": ToolPolicy(role="write", once=True),
        "fetch": ToolPolicy(retry=True, wait=wait_fixed(1)),
        "send": ToolPolicy(role="poll", wait=wait_fixed(5)),
    },
    ladder=Ladder(*RUNGS, GiveUp()),
)
"""All acts at once; `send` stands for a poll."""


def script() -> ScriptedModel:
    """A run in which each act has something to do, and that ends in a loop."""
    poll = call("send", what="job")
    first = [READ, [READ, call("read", path="b")], WRITE, [WRITE, READ], OUT, poll]
    return ScriptedModel(replies=[*first, poll, poll, *same(30)])


@pytest.fixture(autouse=True)
def _outage() -> None:
    retried.slept.clear()
    retried.troubles[:] = [retried.BUSY, retried.BUSY]


def agent(observers: Any) -> Any:
    """An agent in a middleware's care."""
    guard = LoopGuardMiddleware(POLICY, observers=observers, **retried.NO_TIME)
    saver = InMemorySaver()
    return create_agent(script(), retried.ALL, middleware=[guard], checkpointer=saver)


def graph(observers: Any) -> Any:
    """The same as a guarded graph, which can't sample."""
    policy = POLICY.replace(
        ladder=Ladder(Reflect(hide_tool=True), *RUNGS[1:], GiveUp())
    )
    built = guard_graph(
        graphs.react(script(), tools=ToolNode(retried.ALL)),
        policy,
        model="agent",
        tools="tools",
        observers=observers,
        **retried.NO_TIME,
    )
    return built.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("made", [agent, graph])
def test_a_run_with_every_act_replays_to_its_verdicts(
    made: Any, way: Way, tmp_path: Path
) -> None:
    """Cached, polled, retried and receipted steps, samples and refused calls."""
    live: list[tuple[Any, ...]] = []

    def note(event: GuardEvent) -> None:
        if event.name == "seen":
            live.append(told(event.verdict))

    path = tmp_path / "run.jsonl"
    with Recorder(path) as recorder:
        way(made([note, recorder]), ask(), {**THREAD, "recursion_limit": 90})

    (trajectory,) = read(path)
    steps = [s for event in trajectory.events for s in getattr(event, "steps", ())]
    assert replayed(path, POLICY) == live
    assert sum(step.cached for step in steps) == 2
    assert {step.attempts for step in steps} == {1, 3}
    assert live[-1][1] == "exit"


FILE = """
[ladder.reflect]
samples = 2
[tools.read]
role = "read"
cache = true
[tools.write]
role = "write"
once = true
"""


def test_the_command_line_finds_what_the_guard_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`loopguard check` with the policy of the run names the same loop and turn."""
    seen: list[GuardEvent] = []
    file, path = tmp_path / "policy.toml", tmp_path / "run.jsonl"
    file.write_text(FILE)
    with Recorder(path) as recorder:
        guard = LoopGuardMiddleware(
            Policy.load(file, env={}), observers=[seen.append, recorder]
        )
        model = ScriptedModel(replies=[READ, WRITE, *[[READ, WRITE]] * 9, *same(9)])
        create_agent(model, retried.ALL, middleware=[guard]).invoke(ask(), THREAD)
    found = next(event.verdict for event in seen if event.name == "detected")

    status = run(["check", str(path), "--policy", str(file), "--json"])
    told_ = json.loads(capsys.readouterr().out)
    assert status == 1
    assert found.finding is not None
    assert (told_["kind"], told_["step"]) == (found.finding.kind, found.i)

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool

from loopguard_lg import (
    Human,
    LoopGuardMiddleware,
    Policy,
    Recorder,
    Step,
    Turn,
    Verdict,
    decide,
)
from loopguard_lg.analysis.replay import verdicts
from loopguard_lg.budgets import Exceeded
from loopguard_lg.detectors import Bloat
from loopguard_lg.errors import PolicyError
from loopguard_lg.hooks import GuardEvent, Name
from loopguard_lg.steps import Compaction, Event, Tokens
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import read

DEFAULTS = Policy()


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"no entry for naïve {word}"


def search(result: str = "no hits", **args: Any) -> Turn:
    """A turn with one search."""
    step = Step(tool="search", args={"q": "x", **args}, result=result, error=False)
    return Turn(agent="main", steps=(step,), tokens=Tokens(input=10, output=2))


def seen(event: Event, thread: str = "t", i: int = 0) -> GuardEvent:
    """What an observer is told of an event."""
    verdict = Verdict(i=i)
    return GuardEvent(
        name="seen", thread=thread, agent="main", event=event, verdict=verdict
    )


def live(
    recorder: Recorder, events: list[Event], policy: Policy = DEFAULTS
) -> list[Verdict]:
    """Run the engine over `events` as an adapter does."""
    memory: dict[str, Any] = {}
    made = []
    for event in events:
        verdict, memory = decide(policy, memory, event)
        made.append(verdict)
        about = {"thread": "t", "agent": "main", "verdict": verdict}
        recorder(GuardEvent(name="seen", event=event, **about))
        if verdict.action == "reflect":
            recorder(GuardEvent(name="reflected", event=None, text="stop", **about))
    return made


def lines(path: Path) -> list[dict[str, Any]]:
    """The trajectories of a file."""
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def test_a_recording_replays_to_the_verdicts_of_the_live_run(tmp_path: Path) -> None:
    """Live and replayed verdicts are equal, one by one."""
    long = "line\n" * 3_000
    run: list[Event] = [Human(text="find x"), *[search()] * 5, search(long, page=1)]
    run += [Compaction(agent="main"), *[search(long, page=1)] * 4]
    with Recorder(tmp_path / "runs.jsonl") as recorder:
        made = live(recorder, run)

    (recorded,) = read(recorder.path)

    assert isinstance(recorded, Trajectory)
    assert [verdict for _, verdict in verdicts(Policy(), recorded)] == made
    assert "reflect" in [verdict.action for verdict in made]


def test_an_intervention_is_a_step_of_its_own(tmp_path: Path) -> None:
    """What was said to the agent stands after the turn that caused it."""
    with Recorder(tmp_path / "runs.jsonl") as recorder:
        made = live(recorder, [search()] * 4)
    at = next(verdict.i for verdict in made if verdict.action == "reflect")

    (told,) = [s for s in lines(recorder.path)[0]["steps"] if "event" in s]

    assert told["event"] == "intervention"
    assert (told["i"], told["rung"], told["text"]) == (at, 1, "stop")


def test_digests_are_of_what_was_not_clipped(tmp_path: Path) -> None:
    """Two results that differ only in what is left out have different digests."""
    with Recorder(tmp_path / "runs.jsonl") as recorder:
        for i, middle in enumerate("ab"):
            recorder(seen(search("x" * 5_000 + middle + "x" * 5_000), i=i))

    first, second = (s["calls"][0] for s in lines(recorder.path)[0]["steps"])

    assert first["result"] == second["result"]
    assert first["result_hash"] != second["result_hash"]
    assert first["args_hash"] == second["args_hash"]
    assert first["result_bytes"] == 10_001


@pytest.mark.parametrize("letter", ["x", "é", "検", "\ud800"])
def test_output_has_as_many_bytes_in_a_recording(tmp_path: Path, letter: str) -> None:
    """A limit on tool output is passed at the same step live and replayed."""
    policy = Policy(detectors=[Bloat(output=30_000)])
    events = [search(letter * 5_000, n=n) for n in range(8)]
    with Recorder(tmp_path / "run.jsonl") as recorder:
        made = live(recorder, events, policy)

    (run,) = read(tmp_path / "run.jsonl")

    assert any(verdict.finding for verdict in made)
    assert made == [verdict for _, verdict in verdicts(policy, run)]


def test_a_run_is_written_when_it_ends(tmp_path: Path) -> None:
    """`end` writes one line with the outcome; the thread may go on after it."""
    recorder = Recorder(
        tmp_path / "runs.jsonl", source="here", versions={"prompt": "2"}
    )
    for success in (True, None):
        recorder(seen(Human(text="hi")))
        recorder.end("t", success=success)
    recorder.end("t")

    first, second = lines(recorder.path)

    assert (first["id"], first["success"], first["source"]) == ("t", True, "here")
    assert first["versions"] == {"prompt": "2"}
    assert (second["id"], second["success"]) == ("t#2", None)


def test_success_is_a_truth_value(tmp_path: Path) -> None:
    """Readers would refuse the line, and with it the run."""
    wrong: Any = "yes"
    with Recorder(tmp_path / "runs.jsonl") as recorder:
        live(recorder, [search()])
        with pytest.raises(PolicyError, match="success='yes': give True, False or"):
            recorder.end("t", success=wrong)

    assert [line["success"] for line in lines(recorder.path)] == [None]


def test_a_step_taken_again_replaces_what_came_after_it(tmp_path: Path) -> None:
    """After a retry, or from an older checkpoint, the path that counts is recorded."""
    with Recorder(tmp_path / "runs.jsonl") as recorder:
        for i, text in [(0, "a"), (1, "b"), (2, "c"), (1, "d"), (1, "d"), (2, "e")]:
            recorder(seen(Human(text=text), i=i))

    (run,) = lines(recorder.path)

    assert [step["text"] for step in run["steps"]] == ["a", "d", "e"]


def test_a_thread_that_begins_anew_is_another_run(tmp_path: Path) -> None:
    """Without a checkpointer, a second run of a thread starts from nothing."""
    with Recorder(tmp_path / "runs.jsonl") as recorder:
        for i, text in [(0, "a"), (0, "a"), (1, "b"), (0, "c")]:
            recorder(seen(Human(text=text), i=i))

    texts = [[step["text"] for step in run["steps"]] for run in lines(recorder.path)]

    assert texts == [["a", "b"], ["c"]]


def test_agents_of_one_thread_are_apart(tmp_path: Path) -> None:
    """Two guards count by themselves, so each has a recording that replays."""
    with Recorder(tmp_path / "runs.jsonl") as recorder:
        for agent in ("lead", "scout", "lead"):
            event = GuardEvent(
                name="seen",
                thread="t",
                agent=agent,
                event=Turn(agent=agent),
                verdict=Verdict(i=0),
            )
            recorder(event)
        recorder.end("t")

    runs = lines(recorder.path)

    assert [(run["id"], run["agents"]) for run in runs] == [
        ("t", ["lead"]),
        ("t#2", ["scout"]),
    ]


def test_a_real_agent_s_recording_replays(tmp_path: Path) -> None:
    """What the middleware decided in an agent, replay decides again."""
    made: list[Verdict] = []
    with Recorder(tmp_path / "runs.jsonl") as recorder:

        def watch(event: GuardEvent) -> None:
            made.extend([event.verdict] if event.name == "seen" else [])

        guard = LoopGuardMiddleware(observers=[recorder, watch])
        model = ScriptedModel([call("look_up", word="x")] * 6, default="done")
        agent = create_agent(model, [look_up], middleware=[guard])
        agent.invoke({"messages": [("user", "What is x?")]})

    (recorded,) = read(recorder.path)

    assert isinstance(recorded, Trajectory)
    assert recorded.extra["agents"] == ["user", "main"]
    assert [verdict for _, verdict in verdicts(Policy(), recorded)] == made
    assert [v.action for v in made if v.action != "continue"][:2] == [
        "reflect",
        "escalate",
    ]


def test_nothing_is_written_for_nothing(tmp_path: Path) -> None:
    """A recorder that saw no run makes no file."""
    with Recorder(tmp_path / "runs.jsonl") as recorder:
        recorder.end("t")

    assert not recorder.path.exists()


def test_threads_may_feed_one_recorder_at_once(tmp_path: Path) -> None:
    """Every line is whole and every step is in it."""
    recorder = Recorder(tmp_path / "runs.jsonl")

    def work(name: str) -> None:
        for i in range(50):
            recorder(seen(search(), name, i))
        recorder.end(name)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [f"t{n}" for n in range(40)]))

    written = lines(recorder.path)
    assert {run["id"] for run in written} == {f"t{n}" for n in range(40)}
    assert all(len(run["steps"]) == 50 for run in written)


def test_a_compressed_recording_grows_by_members(tmp_path: Path) -> None:
    """A `.gz` file is appended to without being read."""
    path = tmp_path / "runs.jsonl.gz"
    for name in ("a", "b"):
        with Recorder(path) as recorder:
            recorder(seen(search(), name))

    assert gzip.decompress(path.read_bytes()).count(b"\n") == 2
    assert [getattr(run, "id", None) for run in read(path)] == ["a", "b"]


def said(name: Name, i: int = 0) -> GuardEvent:
    """What an observer is told when the guard intervenes."""
    return GuardEvent(
        name=name,
        thread="t",
        agent="main",
        event=None,
        verdict=Verdict(i=i),
        text=name,
    )


def test_a_run_that_the_guard_ended_is_on_disk_at_once(tmp_path: Path) -> None:
    """Nothing has to be closed for it; the thread may go on in a run of its own."""
    recorder = Recorder(tmp_path / "runs.jsonl")
    recorder(seen(search()))
    recorder(said("exited"))
    (ended,) = lines(recorder.path)
    recorder(seen(search(), i=1))
    recorder.end("t")

    assert [step.get("name") for step in ended["steps"]] == [None, "exited"]
    assert [(run["id"], len(run["steps"])) for run in lines(recorder.path)] == [
        ("t", 2),
        ("t#2", 1),
    ]


def test_the_run_not_seen_for_longest_makes_room(tmp_path: Path) -> None:
    """Beyond `most` open runs one is written, and it is the one that is quiet."""
    recorder = Recorder(tmp_path / "runs.jsonl", most=2)
    for thread, i in [("a", 0), ("b", 0), ("a", 1), ("c", 0), ("a", 2), ("d", 0)]:
        recorder(seen(search(), thread, i))

    assert [run["id"] for run in lines(recorder.path)] == ["b", "c"]
    recorder.close()
    assert [len(run["steps"]) for run in lines(recorder.path)] == [1, 1, 3, 1]


def test_a_recorder_s_memory_does_not_grow_with_its_threads(tmp_path: Path) -> None:
    """Four hundred threads leave no more behind than two hundred."""
    recorder = Recorder(tmp_path / "runs.jsonl", most=9)
    held = []
    for n in range(400):
        recorder(seen(Human(text="hi"), f"thread {n}"))
        if n % 200 == 199:
            held.append(sum(len(v) for v in vars(recorder).values() if type(v) is dict))

    assert held[0] == held[1]
    assert len(lines(recorder.path)) == 391


def test_an_exit_on_a_budget_says_so(tmp_path: Path) -> None:
    """The recording tells a run that was capped from one that went in circles."""
    file = tmp_path / "r.jsonl"
    out = Exceeded(limit="steps", spent=1, allowed=1, scope="run")
    verdict = Verdict(action="exit", exceeded=out)
    with Recorder(file) as recorder:
        recorder(seen(search()))
        about: dict[str, Any] = {"thread": "t", "agent": "main", "event": None}
        recorder(GuardEvent(name="exited", verdict=verdict, **about))

    (run,) = read(file)
    assert isinstance(run, Trajectory)
    assert (run.steps[-1]["name"], run.steps[-1]["reason"]) == ("exited", "budget")


@pytest.mark.parametrize("name", ["reflected", "escalated", "asked"])
def test_an_intervention_cuts_nothing_off(tmp_path: Path, name: Name) -> None:
    """One on an earlier turn than the newest leaves the run as it is."""
    with Recorder(tmp_path / "runs.jsonl") as recorder:
        for event in [seen(search(), i=4), seen(search(), i=5), said(name, 0)]:
            recorder(event)
        recorder(seen(search(), i=5))
        recorder(said(name, 2))
        recorder(seen(search(), i=6))

    (run,) = lines(recorder.path)

    assert [step["i"] for step in run["steps"]] == [4, 5, 2, 6]


def test_an_intervention_alone_is_no_run(tmp_path: Path) -> None:
    """What is said where nothing was seen is not recorded."""
    with Recorder(tmp_path / "runs.jsonl") as recorder:
        recorder(said("exited"))

    assert not recorder.path.exists()


@pytest.mark.parametrize(
    "value", ["\ud800", 1 << 80, {1: {2: "\udfff"}}, (1, b"x"), {"x"}, float("nan")]
)
def test_what_is_not_json_is_written_all_the_same(tmp_path: Path, value: Any) -> None:
    """Odd arguments of a model never cost the recording."""
    with Recorder(tmp_path / "runs.jsonl") as recorder:
        recorder(seen(search(odd=value)))

    (run,) = read(recorder.path)
    assert isinstance(run, Trajectory)
    assert len(run.events) == 1

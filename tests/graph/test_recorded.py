"""Each surface tells observers of each event once, so that recordings replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint

from loopguard_lg import AskUser, Budget, GuardedToolNode, Policy, Recorder, guarded
from loopguard_lg.adapters.exits import warn_unasked
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.steps import Human, Turn
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.traces.readers import read
from tests.graph import graphs
from tests.graph.graphs import stubborn
from tests.graph.test_functional import Agent, awaited, by_tasks, given, plain
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    executed,
    guarded as agent_of,
    laddered,
    same,
)
from tests.middleware.test_replay import replayed, told

functions = pytest.mark.parametrize("agent", [plain, by_tasks, awaited])


class Seen:
    """An observer that keeps what the engine was fed."""

    def __init__(self) -> None:
        self.events: list[GuardEvent] = []

    def __call__(self, event: GuardEvent) -> None:
        """Keep it if it is one of the engine's."""
        if event.name == "seen":
            self.events.append(event)

    @property
    def verdicts(self) -> list[tuple[Any, ...]]:
        """What has to be the same in a replay."""
        return [told(event.verdict) for event in self.events]

    @property
    def kinds(self) -> list[type]:
        """What the events are."""
        return [type(event.event) for event in self.events]


def reads(count: int) -> list[Any]:
    """Calls that get on."""
    return [call("read", path=f"p{n}") for n in range(count)]


@functions
def test_functions_tell_of_a_turn_once(agent: Agent) -> None:
    """As many turns are seen as the model was called, counted from the start."""
    seen = Seen()

    agent(ScriptedModel(replies=[*reads(6), "found"]), Policy(), observers=seen)(
        given()
    )

    assert seen.kinds == [Human, *[Turn] * 7]
    assert [event.verdict.i for event in seen.events] == [*range(8)]


@functions
def test_a_budget_of_a_thread_counts_the_steps_of_functions_once(agent: Agent) -> None:
    """A budget with room for the honest run lets it end; the next call is too much."""
    policy = Policy(budget=Budget(steps=10, scope="thread"))

    enough = agent(ScriptedModel(replies=[*reads(9), "found"]), policy)(given())
    short = agent(ScriptedModel(replies=[*reads(12), "found"]), policy)(given())

    assert enough[-1].text == "found"
    report = short[-1].response_metadata["loopguard_exit"]
    assert (report["reason"], report["usage"]["steps"]) == ("budget", 10)


@functions
def test_a_recording_of_functions_replays_to_its_verdicts(
    agent: Agent, tmp_path: Path
) -> None:
    """Reflection, escalation and exit come out the same."""
    seen, policy = Seen(), Policy()
    with Recorder(tmp_path / "run.jsonl") as recorder:
        model = ScriptedModel(replies=same(9))
        agent(model, policy, observers=[seen, recorder])(given())

    assert replayed(tmp_path / "run.jsonl", policy) == seen.verdicts
    assert {"reflect", "escalate", "exit"} <= {v[1] for v in seen.verdicts}


def test_a_run_that_others_began_is_told_of_once() -> None:
    """Functions that are handed a conversation hear all of it, and then what is new."""
    seen = Seen()
    model = ScriptedModel(replies=[*reads(3), "found"])
    other = ScriptedModel(replies=reads(1)).invoke("find it")
    result = graphs.BY_NAME["read"].invoke(other.tool_calls[0])

    plain(model, Policy(), observers=seen)([*given(), other, result])

    assert seen.kinds == [Human, *[Turn] * 5]


def test_a_step_is_told_of_under_its_thread() -> None:
    """What functions do without a model is not a run of its own."""
    seen = Seen()

    @guarded
    def double(n: int) -> int:
        return 2 * n

    @entrypoint(checkpointer=InMemorySaver())
    @guarded(Policy(), observers=seen)
    def work(n: int) -> int:
        return double(n)

    work.invoke(2, THREAD)

    assert [event.thread for event in seen.events] == ["t"]


def node_graph(model: Any, policy: Policy | None = None, **settings: Any) -> Any:
    """The usual graph with the guarded node in the place of its tool node."""
    node = GuardedToolNode(TOOLS, policy, **settings)
    return graphs.react(model, tools=node).compile(checkpointer=InMemorySaver())


def test_a_recording_of_a_tool_node_replays_to_its_verdicts(
    way: Way, tmp_path: Path
) -> None:
    """The word and each batch are in the file once, under the thread."""
    seen, policy = Seen(), Policy()
    with Recorder(tmp_path / "run.jsonl") as recorder:
        model = ScriptedModel(replies=[*same(4), *reads(2), "found"])
        graph = node_graph(model, policy, observers=[seen, recorder])
        graphs.run(way, graph)

    assert seen.kinds == [Human, *[Turn] * 6]
    assert replayed(tmp_path / "run.jsonl", policy) == seen.verdicts
    (run,) = read(tmp_path / "run.jsonl")
    assert run.id == "t"
    assert {"reflect", "escalate"} <= {v[1] for v in seen.verdicts}


@pytest.mark.parametrize("scope", ["run", "thread"])
def test_a_tool_node_tells_of_each_word_once(way: Way, scope: Any) -> None:
    """A second run in the thread is told of without the first one."""
    seen, policy = Seen(), Policy(budget=Budget(steps=90, scope=scope))
    model = ScriptedModel(replies=[*reads(2), "found", *reads(2), "found"])
    graph = node_graph(model, policy, observers=seen)

    for word in ("find it", "and now?"):
        way(graph, {"messages": [HumanMessage(word)]}, THREAD)

    words = [e.event.text for e in seen.events if isinstance(e.event, Human)]
    assert (words, len(executed)) == (["find it", "and now?"], 4)


@functions
def test_what_can_not_ask_says_so_once(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a checkpointer nobody is asked: the log names agent and reason."""
    warn_unasked.cache_clear()
    policy = laddered(ScriptedModel(replies=same(9)), AskUser())

    runs = [agent(ScriptedModel(replies=same(9)), policy)(given()) for _ in "ab"]

    assert all(run[-1].response_metadata["loopguard_exit"] for run in runs)
    (said,) = [text for text in caplog.messages if "checkpointer" in text]
    assert "'agent' can't ask a person (AskUser)" in said


def test_a_checkpointer_that_is_missing_is_said_by_the_middleware(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    """The line comes with the run that would have asked, and not before."""
    warn_unasked.cache_clear()
    agent = agent_of(ScriptedModel(replies=same(9)), laddered(stubborn(), AskUser()))
    assert caplog.messages == []

    way(agent, ask(), {})

    (said,) = [text for text in caplog.messages if "checkpointer" in text]
    assert "as with GiveUp()" in said

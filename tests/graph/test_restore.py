"""Going back for real: channels put back in a run, and forks of a thread."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends.utils import create_file_data
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import StateGraph
from langgraph.types import Command

from loopguard_lg import (
    Escalate,
    GiveUp,
    Ladder,
    LoopGuardMiddleware,
    Policy,
    Reflect,
    ToolPolicy,
)
from loopguard_lg.adapters.restore import (
    afork_from_last_good,
    fork_from_last_good,
)
from loopguard_lg.errors import NothingGoodError, PolicyError
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.testing.histories import assert_valid_history
from tests.graph.graphs import Reporting, guarded, react, run
from tests.middleware.runs import THREAD, TOOLS, Way, ask, executed, same


def restoring(*keys: str) -> Policy:
    """A policy that puts these keys back when it escalates."""
    return Policy(ladder=Ladder(Reflect(), Escalate(restore=keys), GiveUp()))


def todo(text: str) -> dict[str, Any]:
    """An entry of a list of things to do."""
    return {"content": text, "status": "pending"}


def plans(text: str) -> Any:
    """A call that writes the list anew."""
    return call("write_todos", todos=[todo(text)])


LOOP = [call("search", query="x"), plans("astray")]
PLANNED = [plans("good"), call("read", path="a"), *[LOOP] * 4, "found"]


def planner(saver: Any, *keys: str) -> Any:
    """An agent that writes a plan, makes progress, and then loses its way."""
    model = ScriptedModel(replies=[*PLANNED, "found"])
    guard = LoopGuardMiddleware(restoring(*keys))
    middleware = [guard, TodoListMiddleware()]
    return create_agent(model, TOOLS, middleware=middleware, checkpointer=saver)


def test_a_plan_is_put_back_to_the_last_good_point(way: Way) -> None:
    """What the loop did to it is undone when the guard escalates."""
    kept = run(way, planner(InMemorySaver()))
    back = run(way, planner(InMemorySaver(), "todos"))

    assert kept["todos"] == [todo("astray")]
    assert back["todos"] == [todo("good")]
    assert_valid_history(back["messages"], request=False)


def test_it_is_read_back_from_a_file(tmp_path: Path) -> None:
    """With SQLite, sync and on an event loop."""
    path = str(tmp_path / "saver.sqlite")
    with SqliteSaver.from_conn_string(path) as saver:
        state = planner(saver, "todos").invoke(ask(), THREAD)

    async def again() -> Any:
        async with AsyncSqliteSaver.from_conn_string(path + "2") as saver:
            return await planner(saver, "todos").ainvoke(ask(), THREAD)

    assert state["todos"] == [todo("good")] == asyncio.run(again())["todos"]


def test_files_that_are_kept_as_changes_are_put_back() -> None:
    """Deepagents keeps its files in a delta channel."""

    @tool
    def scribble(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write a file, and say nothing new."""
        said = ToolMessage("no results", tool_call_id=tool_call_id)
        files = {"/b": create_file_data("astray")}
        return Command(update={"files": files, "messages": [said]})

    good = call("write_file", file_path="/a", content="good")
    model = ScriptedModel(replies=[good, *[call("scribble")] * 4, "found"])
    agent = create_deep_agent(
        model=model,
        tools=[scribble],
        middleware=[LoopGuardMiddleware(restoring("files"))],
        checkpointer=InMemorySaver(),
    )

    state = agent.invoke(ask(), THREAD)

    assert set(state["files"]) == {"/a"}


class Noting(Reporting):
    """Messages, and what nodes add beside them."""

    notes: Annotated[list[str], operator.add]
    page: str


def noting(model: ScriptedModel) -> StateGraph[Any, Any, Any, Any]:
    """A graph whose extra node notes each lap."""
    builder = react(model, Noting)
    builder.edges.discard(("tools", "agent"))

    def lap(state: Noting) -> dict[str, Any]:
        text = state["messages"][-1].text
        return {"notes": [text[:12]], "page": text}

    builder.add_node("lap", lap)
    builder.add_edge("tools", "lap")
    builder.add_edge("lap", "agent")
    return builder


def test_keys_with_and_without_a_reducer_are_put_back_in_a_graph(way: Way) -> None:
    """The stronger model's node sees them as they were, too."""
    seen: list[Any] = []
    model = ScriptedModel(replies=[call("read", path="a"), *same(4), "found"])

    def strong(state: Noting) -> dict[str, Any]:
        seen.append((state["notes"], state["page"][:8]))
        return {"messages": [("ai", "found")]}

    graph = guarded(
        noting(model),
        restoring("notes", "page"),
        stronger=strong,
        checkpointer=InMemorySaver(),
    )

    state = run(way, graph)

    assert seen == [(["contents of "], "contents")]
    assert (state["notes"], state["page"][:8]) == seen[0]


def test_what_the_stronger_node_writes_itself_wins(way: Way) -> None:
    """A key is not written twice in one step."""
    model = ScriptedModel(replies=[*same(4)])
    graph = guarded(
        noting(model),
        restoring("page"),
        stronger=lambda _: {"messages": [("ai", "found")], "page": "mine"},
        checkpointer=InMemorySaver(),
    )

    assert run(way, graph)["page"] == "mine"


@pytest.mark.parametrize(
    ("saver", "keys", "says"),
    [
        (None, ("todos",), "no checkpoint"),
        (InMemorySaver(), ("todo",), "no channel 'todo'"),
    ],
)
def test_what_cannot_be_put_back_is_logged_and_the_run_goes_on(
    saver: Any, keys: tuple[str, ...], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is raised into the run."""
    state = planner(saver, *keys).invoke(ask(), THREAD)

    assert state["messages"][-1].text == "found"
    assert says in caplog.text


@pytest.mark.parametrize("wrong", ["todos", [3], ["messages"], ["loopguard_exit"]])
def test_a_wrong_key_is_named(wrong: Any) -> None:
    """Messages and the guard's own keys are not for this."""
    with pytest.raises(PolicyError, match="Escalate.restore="):
        Escalate(restore=wrong)


def agent_with(model: ScriptedModel, saver: Any) -> Any:
    """An agent with the guard."""
    guard = LoopGuardMiddleware()
    return create_agent(model, TOOLS, middleware=[guard], checkpointer=saver)


def graph_with(model: ScriptedModel, saver: Any) -> Any:
    """A graph with the guard."""
    return guarded(react(model), checkpointer=saver)


Host = Callable[[ScriptedModel, Any], Any]
ASTRAY = [call("read", path="a"), *same(4), "nothing"]


@pytest.fixture(params=[agent_with, graph_with])
def host(request: pytest.FixtureRequest) -> Host:
    """Each host of a guard."""
    found: Host = request.param
    return found


@pytest.fixture(params=["sync", "async"])
def forks(request: pytest.FixtureRequest) -> Any:
    """Both ways to make a fork."""
    if request.param == "sync":
        return fork_from_last_good
    return lambda *args, **more: asyncio.run(afork_from_last_good(*args, **more))


def test_a_fork_goes_on_from_the_last_good_point(host: Host, forks: Any) -> None:
    """Finished tools do not run again, and the model is told what led nowhere."""
    model = ScriptedModel(replies=[*ASTRAY, "found"])
    graph = host(model, InMemorySaver())
    graph.invoke(ask(), THREAD)
    before = list(executed)

    state = graph.invoke(None, forks(graph, THREAD))

    kinds = [m.type for m in state["messages"]]
    assert kinds == ["human", "ai", "tool", "human", "ai"]
    assert "went in circles" in state["messages"][3].text
    assert (executed, state["messages"][-1].text) == (before, "found")


def test_what_was_spent_stays_spent_in_the_fork(host: Host, forks: Any) -> None:
    """A budget can't be had twice by going back; what was ruled out is known."""
    graph = host(ScriptedModel(replies=[*ASTRAY, "found"]), InMemorySaver())
    graph.invoke(ask(), THREAD)
    old = graph.get_state(THREAD).values["loopguard"]

    new = graph.get_state(forks(graph, THREAD)).values["loopguard"]

    assert new["used"] == old["used"]
    assert new["pad"]["tried"] == old["pad"]["tried"]


def test_the_old_branch_stays_and_a_hint_can_be_given(host: Host) -> None:
    """The fork is another checkpoint of the thread."""
    model = ScriptedModel(replies=[*ASTRAY, "found"])
    graph = host(model, InMemorySaver())
    graph.invoke(ask(), THREAD)
    old = graph.get_state(THREAD).config

    hint = {"messages": [("user", "look in b")]}
    graph.invoke(None, fork_from_last_good(graph, THREAD, hint))

    assert model.requests[-1].messages[-1].text == "look in b"
    assert graph.get_state(old).values["messages"][-1].text == "nothing"


def test_a_thread_that_lost_its_way_at_once_goes_back_to_its_word(host: Host) -> None:
    """Where nothing was good, the beginning is."""
    model = ScriptedModel(replies=[*same(4), "nothing", "found"])
    graph = host(model, InMemorySaver())
    graph.invoke(ask(), THREAD)

    state = graph.invoke(None, fork_from_last_good(graph, THREAD))

    assert [m.type for m in state["messages"]] == ["human", "human", "ai"]


def test_a_fork_at_its_word_is_the_same_run(host: Host, forks: Any) -> None:
    """There, too, a budget can't be had twice by going back."""
    model = ScriptedModel(replies=[*same(4), "nothing", "found"])
    graph = host(model, InMemorySaver())
    graph.invoke(ask(), THREAD)

    branch = forks(graph, THREAD)
    forked = graph.get_state(branch).values["loopguard"]["used"]
    graph.invoke(None, branch)
    after = graph.get_state(THREAD).values["loopguard"]["used"]

    assert forked["run"]["model_calls"] == 5
    assert (after["run"]["model_calls"], after["thread"]["model_calls"]) == (6, 6)


def test_a_write_that_was_made_once_is_not_made_again_in_a_fork() -> None:
    """The state goes back and the world does not: its receipt is known."""
    write = call("write", path="a", text="b")
    model = ScriptedModel(replies=[write, *same(4), "nothing", write, "found"])
    policy = Policy(tools={"write": ToolPolicy(role="write", once=True)})
    guard = LoopGuardMiddleware(policy)
    agent = create_agent(model, TOOLS, middleware=[guard], checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)

    state = agent.invoke(None, fork_from_last_good(agent, THREAD))

    assert executed.count("write a") == 1
    assert state["messages"][-1].text == "found"


def test_without_a_good_point_there_is_no_fork(forks: Any) -> None:
    """A thread that no guard has watched knows none."""
    agent = create_agent(
        ScriptedModel(replies=["found"]), TOOLS, checkpointer=InMemorySaver()
    )
    agent.invoke(ask(), THREAD)

    with pytest.raises(NothingGoodError, match="no good point is known"):
        forks(agent, THREAD)


def test_where_only_the_end_is_kept_there_is_no_fork(host: Host, forks: Any) -> None:
    """With `durability="exit"` a run leaves one checkpoint."""
    graph = host(ScriptedModel(replies=ASTRAY), InMemorySaver())
    graph.invoke(ask(), THREAD, durability="exit")

    with pytest.raises(NothingGoodError, match="is gone"):
        forks(graph, THREAD)


def test_a_deep_agent_is_forked_as_well() -> None:
    """Its messages are a delta channel, which only the graph can read."""
    replies = [call("write_file", file_path="/a", content="x"), *[LS] * 4, "no", "yes"]
    agent = create_deep_agent(
        model=ScriptedModel(replies=replies),
        middleware=[LoopGuardMiddleware()],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(ask(), THREAD)

    state = agent.invoke(None, fork_from_last_good(agent, THREAD))

    kinds = [m.type for m in state["messages"]]
    assert kinds == ["human", "ai", "tool", "human", "ai"]


LS = call("ls", path="/nowhere")

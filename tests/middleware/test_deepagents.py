from __future__ import annotations

from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import StateBackend
from deepagents.middleware.summarization import SummarizationMiddleware
from langchain.agents.middleware import TodoListMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopguard_lg import Budget, LoopGuardMiddleware, Policy
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    Way,
    ask,
    executed,
    laddered,
    last,
    notes,
    results,
    same,
)


def deep(model: Any, policy: Policy | None = None, **settings: Any) -> Any:
    """A deep agent with the guard."""
    return create_deep_agent(
        model,
        TOOLS,
        middleware=[LoopGuardMiddleware(policy), *settings.pop("middleware", ())],
        checkpointer=InMemorySaver(),
        **settings,
    )


def researcher(replies: list[Any], *, guarded: bool = True, **more: Any) -> Any:
    """A subagent, with or without a guard of its own."""
    return {
        "name": more.get("name", "researcher"),
        "description": "Looks things up.",
        "system_prompt": "Look it up.",
        "model": ScriptedModel(replies=replies, loop=True),
        "tools": TOOLS,
        "middleware": [LoopGuardMiddleware()] if guarded else [],
    }


def task(kind: str, what: str = "look it up") -> Any:
    """A call of the subagent tool."""
    return call("task", description=what, subagent_type=kind)


def used(agent: Any) -> dict[str, float]:
    """What the guard counted for the run."""
    spent: dict[str, float] = agent.get_state(THREAD).values["loopguard"]["used"]["run"]
    return spent


def test_files_and_todos_work(way: Way) -> None:
    """Tools that return commands keep all of them."""
    todos = [{"content": "look", "status": "pending"}]
    batch = [
        call("write_file", file_path="/a.md", content="text"),
        call("write_file", file_path="/b.md", content="text"),
        call("write_todos", todos=todos),
    ]
    model = ScriptedModel(replies=[batch, call("read_file", file_path="/a.md"), "done"])

    agent = deep(model, middleware=[TodoListMiddleware()])
    state = way(agent, ask(), THREAD)

    assert sorted(state["files"]) == ["/a.md", "/b.md"]
    assert state["todos"] == todos
    assert "text" in results(state["messages"])[-1].text
    assert notes(model) == ["", "", ""]


def test_a_loop_is_caught(way: Way) -> None:
    """The ladder works as in any agent."""
    strong = ScriptedModel(replies=[call("read", path="a.md")])
    weak = ScriptedModel(replies=[*same(4), "found"])

    state = way(deep(weak, laddered(strong)), ask(), THREAD)

    assert "3 times" in notes(weak)[3]
    assert executed == [*["search x"] * 3, "read a.md"]
    assert last(state).text == "found"


def test_words_without_ids_are_told_apart(way: Way) -> None:
    """Deep agents give no ids to what a person says; a new word is a new run."""
    model = ScriptedModel(replies=[call("search", query="x"), "none"] * 2)
    agent = deep(model, Policy(budget=Budget(tool_calls=2)))

    for text in ("find x", "once more"):
        state = way(agent, ask(text), THREAD)
        assert last(state).text == "none"


def test_a_loop_of_its_own_tools_is_caught(way: Way) -> None:
    """Calls of the built-in file tools are steps too."""
    model = ScriptedModel(replies=[call("grep", pattern="x", path="/")] * 20)

    state = way(deep(model), ask(), THREAD)

    assert state["loopguard_exit"]["kind"] == "repeat"


def test_a_subagent_guards_itself_only_where_it_is_given_the_guard(way: Way) -> None:
    """One with the guard leaves its loop; the bare one loops to the end."""
    loop = [*same(20), "done"]
    subagents = [
        researcher(loop),
        researcher(loop, guarded=False, name="bare"),
    ]
    model = ScriptedModel(replies=[task("researcher"), task("bare"), "found"])

    state = way(deep(model, subagents=subagents), ask(), THREAD)

    told = [message.text for message in results(state["messages"])]
    assert told[0].startswith("I stopped before the task was done")
    assert told[1] == "done"


def test_the_general_purpose_subagent_does_not_inherit_the_guard() -> None:
    """Its loop is one step of the parent, and its cost is the parent's."""
    model = ScriptedModel(
        replies=[task("general-purpose"), *same(6), "done", "found"],
    )
    agent = deep(model)

    state = agent.invoke(ask(), THREAD)

    assert results(state["messages"])[0].text == "done"
    assert len(executed) == 6
    assert used(agent)["model_calls"] == 9


def test_two_guarded_subagents_may_end_in_one_step(way: Way) -> None:
    """Their private state does not clash with each other's or the parent's."""
    subagents = [
        researcher([*same(20)], name=name) for name in ("researcher", "writer")
    ]
    batch = [task("researcher"), task("writer")]
    model = ScriptedModel(replies=[batch, "found"])
    agent = deep(model, subagents=subagents)

    state = way(agent, ask(), THREAD)

    assert last(state).text == "found"
    assert state.get("loopguard_exit") is None
    assert used(agent)["steps"] == 1


def test_what_subagents_spend_is_charged_to_the_parent(way: Way) -> None:
    """A budget of model calls spans the whole tree."""
    model = ScriptedModel(replies=[task("researcher"), "never"])
    subagents = [researcher([call("read", path="a"), "done"])]
    policy = Policy(budget=Budget(model_calls=3))

    state = way(deep(model, policy, subagents=subagents), ask(), THREAD)

    assert state["loopguard_exit"]["budget"] == "model_calls"


def test_a_subagent_may_ask_a_person(way: Way) -> None:
    """The question of a child reaches the thread, and its answer the child."""
    replies = [call("ask_user", question="where?"), "in the attic"]
    child = researcher(replies)
    child["middleware"] = [LoopGuardMiddleware(Policy(leave_tools=("ask_user",)))]
    agent = deep(
        ScriptedModel(replies=[task("researcher"), "found"]), subagents=[child]
    )
    way(agent, ask(), THREAD)
    (pending,) = agent.get_state(THREAD).interrupts

    state = way(agent, Command(resume="attic"), THREAD)

    assert pending.value["question"] == "where?"
    assert results(state["messages"])[0].text == "in the attic"


@pytest.mark.parametrize("strong", [True, False], ids=["stronger", "same model"])
def test_a_loop_across_its_compactions_is_caught(strong: bool, way: Way) -> None:
    """The state keeps everything, the request is trimmed; both are read right."""
    writer = ScriptedModel(default="a summary of what was before")
    compaction = SummarizationMiddleware(
        writer, backend=StateBackend(), trigger=("messages", 6), keep=("messages", 4)
    )
    other = ScriptedModel(replies=same(9)) if strong else None
    model = ScriptedModel(
        replies=[*[call("read", path=str(n)) for n in range(4)], *same(20)]
    )

    agent = deep(model, laddered(other), middleware=[compaction])
    state = way(agent, ask(), THREAD)

    assert writer.requests
    assert state["loopguard_exit"]["reason"] == "loop"
    assert executed.count("search x") <= 8

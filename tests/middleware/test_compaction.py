from __future__ import annotations

from typing import Any

import pytest
from deepagents.backends import StateBackend
from deepagents.middleware import FilesystemMiddleware, summarization as deepagents
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import Budget, LoopGuardMiddleware, Policy
from loopguard_lg.adapters.messages import newest_word
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import (
    THREAD,
    TOOLS,
    ask,
    executed,
    laddered,
    last,
    notes,
    same,
)


def summarizing(keep: int, at: int) -> SummarizationMiddleware:
    """Summarizes when there are `at` messages, and keeps the newest."""
    writer = ScriptedModel(default="a summary of what was before")
    return SummarizationMiddleware(
        writer, trigger=("messages", at), keep=("messages", keep)
    )


class Window(AgentMiddleware):
    """Shows the model the newest messages only, from a reply on."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Cut the request."""
        tail = request.messages[-self.size :]
        starts = [n for n, m in enumerate(tail) if isinstance(m, AIMessage)]
        cut = tail if len(request.messages) <= self.size else tail[starts[0] :]
        words = [m for m in request.messages if isinstance(m, HumanMessage)][-1:]
        shown = cut if words[0] in cut else [*words, *cut]
        return handler(request.override(messages=shown))


def compacting() -> list[Any]:
    """Middlewares that cut what the model sees, each in another way."""
    clearing = ClearToolUsesEdit(trigger=1, keep=1)
    return [
        summarizing(4, 6),
        summarizing(2, 4),
        ContextEditingMiddleware(edits=[clearing], token_count_method="approximate"),
        Window(4),
    ]


@pytest.fixture(params=range(4), ids=["summary", "short summary", "cleared", "window"])
def compaction(request: pytest.FixtureRequest) -> Any:
    """Each way to cut what the model sees."""
    return compacting()[request.param]


@pytest.fixture(params=[0, 1], ids=["guard first", "guard last"])
def agent_of(request: pytest.FixtureRequest, compaction: Any) -> Any:
    """Makes an agent with the guard before or after the compaction."""

    def make(model: Any, policy: Any = None) -> Any:
        listed = [compaction, LoopGuardMiddleware(policy)]
        middleware = listed if request.param else listed[::-1]
        saver = InMemorySaver()
        return create_agent(model, TOOLS, middleware=middleware, checkpointer=saver)

    return make


def test_a_loop_across_compactions_is_caught(agent_of: Any) -> None:
    """Counts live in the guard's memory, whatever the model still sees."""
    model = ScriptedModel(replies=same(30))

    state = agent_of(model).invoke(ask(), THREAD)

    assert state["loopguard_exit"]["reason"] == "loop"
    assert len(executed) <= 8


def test_a_reflection_is_said_across_a_compaction(agent_of: Any) -> None:
    """The note is in the request even if the compaction came just before it."""
    model = ScriptedModel(replies=[*same(3), *same(3), "found"])

    agent_of(model).invoke(ask(), THREAD)

    assert any("going in circles" in note for note in notes(model))


def test_a_rollback_across_compactions_keeps_the_history_valid(agent_of: Any) -> None:
    """The strong model is given a valid history with the scratchpad in it."""
    start = [call("read", path="a"), call("write", path="n", text="z")]
    strong = ScriptedModel(replies=[call("read", path="b")], default="found")
    weak = ScriptedModel(replies=[*start, *same(9)], default="found")

    state = agent_of(weak, laddered(strong)).invoke(ask(), THREAD)

    assert "write(path=" in strong.requests[0].text
    assert last(state).text == "found"


def test_what_a_person_said_is_never_hidden(agent_of: Any) -> None:
    """Words and summaries stay in view when the turns after them do not."""
    strong = ScriptedModel(default="found")
    weak = ScriptedModel(replies=["hello", *same(6)], default="found")
    agent = agent_of(weak, laddered(strong))
    agent.invoke(ask("first wish"), THREAD)

    agent.invoke(ask("second wish"), THREAD)

    seen = strong.requests[0].text
    assert "second wish" in seen or "a summary" in seen
    assert "no results" not in seen.splitlines()


def test_a_summary_is_no_new_run() -> None:
    """The run's budget goes on over a summary in a person's name."""
    model = ScriptedModel(replies=[call("read", path=str(n)) for n in range(30)])
    guard = LoopGuardMiddleware(Policy(budget=Budget(steps=9)))
    agent = create_agent(model, TOOLS, middleware=[summarizing(1, 3), guard])

    state = agent.invoke(ask())

    assert state["loopguard_exit"]["usage"]["steps"] == 9


def test_the_thread_goes_on_after_an_exit_and_a_compaction(agent_of: Any) -> None:
    """The next run is whole, and its loop is caught as well."""
    model = ScriptedModel(replies=same(30))
    agent = agent_of(model)
    agent.invoke(ask(), THREAD)

    state = agent.invoke(ask("hi"), THREAD)

    assert state["loopguard_exit"]["reason"] == "loop"
    assert len(executed) <= 16


@pytest.mark.parametrize("source", ["summarization", "grader"])
def test_what_a_middleware_says_is_no_word_of_a_persons(source: str) -> None:
    """A summary that stands for the whole past does not begin a run."""
    made = HumanMessage("so far ...", additional_kwargs={"lc_source": source})
    said = HumanMessage("find it")

    assert newest_word([made]) is None
    assert newest_word([said, made]) is said


@pytest.mark.parametrize("order", [1, -1], ids=["guard last", "guard first"])
@pytest.mark.parametrize("at", [6, 8, 12])
def test_a_compaction_that_counts_messages_keeps_its_count(order: int, at: int) -> None:
    """Beside the summarization of deepagents a rollback leaves histories valid."""
    writer = ScriptedModel(default="a summary")
    compaction = deepagents.SummarizationMiddleware(
        writer, backend=StateBackend(), trigger=("messages", at), keep=("messages", 4)
    )
    start = [call("read", path=str(n)) for n in range(3)]
    strong = ScriptedModel(replies=[call("read", path="b")], default="found")
    weak = ScriptedModel(replies=[*start, *same(5)], default="found")
    listed = [FilesystemMiddleware(), compaction, LoopGuardMiddleware(laddered(strong))]
    agent = create_agent(
        weak, TOOLS, middleware=listed[::order], checkpointer=InMemorySaver()
    )
    agent.invoke(ask(), THREAD)

    assert last(agent.invoke(ask("again"), THREAD)).text == "found"
    assert writer.requests

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import BaseMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import Policy, ToolPolicy
from loopguard_lg.acts import cache
from loopguard_lg.acts.calls import Made
from loopguard_lg.errors import PolicyError
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.graph import graphs
from tests.middleware.runs import THREAD, Way, ask, executed, guarded, last, results

CACHED = Policy(tools={"read": ToolPolicy(role="read", cache=True)})
A = call("read", path="a")


def scripted(*replies: Any) -> ScriptedModel:
    """A model that says this, and then that it is done."""
    return ScriptedModel(replies=[*replies, "done"])


def rereader() -> ScriptedModel:
    """A model that reads the same file until it hears that nothing has changed."""

    def reply(messages: list[BaseMessage]) -> Any:
        return "found" if "nothing was written since" in messages[-1].text else A

    return ScriptedModel(default=reply)


def test_a_repeated_read_gets_an_agent_on(way: Way) -> None:
    """The earlier result comes back, with the word that it is still true."""
    state = way(guarded(rereader(), CACHED), ask(), THREAD)

    first, second = results(state["messages"])
    assert last(state).text == "found"
    assert executed == ["read a"]
    assert second.text.startswith(first.text)


def test_without_the_cache_the_agent_loops() -> None:
    """The same agent reads on until the guard ends it."""
    state = guarded(rereader()).invoke(ask(), THREAD)

    assert "I stopped" in last(state).text
    assert len(executed) > 2


def test_the_tool_node_of_a_graph_caches_too(way: Way) -> None:
    """One mechanism serves middleware and graphs."""
    state = graphs.run(way, graphs.guarded(graphs.react(rereader()), CACHED))

    assert state["messages"][-1].text == "found"
    assert executed == ["read a"]


@pytest.mark.parametrize(
    "between",
    [
        call("write", path="b", text="x"),
        [call("write", path="a", text="x"), A],
    ],
    ids=["before", "beside"],
)
def test_a_write_drops_what_was_read(way: Way, between: Any) -> None:
    """After any write, or beside one, the file is read again."""
    way(guarded(scripted(A, between, A), CACHED), ask(), THREAD)

    assert executed.count("read a") == 2 + isinstance(between, list)


def test_other_reads_leave_the_cache_alone() -> None:
    """Only what may have changed something drops a result."""
    model = scripted(A, call("read", path="b"), call("search", query="y"), A)
    guarded(model, CACHED).invoke(ask(), THREAD)

    assert executed == ["read a", "read b", "search y"]


def test_a_new_word_drops_what_was_read(way: Way) -> None:
    """What a person asks for anew is looked up anew."""
    model = ScriptedModel(replies=[A, "done", A, "done"])
    agent = guarded(model, CACHED, checkpointer=InMemorySaver())
    way(agent, ask(), THREAD)
    way(agent, ask("again"), THREAD)

    assert executed == ["read a", "read a"]


def test_a_result_that_was_removed_is_read_again() -> None:
    """The cache points at the message: when that is gone, so is the entry."""
    saver = InMemorySaver()
    agent = guarded(
        scripted(A, A), CACHED, checkpointer=saver, interrupt_before=["tools"]
    )
    agent.invoke(ask(), THREAD)
    agent.invoke(None, THREAD)
    reply, result = agent.get_state(THREAD).values["messages"][1:3]
    gone = [RemoveMessage(id=reply.id), RemoveMessage(id=result.id)]
    agent.update_state(THREAD, {"messages": gone}, as_node="model")
    agent.invoke(None, THREAD)

    assert executed == ["read a"] * 2


def test_a_cached_repeat_still_counts() -> None:
    """Detectors see it, marked as cached: an agent that does not listen is ended."""
    seen: list[GuardEvent] = []
    model = ScriptedModel(default=A)
    state = guarded(model, CACHED, observers=[seen.append]).invoke(ask(), THREAD)

    steps = [step for event in seen for step in getattr(event.event, "steps", ())]
    assert [step.cached for step in steps][:3] == [False, True, True]
    assert "I stopped" in last(state).text
    assert executed == ["read a"]


def test_the_value_is_not_stored_twice() -> None:
    """The guard's memory has the id of a message, not the result."""
    agent = guarded(scripted(A), CACHED, checkpointer=InMemorySaver())
    state = agent.invoke(ask(), THREAD)

    (result,) = results(state["messages"])
    acts = agent.get_state(THREAD).values["loopguard"]["host"]["acts"]
    assert acts["cache"][1::3] == [result.id]


def test_cache_and_once_do_not_go_together() -> None:
    """One is for reads, the other for writes."""
    with pytest.raises(PolicyError, match="cache is for reads, once is for writes"):
        ToolPolicy(cache=True, once=True)


makes = st.builds(
    Made,
    policy=st.builds(ToolPolicy, cache=st.booleans()),
    digest=st.integers(0, 20),
    role=st.sampled_from(["read", "write", "other", "poll"]),
    executed=st.booleans(),
    worked=st.booleans(),
    pending=st.booleans(),
    message=st.text(max_size=3),
)


def is_over(one: Made) -> bool:
    """Whether a poll has come to its end."""
    return one.role == "poll" and one.worked and not one.pending


@given(batches=st.lists(st.lists(makes, max_size=4), max_size=30))
def test_the_cache_is_bounded_and_finds_only_what_holds(
    batches: list[list[Made]],
) -> None:
    """An entry is the newest result of its call, with no change since."""
    entries: cache.Cache = []
    truth: dict[int, str] = {}
    for batch in batches:
        entries = cache.after(entries, batch)
        if any(one.executed and (one.touches or is_over(one)) for one in batch):
            truth = {}
            continue
        for one in batch:
            if one.executed and one.worked:
                truth[one.digest] = one.message

    assert len(entries) <= 3 * cache.ENTRIES
    for digest, where in zip(entries[::3], entries[1::3], strict=True):
        assert digest in truth
        assert where


@tool
def look(query: str, limit: int = 10) -> str:
    """Look for something."""
    executed.append(f"look {query}")
    return f"a page about {query}"


def test_a_default_left_out_makes_no_other_call() -> None:
    """The schema's defaults are filled in before calls are compared."""
    policy = Policy(tools={"look": ToolPolicy(cache=True)})
    model = scripted(call("look", query="x"), call("look", query="x", limit=10))
    guarded(model, policy, tools=[look]).invoke(ask(), THREAD)

    assert executed == ["look x"]


def test_a_held_call_with_a_default_is_not_made() -> None:
    """A loop of calls that leave a default out is blocked as any other."""
    model = ScriptedModel(default=call("look", query="x"))
    state = guarded(model, tools=[look]).invoke(ask(), THREAD)

    assert any("Not executed" in m.text for m in results(state["messages"]))

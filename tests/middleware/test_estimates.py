from __future__ import annotations

import threading
from typing import Any

from hypothesis import given, strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.checkpoint.memory import InMemorySaver

from loopguard_lg import Budget, Policy
from loopguard_lg.adapters.estimates import sized
from loopguard_lg.adapters.ledger import Ledger
from loopguard_lg.testing.doubles import ScriptedModel
from tests.middleware.runs import THREAD, ask, guarded, same

TEXTS = st.text(max_size=40)
CALL = {"name": "look", "args": {"topic": "a"}, "id": "c"}
MESSAGES = st.lists(
    st.builds(HumanMessage, TEXTS)
    | st.builds(AIMessage, TEXTS, tool_calls=st.sampled_from([[], [CALL]]))
    | st.builds(ToolMessage, TEXTS, tool_call_id=st.just("c")),
    max_size=8,
)


@given(MESSAGES, MESSAGES)
def test_a_request_that_has_grown_is_counted_as_a_whole_one(
    first: list[Any], more: list[Any]
) -> None:
    """What is counted in two parts is what the whole is counted as."""
    messages = [*first, *more]

    size = sized(messages, sized(first, None))

    assert size == sized(messages, None)
    assert size[-1] == count_tokens_approximately(messages)


def test_a_request_with_an_older_message_cleared_is_counted_again() -> None:
    """Another middleware may clear a result and leave its id as it was."""
    before = [ToolMessage("word " * 99, tool_call_id="c", id="1"), HumanMessage("a")]
    cleared = [ToolMessage("[cleared]", tool_call_id="c", id="1"), HumanMessage("a")]

    assert sized(cleared, sized(before, None)) == sized(cleared, None)


def test_a_text_that_was_trimmed_in_its_block_is_counted_anew() -> None:
    """Contents may be lists of blocks, of which there are as many as before."""
    before, cleared = (
        [HumanMessage([{"type": "text", "text": "word " * words}], id="1")]
        for words in (1_000, 1)
    )

    assert sized(cleared, sized(before, None)) == sized(cleared, None)


@given(st.none() | st.integers() | st.lists(st.none() | st.integers() | st.text()))
def test_a_stored_size_that_is_none_is_left_out(stored: Any) -> None:
    """Data of somebody else's in the channel makes no count wrong, and none fail."""
    assert sized([], stored) == [0, None, 0, 0]


def test_estimates_of_a_run_are_those_of_each_of_its_requests() -> None:
    """Tokens counted turn by turn add up to what was sent, each time as a whole."""
    model = ScriptedModel(replies=[*same(2), "done"], usage=False)
    policy = Policy(budget=Budget(total_tokens=10_000))
    agent = guarded(model, policy, checkpointer=InMemorySaver())

    sent = agent.invoke(ask(), THREAD)["messages"]

    used = agent.get_state(THREAD).values["loopguard"]["used"]["run"]
    counted = (count_tokens_approximately(sent[:n]) for n in (1, 3, 5))
    assert used["input_tokens"] == sum(counted)


async def test_what_runs_inside_is_heard_of_in_its_own_thread() -> None:
    """On an event loop no event of a model's call costs a thread or a task."""
    heard: list[int] = []

    class Told(Ledger):
        def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            heard.append(threading.get_ident())

    model = ScriptedModel(replies=["done"])
    await model.ainvoke("a", {"callbacks": [Told({})]})

    assert heard == [threading.get_ident()]

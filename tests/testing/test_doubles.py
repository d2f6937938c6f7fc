"""What the scripted model answers and remembers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from loopguard_lg.testing.doubles import ScriptedModel, call


@tool
def search(query: str) -> str:
    """Look something up."""
    return f"found {query}"


def ask(text: str = "hi") -> dict[str, Any]:
    """An agent's input with one question."""
    return {"messages": [HumanMessage(text)]}


def test_the_replies_come_in_order() -> None:
    """Each request takes the next reply of the script."""
    model = ScriptedModel(["one", "two"])

    assert [model.invoke("a").text, model.invoke("b").text] == ["one", "two"]


def test_an_agent_calls_tools_as_scripted() -> None:
    """A call in the script runs the tool, and its result reaches the next request."""
    model = ScriptedModel([call("search", query="x"), "done"])
    result = create_agent(model, [search]).invoke(ask())

    assert result["messages"][-1].text == "done"
    assert model.requests[1].messages[-1].text == "found x"


def test_a_list_is_one_message_with_a_parallel_batch() -> None:
    """Text and calls of a list arrive together, the calls numbered in order."""
    model = ScriptedModel([["both", call("f", a=1), call("g", "own")]])
    reply = model.invoke("hi")

    assert reply.text == "both"
    assert [(c["name"], c["id"]) for c in reply.tool_calls] == [
        ("f", "call_1"),
        ("g", "own"),
    ]


def test_a_ready_message_is_given_back_as_a_copy() -> None:
    """A message of the script keeps its own fields and is never changed."""
    ready = AIMessage("x", response_metadata={"finish_reason": "length"})
    reply = ScriptedModel([ready]).invoke("hi")

    assert reply.response_metadata["finish_reason"] == "length"
    assert (ready.id, ready.usage_metadata) == (None, None)


@pytest.mark.parametrize("reply", [TimeoutError("slow"), TimeoutError])
def test_an_exception_in_the_script_is_raised(reply: Any) -> None:
    """Instance and class are both raised, and the next request goes on."""
    model = ScriptedModel([reply, "after"])
    with pytest.raises(TimeoutError):
        model.invoke("hi")

    assert model.invoke("hi").text == "after"


def test_a_function_in_the_script_sees_the_request() -> None:
    """A function answers from the messages, with anything that a script may hold."""
    model = ScriptedModel([lambda messages: call("search", query=messages[-1].text)])

    assert model.invoke("what?").tool_calls[0]["args"] == {"query": "what?"}


def test_a_dry_script_says_how_many_replies_it_had() -> None:
    """One request too many is an error with the numbers and the request."""
    model = ScriptedModel(["one"], model_name="cheap")
    model.invoke("a")
    with pytest.raises(AssertionError, match=r"'cheap' ran dry: it has 1 .*request 2"):
        model.invoke("b")


def test_a_default_answers_what_comes_after_the_script() -> None:
    """`default` repeats for ever once the script is over."""
    model = ScriptedModel(["one"], default="same")

    assert [model.invoke("a").text for _ in range(3)] == ["one", "same", "same"]


def test_a_looping_script_begins_again() -> None:
    """`loop=True` starts over, with new call ids."""
    model = ScriptedModel([call("f"), "text"], loop=True)
    replies = [model.invoke("a") for _ in range(3)]

    assert [len(r.tool_calls) for r in replies] == [1, 0, 1]
    assert replies[2].tool_calls[0]["id"] == "call_2"


def test_copies_go_on_with_the_same_script() -> None:
    """Bound, updated and deeply copied models share replies and requests."""
    model = ScriptedModel(["a", "b", "c", "d"])
    copies = [
        model.bind(stop=["x"]),
        model.bind_tools([search]),
        model.model_copy(update={"temperature": 1.0}),
        copy.deepcopy(model),
    ]

    assert [m.invoke("hi").text for m in copies] == ["a", "b", "c", "d"]
    assert len(model.requests) == 4


def test_a_request_shows_what_was_really_sent() -> None:
    """Tools, forced choice, temperature and other settings are all remembered."""
    model = ScriptedModel(default="ok", temperature=0.0)
    model.bind_tools([search], tool_choice="any").invoke("a")
    model.bind(temperature=0.7, seed=3).invoke("b")
    first, second = model.requests

    assert (first.tool_names, first.tool_choice) == (["search"], "any")
    assert (first.temperature, second.temperature) == (0.0, 0.7)
    assert (second.settings, second.tool_names) == ({"seed": 3}, [])
    assert second.text == "b"


def test_a_request_that_a_provider_would_refuse_is_refused() -> None:
    """The script checks each history unless it is told not to."""
    history = [HumanMessage("hi"), ToolMessage("found", tool_call_id="a")]
    with pytest.raises(AssertionError, match="not asked"):
        ScriptedModel(["x"]).invoke(history)

    assert ScriptedModel(["x"], validate=False).invoke(history).text == "x"


def test_verify_finds_a_refusal_that_was_swallowed() -> None:
    """An error hidden by the code under test comes up again."""
    model = ScriptedModel(["x"])
    with pytest.raises(AssertionError):
        model.invoke([AIMessage("I speak last")])
    with pytest.raises(AssertionError, match="ends on an assistant"):
        model.verify()


def test_verify_wants_every_reply_to_be_used() -> None:
    """A script that is too long is a fault of the test."""
    with pytest.raises(AssertionError, match="1 replies were not asked for"):
        ScriptedModel(["x"]).verify()


def test_usage_is_estimated_and_can_be_left_out() -> None:
    """Four characters are a token; providers that report nothing can be played."""
    told = ScriptedModel(["x" * 40]).invoke("a" * 20)
    silent = ScriptedModel(["x"], usage=False).invoke("a")

    assert told.usage_metadata == {
        "input_tokens": 6,
        "output_tokens": 11,
        "total_tokens": 17,
    }
    assert silent.usage_metadata is None


@given(
    st.text(), st.dictionaries(st.text(max_size=5), st.text(max_size=30), max_size=3)
)
def test_the_chunks_make_up_the_reply(text: str, args: dict[str, str]) -> None:
    """Streamed and whole replies are equal in text, calls, usage and metadata."""
    reply = AIMessage(text, tool_calls=[{"name": "f", "args": args, "id": "a"}])
    model = ScriptedModel(default=reply)
    whole = model.invoke("hi")
    first, *rest = model.stream("hi")
    streamed = sum(rest, first)

    assert streamed.content == whole.content
    assert streamed.tool_calls == whole.tool_calls
    assert streamed.usage_metadata == whole.usage_metadata
    assert streamed.response_metadata == whole.response_metadata
    assert model.requests[1].streamed


def test_broken_arguments_stay_broken_when_streamed() -> None:
    """A call whose arguments are not JSON arrives as an invalid call."""
    broken = {"name": "f", "args": "a is 1", "id": "a", "error": None}
    model = ScriptedModel([AIMessage("", invalid_tool_calls=[broken])])
    first, *rest = model.stream("hi")

    assert sum(rest, first).invalid_tool_calls[0]["args"] == "a is 1"


def test_content_blocks_are_streamed_one_by_one() -> None:
    """A reply of blocks keeps its blocks."""
    blocks = [{"type": "text", "text": "a", "index": 0}]
    chunks = list(ScriptedModel([AIMessage(blocks)]).stream("hi"))

    assert chunks[0].content == blocks


async def test_the_async_agent_streams_tokens_and_calls() -> None:
    """`astream` of an agent passes on words, call chunks and tool results."""
    model = ScriptedModel([call("search", query="x"), "two words"])
    agent = create_agent(model, [search])
    stream = agent.astream(ask(), stream_mode="messages")
    texts = [message.text async for message, _ in stream]

    assert [text for text in texts if text] == ["found x", "two", " words"]


async def test_the_async_agent_runs_without_streaming() -> None:
    """`ainvoke` asks for whole replies."""
    model = ScriptedModel([call("search", query="x"), "done"])
    result = await create_agent(model, [search]).ainvoke(ask())

    assert result["messages"][-1].text == "done"
    assert not any(request.streamed for request in model.requests)

"""Which histories a strict provider accepts."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from loopguard_lg.testing.histories import (
    assert_valid_history,
    outline,
    validate_history,
)


def asks(*ids: str) -> AIMessage:
    """An AI message with one call for each id."""
    calls = [{"name": "search", "args": {}, "id": id_} for id_ in ids]
    return AIMessage("", tool_calls=calls)


def answer(id_: str) -> ToolMessage:
    """The answer to one call."""
    return ToolMessage("found", tool_call_id=id_)


ASK = HumanMessage("find it")


def test_a_batch_answered_in_order_is_accepted() -> None:
    """Two calls and their two answers make a request."""
    validate_history(
        [SystemMessage("be brief"), ASK, asks("a", "b")] + [answer("a"), answer("b")]
    )


@pytest.mark.parametrize(
    ("history", "complaint"),
    [
        ([ASK, asks("a")], r"message 1: no answer to 'a' \(search\)"),
        ([ASK, asks("a", "b"), answer("a")], "message 2: no answer to 'b'"),
        ([ASK, asks("a", "b"), answer("b"), answer("a")], "message 2: .* out of order"),
        ([ASK, asks("a"), ASK, answer("a")], "message 2: comes before the answer"),
        ([ASK, asks("a"), answer("a"), answer("a")], "message 3: .* answered already"),
        ([ASK, answer("a")], "message 1: .* not asked"),
        ([ASK, asks("a"), answer("z")], "message 2: answers 'z', but open is 'a'"),
        ([ASK, SystemMessage("more")], "message 1: a system message that is not"),
        ([ASK, AIMessage("done")], "message 1: the request ends on an assistant"),
        ([ASK, RemoveMessage(id="1")], "message 1: a message of type 'remove'"),
        ([], "message 0: the history is empty"),
    ],
)
def test_a_broken_history_is_named(history: list[BaseMessage], complaint: str) -> None:
    """The error says which message breaks which rule."""
    with pytest.raises(AssertionError, match=complaint):
        validate_history(history)


def test_a_finished_run_may_end_on_the_assistant() -> None:
    """Only a request must not end on an AI message."""
    validate_history([ASK, AIMessage("done")], request=False)


def test_a_call_with_broken_arguments_wants_an_answer_too() -> None:
    """Invalid calls are sent as calls, so leaving one open is a fault."""
    broken = AIMessage(
        "", invalid_tool_calls=[{"name": "search", "args": "{", "id": "a", "error": ""}]
    )
    with pytest.raises(AssertionError, match="no answer to 'a'"):
        validate_history([ASK, broken])
    validate_history([ASK, broken, answer("a")])


def test_two_turns_may_use_the_same_ids() -> None:
    """Ids pair within one turn, as some providers number them anew each time."""
    validate_history([ASK, asks("a"), answer("a"), asks("a"), answer("a")])


def test_plain_dicts_are_messages_too() -> None:
    """Whatever LangChain takes as a message is taken here."""
    validate_history([{"role": "user", "content": "hi"}])


def test_the_outline_marks_the_message_at_fault() -> None:
    """The history in the error has a mark on the line that is wrong."""
    text = outline([ASK, asks("a")], mark=1)

    assert text == "  0 human: find it\n> 1 ai calls search[a]: "


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=3), max_size=4))
def test_a_history_that_loses_one_answer_is_refused(turns: list[list[str]]) -> None:
    """Every answered history passes; without any one of its answers it does not."""
    history: list[BaseMessage] = [ASK]
    for ids in turns:
        history += [asks(*ids), *map(answer, ids)]
    validate_history(history, request=False)
    for at, message in enumerate(history):
        if isinstance(message, ToolMessage):
            with pytest.raises(AssertionError):
                validate_history(history[:at] + history[at + 1 :], request=False)


def thinks(kind: str, **metadata: str) -> AIMessage:
    """A reply with a reasoning block."""
    blocks = [{"type": kind, "thinking": "hm"}, {"type": "text", "text": "yes"}]
    return AIMessage(blocks, response_metadata=metadata)  # type: ignore[arg-type]


def test_reasoning_of_another_provider_is_refused() -> None:
    """Its signature can't be checked by who did not make it."""
    history = [ASK, thinks("thinking"), ASK]

    assert_valid_history(history, provider="anthropic")
    with pytest.raises(AssertionError, match="message 1: reasoning of 'anthropic'"):
        assert_valid_history(history, provider="openai")


def test_the_metadata_says_whose_reasoning_it_is() -> None:
    """Blocks of the same type are written by several providers."""
    history = [ASK, thinks("reasoning", model_provider="google_genai"), ASK]

    assert_valid_history(history, provider="google_genai")
    with pytest.raises(
        AssertionError, match="'google_genai' in a history for 'openai'"
    ):
        assert_valid_history(history, provider="openai")


def test_without_a_provider_reasoning_is_of_one_author() -> None:
    """Whoever reads it, some of it would be foreign."""
    deep = AIMessage("yes", additional_kwargs={"reasoning_content": "hm"})

    assert_valid_history([ASK, thinks("thinking"), thinks("thinking"), ASK])
    with pytest.raises(AssertionError, match="message 2: reasoning of 'deepseek'"):
        assert_valid_history([ASK, thinks("thinking"), deep, ASK])


@pytest.mark.parametrize(
    ("provider", "takes"), [("openai", True), ("anthropic", False)]
)
def test_some_go_on_from_an_assistant_message(provider: str, takes: bool) -> None:
    """The end is refused only where the provider refuses it."""
    history = [ASK, AIMessage("well")]

    assert_valid_history(history, provider=provider, request=False)
    if takes:
        assert_valid_history(history, provider=provider)
    else:
        with pytest.raises(AssertionError, match="ends on an assistant message"):
            assert_valid_history(history, provider=provider)

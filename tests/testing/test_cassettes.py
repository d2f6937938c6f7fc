"""Recording traffic from a real server, and replaying it without one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from loopguard_lg.testing.cassettes import (
    Recording,
    differences,
    recording,
    recording_path,
    scrub,
)
from tests.testing.scripted_server import calls, says, serving

ELSEWHERE = "http://elsewhere.example:81/v1"


@tool
def search(query: str) -> str:
    """Look something up."""
    return f"found {query}"


def model(base_url: str = ELSEWHERE, **settings: Any) -> ChatOpenAI:
    """A client that gives up at once."""
    key = SecretStr("sk-a-very-secret-key")
    settings = {"model": "m", "max_retries": 0, "api_key": key} | settings
    return ChatOpenAI(base_url=base_url, **settings)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A recording of an agent's run: one call, then the answer."""
    path = tmp_path / "run.yaml"
    with (
        serving(calls("search", query="x"), says("all done")) as server,
        recording(path, record=True),
    ):
        run(server.base_url)
    return path


def refuse(sock: socket.socket, address: Any) -> None:
    """Connect to nothing."""
    raise ConnectionRefusedError(f"connects to {address!r}")


@contextmanager
def replaying(path: Path) -> Iterator[Recording]:
    """A replay that can open no connection, not even on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        with recording(path) as opened:
            yield opened


def run(base_url: str = ELSEWHERE, question: str = "hi") -> str:
    """The agent's answer."""
    agent = create_agent(model(base_url), [search])
    result = agent.invoke({"messages": [{"role": "user", "content": question}]})
    return str(result["messages"][-1].text)


def test_a_run_is_replayed_without_a_server(path: Path) -> None:
    """The agent gets the recorded replies, whatever its base URL is."""
    with replaying(path):
        assert run() == "all done"


def test_a_changed_request_names_what_changed(path: Path) -> None:
    """The error has the place, the recorded text and the new one."""
    with (
        pytest.raises(AssertionError) as error,
        replaying(path),
    ):
        run(question="hello")

    assert "request 1 changed; against recorded request 1:" in str(error.value)
    assert 'body.messages[0].content: recorded "hi", now "hello"' in str(error.value)


def test_a_changed_request_that_was_swallowed_comes_up(path: Path) -> None:
    """Code under test that hides every exception can't hide this one."""
    with (
        pytest.raises(AssertionError, match="request 1 changed"),
        replaying(path),
        suppress(Exception),
    ):
        run(question="hello")


def test_a_run_that_ends_early_is_an_error(path: Path) -> None:
    """Recorded requests that nobody made show that behaviour changed."""
    with (
        pytest.raises(AssertionError, match="2 requests are recorded, only 0 were"),
        replaying(path),
    ):
        pass


def test_one_request_more_is_an_error(path: Path) -> None:
    """A recording that is over answers nothing."""
    with (
        pytest.raises(AssertionError, match="request 3 is one more than the 2"),
        replaying(path),
    ):
        assert run() == run()


def test_a_missing_recording_is_named(tmp_path: Path) -> None:
    """Replaying what was never recorded says so."""
    with (
        pytest.raises(AssertionError, match="there is no such recording"),
        replaying(tmp_path / "none.yaml"),
    ):
        run()


def test_another_error_of_the_test_goes_through(path: Path) -> None:
    """An error that has nothing to do with the recording is not covered up."""
    with pytest.raises(ZeroDivisionError), replaying(path):
        _ = 1 / 0


ANTHROPIC = """\
interactions:
- request:
    method: POST
    uri: https://model.invalid/v1/messages
    headers: {content-type: [application/json]}
    body:
      json:
        max_tokens: 9
        messages: [{role: user, content: hi}]
        model: m
  response:
    status: {code: 200, message: OK}
    headers: {content-type: [application/json]}
    body:
      json:
        id: msg_1
        type: message
        role: assistant
        model: m
        content: [{type: text, text: hello}]
        stop_reason: end_turn
        usage: {input_tokens: 1, output_tokens: 1}
"""


def test_a_client_that_hides_the_cause_is_seen_through(tmp_path: Path) -> None:
    """Another provider's recording replays; its connection error is explained."""
    path = tmp_path / "run.yaml"
    path.write_text(ANTHROPIC, "utf-8")
    key = SecretStr("none")
    claude = ChatAnthropic(model_name="m", max_tokens=9, api_key=key, max_retries=0)
    with replaying(path):
        assert claude.invoke("hi").text == "hello"
    with (
        pytest.raises(AssertionError, match='recorded "hi", now "ho"'),
        replaying(path),
    ):
        claude.invoke("ho")


def test_nothing_secret_is_written(path: Path) -> None:
    """No key, host, cookie or client header is in the file; bodies are unpacked."""
    text = path.read_text("utf-8").lower()

    assert "uri: http://model.invalid/v1/chat/completions" in text
    assert "found x" in text
    for word in ("secret", "127.0.0.1", "cookie", "user-agent", "gzip", "x-request"):
        assert word not in text


def test_secrets_in_texts_are_masked_on_both_sides(tmp_path: Path) -> None:
    """A key or home in a prompt is not stored, and the prompt still matches."""
    path = tmp_path / "run.yaml"
    prompt = "use sk-abcdefgh1234 in /home/someone/kiln"
    with serving(says("ok")) as server, recording(path, record=True):
        model(server.base_url).invoke(prompt)
    with replaying(path):
        assert model().invoke(prompt).text == "ok"

    assert "use *** in ~/kiln" in path.read_text("utf-8")


def test_a_recording_that_fails_is_not_kept(tmp_path: Path) -> None:
    """The file of a block that raised stays as it was."""
    path = tmp_path / "run.yaml"
    path.write_text("as it was", "utf-8")
    with (
        serving(says("ok")) as server,
        pytest.raises(AttributeError),
        recording(path, record=True),
    ):
        _ = model(server.base_url).invoke("hi").no_such_thing

    assert path.read_text("utf-8") == "as it was"


def test_recording_anew_replaces_all(path: Path) -> None:
    """Nothing of the old recording is left."""
    with serving(says("short")) as server, recording(path, record=True):
        run(server.base_url)
    with replaying(path) as opened:
        assert run() == "short"

    assert len(opened) == 1


async def test_a_stream_is_replayed_chunk_by_chunk(tmp_path: Path) -> None:
    """Words and usage arrive in the chunks that they came in; an event is a line."""
    path = tmp_path / "run.yaml"
    with serving(says("all done")) as server, recording(path, record=True):
        list(model(server.base_url).stream("hi"))
    with replaying(path):
        chunks = [chunk async for chunk in model().astream("hi")]

    assert [chunk.text for chunk in chunks if chunk.text] == ["all ", "done "]
    assert sum(chunks[1:], chunks[0]).usage_metadata["total_tokens"] == 10
    assert path.read_text("utf-8").count("\n      - {data: ") == 3


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("test_it", "test_it.yaml"),
        ("test_it[a b/c]", "test_it-a-b-c.yaml"),
        ("test_it[1.5-x]", "test_it-1.5-x.yaml"),
    ],
)
def test_the_path_follows_from_the_test(name: str, file: str) -> None:
    """Module and test name make the path; parameters are a suffix."""
    assert recording_path(Path("c"), "test_mod", name) == Path("c/test_mod") / file


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("/Users/jo.doe/x", "~/x"),
        ("a task-force and a risk-assessment", "a task-force and a risk-assessment"),
        ("see docs/root/ and /rooted", "see docs/root/ and /rooted"),
    ],
)
def test_scrub_takes_keys_and_homes_only(text: str, clean: str) -> None:
    """Words that only resemble a key or a home stay."""
    assert scrub(text) == clean


@given(st.text())
def test_scrubbing_twice_is_scrubbing_once(text: str) -> None:
    """A recording may be scrubbed on writing and again on reading."""
    assert scrub(scrub(text)) == scrub(text)


def test_a_long_difference_is_cut_around_the_change() -> None:
    """Of two long texts only the part that differs is shown."""
    before, after = "a" * 500 + "b" + "c" * 500, "a" * 500 + "d" + "c" * 500
    (line,) = differences({"x": [before]}, {"x": [after]})

    assert line.startswith("x[0]: recorded ...aaaa")
    assert len(line) < 260


def test_what_is_new_and_what_is_gone_is_told_apart() -> None:
    """A key on one side only is named as such."""
    assert differences({"a": 1, "b": {}}, {"b": {}, "c": []}) == [
        "a: missing: 1",
        "c: only sent now: []",
    ]

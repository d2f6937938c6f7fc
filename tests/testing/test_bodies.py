"""How bodies are written down and read back."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from loopguard_lg.testing import bodies

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), plain, max_size=3)


def recorded(request: str | None, response: str | bytes) -> dict[str, Any]:
    """A recording as vcrpy hands it over."""
    sent = {"method": "POST", "uri": "http://x/", "headers": {}, "body": request}
    got = {"status": {"code": 200}, "headers": {}, "body": {"string": response}}
    return {"version": 1, "interactions": [{"request": sent, "response": got}]}


def again(recording: dict[str, Any]) -> tuple[Any, Any]:
    """Both bodies of a recording after they were written and read."""
    back = bodies.deserialize(bodies.serialize(recording))["interactions"][0]
    return back["request"]["body"], back["response"]["body"]["string"]


@given(objects, objects)
def test_json_means_the_same_when_read_back(
    request: dict[str, Any], response: dict[str, Any]
) -> None:
    """Every object and list survives, whatever texts are in it."""
    sent, got = again(recorded(json.dumps(request), json.dumps(response)))

    assert json.loads(sent) == request
    assert json.loads(got) == response


@given(st.lists(objects, min_size=1))
def test_a_stream_means_the_same_when_read_back(events: list[dict[str, Any]]) -> None:
    """Every event survives, in order, with the end mark as it was."""
    frames = [f"event: delta\ndata: {json.dumps(event)}\n\n" for event in events]
    _, got = again(recorded(None, "".join(frames) + "data: [DONE]\n\n"))
    *read, end, rest = got.split("\n\n")

    assert [json.loads(f.removeprefix("event: delta\ndata: ")) for f in read] == events
    assert (end, rest) == ("data: [DONE]", "")


@given(st.text())
def test_other_text_is_kept_as_it_is(text: str) -> None:
    """What is neither JSON nor a stream comes back to the letter."""
    assert again(recorded("=" + text, "=" + text)) == ("=" + text, "=" + text)


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\xff",
        '{"half": ',
        r'{"lone": "\ud800"}',
        ": a comment\n\ndata: x\n\n",
        "data: a\ndata: b\n\n",
        "data: cut off",
        "",
    ],
)
def test_what_has_no_readable_form_is_kept_as_it_is(body: str | bytes) -> None:
    """Bytes, broken JSON, and streams that a list of fields can't hold."""
    assert again(recorded(None, body)) == (None, body)


def test_a_body_is_nested_and_texts_are_blocks() -> None:
    """A changed line of a prompt is a changed line of the file."""
    body = json.dumps({"messages": [{"content": "one\ntwo"}]})
    text = bodies.serialize(recorded(body, "data: [DONE]\n\n"))

    assert "- content: |-\n            one\n            two\n" in text
    assert "- {data: '[DONE]'}\n" in text


def test_the_file_is_plain_yaml() -> None:
    """Any YAML reader can look into a recording; equal parts are written out."""
    same = {"a": 1}
    text = bodies.serialize(recorded(json.dumps([same, same]), "x"))

    assert yaml.safe_load(text)["interactions"][0]["request"]["body"] == {
        "json": [same, same]
    }
    assert "&id" not in text

"""Records with a value of the wrong kind somewhere in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from loopguard_lg.errors import TraceFormatError
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import read
from tests.traces.samples import SAMPLES

WRONG = st.sampled_from(
    [None, True, -1, 1.5, 10**30, "", "x", "[", '{"a": 1}', [], [1], [[]], {},
     {"a": {}}, ["a", "b"], {"type": "text"}, {"content": {"text": 3}}, "\ud800"]
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where values are in a JSON value."""
    yield path
    pairs = value.items() if isinstance(value, dict) else ()
    for key, inner in enumerate(value) if isinstance(value, list) else pairs:
        yield from places(inner, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with another one in one place."""
    if not path:
        return new
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = put(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=40)
@given(st.data())
def test_whatever_stands_in_a_record_it_is_a_run_or_an_error(
    name: str, data: st.DataObject
) -> None:
    """A value of another kind, anywhere, never makes a reader raise."""
    text = SAMPLES[name]().decode()
    whole = text.startswith(("{\n", "[\n"))
    value = json.loads(text) if whole else [json.loads(t) for t in text.splitlines()]
    path = data.draw(st.sampled_from([p for p in places(value) if p]))
    value = put(value, path, data.draw(WRONG))
    texts = [json.dumps(value)] if whole else [json.dumps(one) for one in value]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "runs.txt"
        file.write_text("\n".join(texts))
        found = [*read(file)]

    assert all(isinstance(one, Trajectory | TraceFormatError) for one in found)

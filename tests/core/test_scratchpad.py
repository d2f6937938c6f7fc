"""What was tried, what is ruled out, what is known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg import redaction, scratchpad
from loopguard_lg.scratchpad import BYTES, Pad

wild = st.text(max_size=400) | st.sampled_from(
    ["\ud800" * 300, "猫" * 900, "🦜" * 900, "\x00\x1b[2J" * 99, "a\n\n" * 99, " "]
)
"""Texts as tools return them, the worst included."""

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | wild,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=8,
)
arguments = st.dictionaries(st.text(max_size=20), values, max_size=4)

acts = st.one_of(
    st.tuples(st.just("tried"), st.integers(0, 12), wild, wild),
    st.tuples(st.sampled_from(["writes", "ruled"]), wild, wild),
    st.tuples(st.sampled_from(["facts", "branches"]), wild),
)


def after(pad: Pad, act: tuple[Any, ...]) -> Pad:
    """The scratchpad after one act."""
    part, *texts = act
    if part == "tried":
        return scratchpad.capped(scratchpad.tried(pad, *texts))
    return scratchpad.capped(scratchpad.add(pad, part, *texts))


@st.composite
def pads(draw: Callable[..., Any]) -> Pad:
    """Scratchpads as runs leave them."""
    pad: Pad = {}
    for act in draw(st.lists(acts, max_size=30)):
        pad = after(pad, act)
    return pad


def texts_of(pad: Pad) -> list[str]:
    """Every text in a scratchpad."""
    found: list[str] = [*pad.get("facts", []), *pad.get("branches", [])]
    for call, _, outcome in pad.get("tried", {}).values():
        found += [call, outcome]
    for pair in (*pad.get("ruled", []), *pad.get("writes", [])):
        found += pair
    return found


@given(pads())
def test_it_is_bounded_whatever_goes_in(pad: Pad) -> None:
    """As JSON in UTF-8 it never passes its bytes."""
    assert len(json.dumps(pad, ensure_ascii=False).encode()) <= BYTES * 1.1
    assert sum(len(text.encode()) for text in texts_of(pad)) <= BYTES


@given(pads())
def test_every_text_is_one_printable_line(pad: Pad) -> None:
    """No line break, control character or lone surrogate gets in."""
    assert all(text.isprintable() for text in texts_of(pad))


@given(pads(), st.integers(0, 700))
def test_it_is_rendered_within_its_tokens(pad: Pad, tokens: int) -> None:
    """Four bytes are a token; what has no room is left out whole."""
    text = scratchpad.render(pad, tokens)

    assert len(text.encode()) <= tokens * 4
    assert all(line.startswith("- ") for line in text.splitlines())


def test_what_was_done_is_rendered_first() -> None:
    """A small cap cuts what matters least."""
    pad = scratchpad.tried({}, 1, "search(q)", "nothing here")
    pad = scratchpad.add(pad, "facts", "the port is 8080")
    pad = scratchpad.add(pad, "ruled", "search(p)", "3x: empty")
    pad = scratchpad.add(pad, "branches", "by the log")
    pad = scratchpad.add(pad, "writes", "send(mail)", "sent")

    assert scratchpad.render(pad).splitlines() == [
        "- done, not undone: send(mail) -> sent",
        "- ruled out: search(p) (3x: empty)",
        "- known: the port is 8080",
        "- branch left: by the log",
        "- tried 1x: search(q) -> nothing here",
    ]


def test_the_same_call_is_counted() -> None:
    """It is listed once, as the newest, with its newest outcome."""
    pad = scratchpad.tried({}, 1, "a()", "one")
    pad = scratchpad.tried(pad, 2, "b()", "")
    pad = scratchpad.tried(pad, 1, "a()", "two")

    assert scratchpad.render(pad).splitlines() == [
        "- tried 2x: a() -> two",
        "- tried 1x: b() -> nothing",
    ]


def test_a_call_is_moved_to_what_is_ruled_out() -> None:
    """It keeps how often it was tried and what came of it."""
    pad = scratchpad.tried({}, 7, "a()", "")

    pad = scratchpad.ruled_out(pad, 7)

    assert scratchpad.render(pad) == "- ruled out: a() (1x: nothing)"
    assert scratchpad.ruled_out(pad, 7) == pad


def test_the_oldest_tries_are_forgotten_first() -> None:
    """The newest eight remain."""
    pad: Pad = {}
    for digest in range(20):
        pad = scratchpad.tried(pad, digest, f"call({digest})", "")

    calls = [call for call, _, _ in pad["tried"].values()]
    assert calls == [f"call({digest})" for digest in range(12, 20)]


def test_writes_outlive_tries_when_room_is_short() -> None:
    """What can't be undone is the last to be forgotten."""
    pad: Pad = {}
    for number in range(8):
        pad = scratchpad.tried(pad, number, f"{number}" + "猫" * 150, "猫" * 60)
        pad = scratchpad.add(pad, "writes", f"{number} write", "ok")
    pad = scratchpad.capped(pad)

    assert len(pad["writes"]) == 8
    assert len(pad["tried"]) < 8


SECRETS = ["hunter2hunter2", "abcdefgh12345678", "xyz.+=987654"]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer {}",
        "authorization: {}",
        "password={} and more",
        "curl --api-token {} http://example.org",
        "git clone https://me:{}@example.org/x",
        "AWS_SECRET_ACCESS_KEY={}",
        '{{"password": "{}", "user": "me"}}',
        "found sk-{} in .env",
        "ghp_{}",
        "set-cookie: '{}'",
    ],
)
def test_secrets_in_texts_are_masked(secret: str, text: str) -> None:
    """Keys by their look, passwords by the name in front."""
    assert secret not in scratchpad.quote(text.format(secret), 300)


def test_a_private_key_is_masked_over_its_lines() -> None:
    """To its end, or to the end of the text where that was cut off."""
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIkitten\nkitten=\n"

    assert redaction.masked(f"a {key}-----END RSA PRIVATE KEY-----\nb") == "a ***\nb"
    assert redaction.masked(f"a {key}") == "a ***"


@pytest.mark.parametrize("key", ["password", "apiKey", "api_key", "pass", "X-Token"])
def test_secrets_in_arguments_are_masked(key: str) -> None:
    """At the top and further down, whatever they look like."""
    call = scratchpad.describe("login", {key: "kitten", "user": "me"})
    deep = scratchpad.describe("login", {"body": {"api_key": "kitten"}})

    assert "kitten" not in call + deep
    assert 'user="me"' in call


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=500",
        "used 9 tokens: 4 in, 5 out",
        "the token is bad",
        "see https://example.org/a:b@c",
        "task-oriented search",
        "the basic functionality",
    ],
)
def test_what_only_sounds_like_a_secret_stays(text: str) -> None:
    """Counts, prose and addresses are read by the model."""
    assert scratchpad.quote(text, 300) == text


@given(arguments, st.randoms())
def test_a_call_reads_the_same_whatever_the_order(args: Any, random: Any) -> None:
    """Key order changes no text, and there is none that can't be described."""
    keys = list(args)
    random.shuffle(keys)
    call = scratchpad.describe("act", args)

    assert call == scratchpad.describe("act", {key: args[key] for key in keys})
    assert len(call) <= 90


def _cycle() -> dict[str, Any]:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    return cycle


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (object(), '"<object>"'),
        ({1: "a", "b": 2}, "<dict>"),
        (_cycle(), "<dict>"),
        pytest.param(10**5000, "<int>", id="huge"),
        (math.nan, "NaN"),
        ({"b": 1, "a": [True, None]}, '{"a": [true, null], "b": 1}'),
    ],
)
def test_any_argument_can_be_described(value: Any, text: str) -> None:
    """Without an address in it, so that the text is the same next time."""
    assert scratchpad.describe("act", {"x": value}) == f"act(x={text})"


@given(pads(), pads())
def test_two_writers_are_merged(left: Pad, right: Pad) -> None:
    """The result is as bounded as each, and holds nothing else than both."""
    both = scratchpad.merge(left, right)

    assert len(json.dumps(both, ensure_ascii=False).encode()) <= BYTES * 1.1
    assert set(texts_of(both)) <= set(texts_of(left)) | set(texts_of(right))
    assert scratchpad.load(both) == scratchpad.capped(scratchpad.load(both))


def test_merging_keeps_what_both_wrote() -> None:
    """And of a call that both know the higher count."""
    base = scratchpad.tried({}, 1, "a()", "x")
    left = scratchpad.tried(base, 1, "a()", "x")
    right = scratchpad.add(scratchpad.tried(base, 2, "b()", "y"), "writes", "w()", "ok")

    both = scratchpad.merge(left, right)

    assert [times for _, times, _ in both["tried"].values()] == [2, 1]
    assert both["writes"] == [["w()", "ok"]]


@given(pads())
def test_a_scratchpad_loads_as_it_was(pad: Pad) -> None:
    """Also by way of JSON; parts that are missing are empty."""
    loaded = scratchpad.load(json.loads(json.dumps(pad)))

    assert {part: entries for part, entries in loaded.items() if entries} == {
        part: entries for part, entries in pad.items() if entries
    }


@pytest.mark.parametrize(
    "broken",
    [
        None,
        "text",
        {"tried": ["a"]},
        {"tried": {"1": ["a", "b", "c"]}},
        {"facts": [5, None]},
        {"writes": [["a"], "b"]},
        {"later": [1]},
        {"facts": ["\ud800" * 9_999]},
    ],
)
def test_what_has_another_shape_is_left_out(broken: Any) -> None:
    """Nothing raises, and nothing of it is rendered."""
    assert scratchpad.render(scratchpad.load(broken)) == ""


@given(pads(), st.lists(st.tuples(wild, wild), max_size=12))
def test_what_other_runs_knew_stays_small(pad: Pad, entries: Any) -> None:
    """At most six entries in a third of the room; a load keeps them."""
    after = scratchpad.recalled(pad, entries)

    assert len(after["earlier"]) <= 6
    assert len(json.dumps(after["earlier"], ensure_ascii=False).encode()) <= 850
    assert scratchpad.load(after) == {**scratchpad.load(pad), **after}


def test_what_other_runs_knew_is_shown_as_theirs() -> None:
    """What matters most comes first, after what this run found out itself."""
    pad = scratchpad.add({}, "ruled", "a()", "1x: nothing")
    found = [("b()", "3x: none"), ("the API is v2", ""), ("a()", "9x: no")]

    assert scratchpad.render(scratchpad.recalled(pad, found)).splitlines() == [
        "- ruled out: a() (1x: nothing)",
        "- ruled out in an earlier run: b() (3x: none)",
        "- known from an earlier run: the API is v2",
    ]


def test_what_other_runs_knew_is_replaced_when_it_is_read_again() -> None:
    """What has expired in between is not known any more."""
    pad = scratchpad.recalled({}, [("b()", "3x: none")])

    assert scratchpad.recalled(pad, [("c()", "2x: none")])["earlier"] == [
        ["c()", "2x: none"]
    ]

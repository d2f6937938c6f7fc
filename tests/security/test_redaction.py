"""Secrets are known, whatever kind they are, and nothing else is taken for one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg import redaction
from loopguard_lg.engine import Verdict
from loopguard_lg.errors import PolicyError
from loopguard_lg.hooks import GuardEvent, notify
from loopguard_lg.redaction import Redaction, plugins
from loopguard_lg.redaction.logs import logger
from tests.security.planted import KEYS, TEXTS

AN_EVENT = GuardEvent(name="seen", thread="t", agent="a", event=None, verdict=Verdict())


@pytest.fixture
def using() -> Iterator[Any]:
    """Redacts by other settings until the test ends."""
    before = redaction.use(Redaction())
    yield redaction.use
    redaction.use(before)


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("around", ["{}", "a: '{}'", '{{"x": "{}"}}', "x\n{}\ny"])
def test_a_secret_of_every_kind_is_masked(kind: str, around: str) -> None:
    """In prose, quotes, JSON and between lines."""
    text, secret = TEXTS[kind]
    safe = redaction.masked(around.format(text.format(secret)))

    assert secret not in safe
    assert "***" in safe


@pytest.mark.parametrize("kind", KEYS)
def test_a_masked_key_leaves_what_is_around_it(kind: str) -> None:
    """Only the key goes."""
    assert redaction.masked(f"see {KEYS[kind]} here") == "see *** here"


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=500 and token_count: 7",
        "5 passed, 1 failed in tests/security/test_that_nothing_is_lost.py",
        "src/components/navigation-and-header/HeaderBarWithLongName.tsx",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "APPLICATION_SETTINGS_FOR_EVERYTHING and ACCESSIBILITY1234567",
        "https://example.org/a:b@c?key",
        "the password is wrong; no secret here",
        "PWD=/srv/app",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Digests, paths, counts and prose are read as they are."""
    assert redaction.redacted(text) == text


@given(st.text(max_size=300) | st.sampled_from(sorted(map(str, TEXTS.values()))))
def test_masking_twice_is_masking_once(text: str) -> None:
    """What is masked on writing may be masked on reading."""
    once = redaction.masked(text)

    assert redaction.masked(once) == once


def _detectors() -> dict[str, Any]:
    return {type(one).__name__: one for one in plugins._detectors()}


@pytest.mark.parametrize("kind", KEYS)
def test_the_rules_leave_nothing_for_the_detectors(kind: str) -> None:
    """What `detect-secrets` finds in a text it does not find in the masked one."""
    pytest.importorskip("detect_secrets")
    text = f"see {KEYS[kind]} here"

    assert plugins.found(redaction.masked(text)) == set()


def test_detectors_find_what_the_rules_do_not_know() -> None:
    """In files only, so that what a model is shown depends on no extra."""
    pytest.importorskip("detect_secrets")
    key = "https://api.softlayer.com/soap/v3/" + "0a1b2c3d" * 8
    assert _detectors()

    assert "0a1b2c3d" in redaction.masked(key)
    assert "0a1b2c3d" not in redaction.redacted(key)


def test_detectors_can_be_left_out(using: Any) -> None:
    """The rules remain."""
    using(Redaction(plugins=False))
    key = "https://api.softlayer.com/soap/v3/" + "0a1b2c3d" * 8

    assert redaction.redacted(f"{key} {KEYS['npm']}") == f"{key} ***"


def test_emails_are_masked_by_option(using: Any) -> None:
    """By default they are data as any other."""
    text = "ask jo.doe+x@mail.example.org or me@here"
    assert redaction.masked(text) == text
    using(Redaction(emails=True))

    assert redaction.masked(text) == "ask *** or me@here"


def test_a_hook_masks_what_only_the_user_knows(using: Any) -> None:
    """It comes after the rules, also for keys of objects."""
    using(Redaction(hook=lambda text: text.replace("ACME", "***")))

    assert redaction.data({"ACME": ["by ACME"]}) == {"***": ["by ***"]}


def test_a_hook_that_fails_lets_nothing_out(using: Any, caplog: Any) -> None:
    """The run goes on, the text is gone, and the log says why without it."""
    using(Redaction(hook=lambda text: text[10_000]))

    with caplog.at_level(logging.WARNING, "loopguard_lg.redaction"):
        assert redaction.masked("a customer's name") == "***"
    assert "so texts are masked: IndexError" in caplog.text
    assert "customer" not in caplog.text


def test_a_hook_has_to_be_callable() -> None:
    """The error names what was given."""
    wrong: Any = "ACME"
    with pytest.raises(PolicyError, match="hook='ACME'"):
        Redaction(hook=wrong)


values = st.recursive(
    st.none() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_data_without_secrets_comes_back_equal(value: Any) -> None:
    """And masking twice changes nothing."""
    safe = redaction.data(value)

    assert redaction.data(safe) == safe
    assert "***" in str(safe) or safe == value


def test_what_stands_under_a_secret_name_is_masked() -> None:
    """Whatever it looks like; counts of tokens are none."""
    value = {"apiKey": ["kitten"], "promptTokenCount": 7, "token": None, "n": 1}

    assert redaction.data(value) == {**value, "apiKey": "***"}


def test_a_value_that_holds_itself_ends() -> None:
    """A cycle, or nesting without end, is cut off as text."""
    cycle: dict[str, Any] = {"password": "kitten"}
    cycle["self"] = cycle

    assert "kitten" not in str(redaction.data(cycle))


def _shown(caplog: Any) -> str:
    return "\n".join(map(logging.Formatter("%(message)s").format, caplog.records))


@pytest.mark.parametrize("kind", TEXTS)
def test_the_log_holds_no_secret(kind: str, caplog: Any) -> None:
    """Neither in a message nor in a traceback, whose exception quotes it."""
    text, secret = TEXTS[kind]

    def fails(event: Any) -> None:
        raise ValueError(text.format(secret))

    notify([fails], AN_EVENT)
    logger.warning("the store: %s", text.format(secret))

    assert "an observer failed on seen" in _shown(caplog)
    assert "ValueError" in _shown(caplog)
    assert secret not in _shown(caplog)


def test_no_text_forges_a_line_of_the_terminal(caplog: Any) -> None:
    """Escapes and marks of direction in a message are shown, not obeyed."""
    logger.warning("store: %s", "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe")

    assert _shown(caplog).isprintable()

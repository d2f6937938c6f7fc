"""What a whole guarded run leaves behind, when secrets and orders are all over it."""

from __future__ import annotations

import pytest

from tests.security.planted import TEXTS
from tests.security.runs import ran

KEPT = {
    "channels", "recording", "step log", "spans", "exit report", "farewell",
    "hand-over", "store", "log", "page", "explanation", "emitted test",
}  # fmt: skip


@pytest.mark.parametrize("kind", TEXTS)
def test_no_secret_is_kept_of_a_run(kind: str) -> None:
    """Neither in the state's bytes nor in any file, span, report, page or log line."""
    text, secret = TEXTS[kind]
    kept, _ = ran(text.format(secret))

    assert kept.keys() == KEPT
    assert [name for name, data in kept.items() if secret in data] == []


def test_every_place_would_show_what_is_no_secret() -> None:
    """So the fact above is not one of places that are empty."""
    kept, _ = ran("see kitten-on-the-keys here")

    assert [n for n, data in kept.items() if "kitten-on-the-keys" not in data] == []


@pytest.mark.parametrize("kind", TEXTS)
def test_a_secret_changes_no_verdict(kind: str) -> None:
    """Detectors see the texts as they are."""
    text, secret = TEXTS[kind]

    assert ran(text.format(secret))[1] == ran("see kitten-on-the-keys here")[1]

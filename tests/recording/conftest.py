"""The models of the scenarios: real ones while recording, none on replay."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from loopguard_lg.testing.cassettes import PLACEHOLDER

if TYPE_CHECKING:
    from loopguard_lg.testing.cassettes import Recording

SECONDS_PER_REQUEST = 900.0


def chat_model(role: str, recording: Recording) -> ChatOpenAI:
    """The model of a role, built so that recording and replay send the same bytes.

    Its name is kept in the recording, so that a replay sends the one recorded.
    """
    variable = f"LOOPGUARD_RECORD_{role.upper()}"
    name = recording.get_metadata(role, os.environ.get(variable))
    default = f"http://{PLACEHOLDER}/v1"
    return ChatOpenAI(
        model=name,
        base_url=os.environ.get(f"{variable}_URL", default),
        api_key=SecretStr(os.environ.get("LOOPGUARD_RECORD_KEY", "none")),
        temperature=0,
        max_completion_tokens=120,
        max_retries=0,
        timeout=SECONDS_PER_REQUEST,
        stream_usage=True,
        use_responses_api=False,
    )


@pytest.fixture
def weak(loopguard_cassette: Recording) -> ChatOpenAI:
    """The model that goes in circles."""
    return chat_model("weak", loopguard_cassette)


@pytest.fixture
def strong(loopguard_cassette: Recording) -> ChatOpenAI:
    """The model that is escalated to."""
    return chat_model("strong", loopguard_cassette)


@pytest.fixture(autouse=True)
def _no_sockets(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay opens no connection at all, not even on this machine."""
    if not request.config.getoption("--loopguard-record"):
        monkeypatch.setattr(socket.socket, "connect", _refuse)


def _refuse(sock: socket.socket, address: Any) -> None:
    raise ConnectionRefusedError(f"a replay wanted to connect to {address!r}")

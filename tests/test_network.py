"""The suite's own fence."""

from __future__ import annotations

import socket

import pytest


def test_a_connection_to_another_machine_is_refused() -> None:
    """A test that reaches for the network fails at once and says where to."""
    with (
        socket.socket() as sock,
        pytest.raises(RuntimeError, match=r"192\.0\.2\.1"),
    ):
        sock.connect(("192.0.2.1", 80))


def test_a_name_is_refused_before_it_is_resolved() -> None:
    """A host name that is not this machine's counts as another machine."""
    with socket.socket() as sock, pytest.raises(RuntimeError, match=r"example\.org"):
        sock.connect_ex(("example.org", 80))


def test_loopback_stays_open() -> None:
    """A server of the test's own can be reached."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sock:
        sock.connect(server.getsockname())

        assert sock.getpeername() == server.getsockname()


async def test_an_event_loop_runs() -> None:
    """Asyncio's self-pipe is not taken for the network."""
    import asyncio

    assert await asyncio.to_thread(lambda: 1) == 1

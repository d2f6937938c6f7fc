"""What holds for every test: no network, no tracing, bounded random examples."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.servers.fixtures import (
    database,
    postgres,
    redis_stack,
    redis_stack_server,
    redis_url,
)

__all__ = ["database", "postgres", "redis_stack", "redis_stack_server", "redis_url"]

# Before anything imports langchain: it reads these once.
os.environ["LANGSMITH_TRACING"] = "false"
os.environ["LANGCHAIN_TRACING_V2"] = "false"

settings.register_profile(
    "bounded",
    derandomize=True,
    max_examples=50,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("bounded")


class NetworkClosedError(RuntimeError):
    """A test wanted to leave this machine."""


def _stays_here(sock: socket.socket, address: Any) -> bool:
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return True
    host = str(address[0])
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _guarded(method: str) -> Callable[[socket.socket, Any], Any]:
    real = getattr(socket.socket, method)

    def connect(sock: socket.socket, address: Any) -> Any:
        if not _stays_here(sock, address):
            raise NetworkClosedError(f"a test tried to connect to {address!r}")
        return real(sock, address)

    return connect


@pytest.fixture(autouse=True)
def _network_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only loopback and unix sockets connect; an event loop's own pipe is one."""
    for method in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, method, _guarded(method))


@pytest.fixture(autouse=True)
def _no_variable_of_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies are read from all that begins with `LOOPGUARD_`: this is none of it."""
    monkeypatch.delenv("LOOPGUARD_REDIS_STACK_URL", raising=False)

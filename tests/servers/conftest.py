"""Each checkpointer in turn, on a place of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.middleware.killed import SAVERS


@pytest.fixture(params=SAVERS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each checkpointer in turn."""
    name: str = request.param
    return name


@pytest.fixture
def where(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where it keeps its data: nothing is there yet."""
    for name, server in (("postgres", "database"), ("redis", "redis_stack")):
        if kind.startswith(name):
            address: str = request.getfixturevalue(server)
            return address
    return str(tmp_path / "state.db")

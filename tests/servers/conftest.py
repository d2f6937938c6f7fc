"""Each checkpointer in turn, on a place of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.kept import SAVERS


@pytest.fixture(params=SAVERS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each checkpointer in turn."""
    name: str = request.param
    return name


@pytest.fixture
def where(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where it keeps its data: nothing is there yet."""
    if kind.startswith("postgres"):
        address: str = request.getfixturevalue("database")
        return address
    return str(tmp_path / "state.db")

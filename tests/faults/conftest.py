from __future__ import annotations

import pytest

from tests.middleware import runs


@pytest.fixture(autouse=True)
def _nothing_executed() -> None:
    runs.executed.clear()


@pytest.fixture(params=runs.WAYS, ids=lambda way: way.__name__)
def way(request: pytest.FixtureRequest) -> runs.Way:
    """Each way to run an agent."""
    return request.param

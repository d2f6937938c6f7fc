from __future__ import annotations

import pytest

from tests.middleware import runs


@pytest.fixture(autouse=True)
def _nothing_executed() -> None:
    runs.executed.clear()


@pytest.fixture(params=[runs.invoke, runs.ainvoke], ids=lambda way: way.__name__)
def way(request: pytest.FixtureRequest) -> runs.Way:
    """To run an agent without or with an event loop."""
    return request.param

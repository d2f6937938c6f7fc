"""How git is called: without a shell, and without anybody's configuration."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tenacity import (
    RetryError,
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_exponential,
)

from loopguard_lg.errors import WorkspaceError

try:
    import fcntl
except ImportError:  # Windows, where nothing can be put back anyway
    fcntl = None  # type: ignore[assignment]

_SETTINGS: Mapping[str, str] = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.protectHFS": "false",
    "core.protectNTFS": "false",
    "core.untrackedCache": "true",
    "core.bigFileThreshold": "1m",
    "core.looseCompression": "1",
    "index.version": "4",
    "gc.auto": "0",
    "submodule.recurse": "false",
    "user.name": "loopguard",
    "user.email": "loopguard@localhost",
    "commit.gpgSign": "false",
}
"""On every command line, where they win over whatever a file says. Names are judged by
`files.is_inside`: one that git refuses would cost the whole snapshot."""

# Files are saved byte by byte: no line ends, encodings or keywords are changed, and no
# filter, which is a command, is run. This place wins over the tree's `.gitattributes`.
_ATTRIBUTES = "* -text -ident -filter !working-tree-encoding !eol\n"


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository of snapshots, and the tree that they are of.

    Attributes:
        top: The folder, with no link in its path.
        place: Where the repository is.
        git: The program, if there is one.
        timeout: Seconds after which a command is given up.
        patience: Seconds that are waited for others who are at work here.
    """

    top: bytes
    place: Path
    git: str | None
    timeout: float
    patience: float = 30.0

    def run(self, *args: str, **settings: Any) -> bytes:
        """What a command prints.

        Raises:
            WorkspaceError: git is missing, or the command fails.
        """
        done = self.called(args, **settings)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()[-500:]
            raise WorkspaceError(f"git {args[0]} failed: {said or done.returncode}")
        return done.stdout

    def ask(self, *args: str) -> bytes:
        """What a command prints; nothing where it fails."""
        done = self.called(args)
        return b"" if done.returncode else done.stdout

    def called(
        self,
        args: tuple[str, ...],
        *,
        given: bytes = b"",
        tree: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """A command that has run, whatever came of it.

        Args:
            args: The command.
            given: Its input.
            tree: The folder that it works on, the workspace or one inside.
            env: Variables beside those of every command.
        """
        if self.git is None:
            raise WorkspaceError(
                "git was not found on PATH, so files can't be saved or put back; "
                "messages are still rolled back. Install git for both"
            )
        settings = [
            part for item in _SETTINGS.items() for part in ("-c", "=".join(item))
        ]
        work = os.fsdecode(tree or self.top)
        where = [f"--git-dir={self.place}", f"--work-tree={work}"]
        try:
            # No shell; every argument is ours, and paths go through its input.
            return subprocess.run(  # noqa: S603
                [self.git, *settings, *where, *args],
                cwd=tree or self.top,
                env={**self._environment, **(env or {})},
                input=given,
                capture_output=True,
                timeout=self.timeout,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise WorkspaceError(f"git {args[0]} failed: {error}") from error

    @property
    def _environment(self) -> dict[str, str]:
        """Nothing of the caller's: no `GIT_...`, no home with a configuration."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.place),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One at a time for a store, across threads and processes.

        Raises:
            WorkspaceError: Others are at it for longer than `patience`.
        """
        self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.place / "loopguard.lock").open("w") as lock:
            self._wait_for(lock)
            self._prepare()
            # Whoever was killed in here has left git's own lock behind.
            (self.place / "index.lock").unlink(missing_ok=True)
            yield

    def _prepare(self) -> None:
        if not (self.place / "HEAD").exists():
            self.run("init", "-q", "--template=", "--initial-branch=none")
        info = self.place / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(_ATTRIBUTES)
        own = os.path.join(self.top, b".git", b"info", b"exclude")
        plain = os.path.isfile(own) and not os.path.islink(own)
        ignored = Path(os.fsdecode(own)).read_bytes() if plain else b""
        (info / "exclude").write_bytes(ignored)

    def _wait_for(self, lock: IO[str]) -> None:
        """Have the lock, which whoever dies gives up."""
        tries = Retrying(
            retry=retry_if_exception_type(BlockingIOError),
            wait=wait_exponential(0.01, max=0.2),
            stop=stop_after_delay(self.patience),
        )
        try:
            tries(_flock, lock)
        except RetryError as error:
            raise WorkspaceError(
                f"another process has been at work in {lock.name!r} for more than "
                f"{self.patience:g} seconds, so files can't be saved or put back; "
                "messages are still rolled back. End that process if it hangs"
            ) from error


def _flock(lock: IO[str]) -> None:
    if fcntl is not None:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

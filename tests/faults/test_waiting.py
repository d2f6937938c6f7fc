"""Threads that can't be started, and files that several write at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loopguard_lg.deadlines import Aside
from loopguard_lg.wholefiles import write_whole


def test_a_thread_that_can_t_be_started_takes_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once the system has threads again, calls are made again."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    aside = Aside(1)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            aside.in_time(lambda: 7, 5)

    assert aside.in_time(lambda: 7, 5) == 7


def test_what_was_private_stays_so(tmp_path: Path) -> None:
    """A file that is written anew is open to nobody else than before."""
    path = tmp_path / "report.html"
    path.touch(0o600)

    write_whole(path, "new")

    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)


def test_threads_may_write_the_same_file(tmp_path: Path) -> None:
    """One of them is last, and what it wrote is whole."""
    path = tmp_path / "report.html"
    texts = [letter * 10_000 for letter in "abcd"] * 10

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda text: write_whole(path, text), texts))

    assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]

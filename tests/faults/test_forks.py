"""Processes that fork while another thread of theirs holds a lock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")

SCRIPT = """
import os, signal, sys, threading
from contextlib import suppress
from loopguard_lg import Recorder, Turn
from loopguard_lg.deadlines import Aside
from loopguard_lg.fleet import MemoryLedger
from loopguard_lg.fleet.background import _background as background
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.engine import Verdict

def seen(thread):
    return GuardEvent(
        name="seen",
        thread=thread,
        agent="main",
        event=Turn(text="x"),
        verdict=Verdict(),
    )

async def work():
    return 7

recorder, ledger, aside = Recorder(sys.argv[1]), MemoryLedger(), Aside(1)
with suppress(TimeoutError):
    aside.in_time(threading.Event().wait, 0.01)
recorder(seen("parent"))
background.submit(work()).result()
with background._lock, recorder._lock, ledger._lock:
    child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.alarm(20)
assert background.submit(work()).result() == 7
assert aside.in_time(lambda: 7, 5) == 7
assert ledger.balance("key", 0.0).spent == 0
recorder(seen("child"))
"""


def test_a_child_goes_on_with_locks_and_threads_of_its_own(tmp_path: Path) -> None:
    """What another thread held when it was forked is free; each run is written once."""
    path = tmp_path / "runs.jsonl"
    python = [sys.executable, "-W", "ignore::DeprecationWarning"]
    command = [*python, "-c", SCRIPT, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")
    assert path.read_text().count('"id":"parent"') == 1
    assert path.read_text().count('"id":"child"') == 1


FEEDBACK = """
import os, threading
from types import SimpleNamespace as Names
from loopguard_lg.telemetry.langsmith import LangSmithObserver

answers = threading.Event()

class Client:
    def create_feedback(self, *args, value, **more):
        answers.wait(20)
        os.write(1, f"{value}\\n".encode())

def tell(kind):
    run = Names(trace_id=1, session_id=2)
    observer._later(lambda: observer._score(Client(), run, kind))

observer = LangSmithObserver()
for kind in ("first", "second"):
    tell(kind)
child = os.fork()
answers.set()
tell("parent" if child else "child")
assert observer.flush(20)
if child:
    os.waitpid(child, 0)
"""


def test_a_child_sends_no_feedback_that_its_parent_sends() -> None:
    """What waited for LangSmith when it was forked is sent once."""
    python = [sys.executable, "-W", "ignore::DeprecationWarning"]
    done = subprocess.run(
        [*python, "-c", FEEDBACK], capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.split()) == ["child", "first", "parent", "second"]

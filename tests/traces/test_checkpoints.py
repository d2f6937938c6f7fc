from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from psycopg.conninfo import conninfo_to_dict

from loopguard_lg import AskUser, Policy, Recorder
from loopguard_lg.analysis.replay import verdicts
from loopguard_lg.cli.app import run
from loopguard_lg.errors import TraceFormatError
from loopguard_lg.steps import Compaction, Human
from loopguard_lg.testing.doubles import ScriptedModel, call
from loopguard_lg.traces.model import Trajectory
from loopguard_lg.traces.readers import read
from tests.middleware.runs import THREAD, TOOLS, ask, guarded, laddered, same

Saving = Callable[[], AbstractContextManager[tuple[Any, str]]]


@pytest.fixture(params=["sqlite", "postgres"])
def saving(request: pytest.FixtureRequest, tmp_path: Path) -> Saving:
    """Makes a saver, and says what its database is read by."""

    @contextmanager
    def sqlite() -> Iterator[tuple[Any, str]]:
        path = str(tmp_path / "checkpoints.db")
        with SqliteSaver.from_conn_string(path) as saver:
            yield saver, path

    @contextmanager
    def postgres() -> Iterator[tuple[Any, str]]:
        known = conninfo_to_dict(request.getfixturevalue("database"))
        address = f"postgresql:///{known.pop('dbname')}?{urlencode(known)}"
        with PostgresSaver.from_conn_string(address) as saver:
            saver.setup()
            yield saver, address

    return sqlite if request.param == "sqlite" else postgres


def only(path: str) -> Trajectory:
    """The one run of a database."""
    (run,) = read(path)
    assert isinstance(run, Trajectory), run
    return run


def told(run: Trajectory, policy: Policy) -> list[tuple[Any, ...]]:
    """The verdicts on a run."""
    return [
        (verdict.action, verdict.rung, verdict.finding and verdict.finding.kind)
        for _, verdict in verdicts(policy, run)
    ]


def test_a_thread_replays_to_the_verdicts_of_its_recording(
    saving: Saving, tmp_path: Path
) -> None:
    """The checkpointer knows as much of a guarded run as the recorder wrote down."""
    policy = laddered(ScriptedModel(replies=same(9)), AskUser())
    weak = ScriptedModel(replies=[[call("read", path="a")], *same(9), "found"])
    with saving() as (saver, path), Recorder(tmp_path / "run.jsonl") as recorder:
        agent = guarded(weak, policy, observers=[recorder], checkpointer=saver)
        agent.invoke(ask(), THREAD)
        agent.invoke(Command(resume="try again"), THREAD)
        recorder.close()
        stored, recorded = only(path), only(str(tmp_path / "run.jsonl"))

    assert told(stored, policy) == told(recorded, policy)
    assert {"reflect", "escalate", "exit"} <= {
        action for action, *_ in told(stored, policy)
    }
    assert any(isinstance(e, Human) and e.answer for e in stored.events)


def test_a_compaction_is_seen_in_what_is_no_longer_there(saving: Saving) -> None:
    """What a summary took the place of is read, and the cut after it."""
    shorten = SummarizationMiddleware(
        ScriptedModel(default="a summary"),
        trigger=("messages", 8),
        keep=("messages", 2),
    )
    model = ScriptedModel(replies=[call("read", path=p) for p in "abcdef"] + ["done"])
    with saving() as (saver, path):
        agent = create_agent(model, TOOLS, middleware=[shorten], checkpointer=saver)
        agent.invoke(ask(), THREAD)
        run = only(path)

    calls = [c["args"]["path"] for step in run.steps for c in step.get("calls", [])]
    assert calls == [*"abcdef"]
    assert sum(isinstance(event, Compaction) for event in run.events) == 1


def test_a_run_that_kept_its_last_checkpoint_alone_is_read_off_that(
    saving: Saving,
) -> None:
    """With `durability="exit"` there are no writes: the state has the messages."""
    with saving() as (saver, path):
        model = ScriptedModel(replies=[*same(2), "done"])
        agent = create_agent(model, TOOLS, checkpointer=saver)
        agent.invoke(ask(), THREAD, durability="exit")
        run = only(path)

    assert sum(len(step.get("calls", [])) for step in run.steps) == 2


def test_threads_are_runs_of_their_own(saving: Saving) -> None:
    """Each under its name."""
    with saving() as (saver, path):
        model = ScriptedModel(default="done")
        agent = create_agent(model, TOOLS, checkpointer=saver)
        for name in "ab":
            agent.invoke(ask(), {"configurable": {"thread_id": name}})
        names = [run.id for run in read(path) if isinstance(run, Trajectory)]

    assert names == ["a", "b"]


def test_a_file_of_an_older_saver_is_read(tmp_path: Path) -> None:
    """Its table of writes has no `task_path`."""
    path = f"{tmp_path}/state.db"
    with SqliteSaver.from_conn_string(path) as saver:
        agent = create_agent(ScriptedModel(default="yes"), TOOLS, checkpointer=saver)
        agent.invoke(ask("first"), THREAD)
        columns = [row[1] for row in saver.conn.execute("PRAGMA table_info(writes)")]
        if "task_path" in columns:
            saver.conn.execute("ALTER TABLE writes DROP COLUMN task_path")
            saver.conn.commit()
    run = only(path)

    assert [step["text"] for step in run.steps] == ["first", "yes"]


def test_a_branch_that_was_left_is_not_read(saving: Saving) -> None:
    """After going back the newest branch counts, from the beginning."""
    with saving() as (saver, path):
        model = ScriptedModel(replies=[call("read", path="old"), "no", "yes"])
        agent = create_agent(model, TOOLS, checkpointer=saver)
        agent.invoke(ask("first"), THREAD)
        start = [*agent.get_state_history(THREAD)][-2].config
        agent.invoke(None, start)
        run = only(path)

    assert [step["text"] for step in run.steps] == ["first", "yes"]


def test_nothing_that_is_stored_is_made_into_an_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that names a function to call is read as what stands in it."""
    import ormsgpack

    asked = ormsgpack.packb(("os", "system", "touch pwned"))
    value = ormsgpack.packb([ormsgpack.Ext(0, asked)])
    monkeypatch.chdir(tmp_path)
    with closing(made(tmp_path / "evil.db", "msgpack", value)):
        found = [*read(tmp_path / "evil.db")]

    assert [getattr(run, "id", run) for run in found] == ["t"]
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        ("msgpack+aes", b"?", "thread t: values of type 'msgpack+aes' can't be read"),
        ("msgpack", b"\xc1", "thread t: "),
        ("json", b"{", "thread t: "),
    ],
)
def test_a_value_that_cannot_be_read_is_named(
    tmp_path: Path, kind: str, value: bytes, problem: str
) -> None:
    """An encrypted or broken value costs its thread, and says which."""
    with closing(made(tmp_path / "some.db", kind, value)):
        (error,) = read(tmp_path / "some.db")

    assert isinstance(error, TraceFormatError)
    assert error.problem.startswith(problem)


def test_another_database_is_named(tmp_path: Path) -> None:
    """A SQLite file without checkpoints is one error."""
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    (error,) = read(tmp_path / "other.db")

    assert "no such table: checkpoints" in str(error)


def test_no_server_is_one_error_without_the_password(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An address at which nobody answers, by the command."""
    address = "postgresql://nobody:hunter22@127.0.0.1:1/none?connect_timeout=1"

    assert run(["check", address]) == 2
    said = capsys.readouterr().err
    assert "connection failed" in said
    assert "hunter22" not in said


def made(path: Path, kind: str, value: bytes) -> sqlite3.Connection:
    """A database with one thread, which wrote one value."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.setup()
    connection = sqlite3.connect(path)
    connection.execute(
        "INSERT INTO checkpoints VALUES ('t', '', '1', NULL, 'json', '{}', '{}')"
    )
    connection.execute(
        "INSERT INTO writes (thread_id, checkpoint_id, task_id, idx, channel, type,"
        " value) VALUES ('t', '1', 'x', 0, 'messages', ?, ?)",
        (kind, value),
    )
    connection.commit()
    return connection

"""The example app, served by the real LangGraph server, over its HTTP API."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

sdk = pytest.importorskip("langgraph_sdk")
pytest.importorskip("langgraph_api", reason="langgraph-cli[inmem] is not installed")

ROOT = Path(__file__).parents[2]
OFFLINE = {
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_DISABLE_FILE_PERSISTENCE": "true",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
    "LANGSMITH_TRACING": "false",
}
"""What keeps the server from calling home, and from writing beside the app."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with the app."""
    app = tmp_path_factory.mktemp("app")
    shutil.copytree(ROOT / "examples/langgraph_app", app, dirs_exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser"]
    command += ["--no-reload", "--host", "127.0.0.1", "--port", str(port)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, **OFFLINE, "PYTHONPATH": path}
    with (app / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=app, env=env, stdout=log, stderr=log)
    try:
        _await(f"http://127.0.0.1:{port}/ok")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _await(url: str) -> None:
    """Connect, again and again until something listens."""
    transport = httpx.HTTPTransport(retries=8)
    with httpx.Client(transport=transport, timeout=60) as client:
        client.get(url).raise_for_status()


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    """The SDK's client."""
    with sdk.get_sync_client(url=url) as made:
        yield made


@pytest.fixture
def thread(client: Any) -> str:
    """A new thread."""
    made: str = client.threads.create()["thread_id"]
    return made


WORD = {"messages": [{"role": "user", "content": "find the invoice"}]}


def test_a_loop_is_asked_about_over_http(client: Any, thread: str) -> None:
    """The run stops at a question that an inbox can show; the channel is private."""
    out = client.runs.wait(thread, "agent", input=WORD)
    state = client.threads.get_state(thread)
    (question,) = state["interrupts"]

    assert "`search` was called" in question["value"]["question"]
    assert question["value"]["choices"]
    assert "loopguard" not in out
    assert state["values"]["loopguard"]["ladder"]["rung"] == 3


def test_an_answer_over_http_goes_on(client: Any, thread: str) -> None:
    """A hint takes the agent out of the loop."""
    client.runs.wait(thread, "agent", input=WORD)
    command = {"resume": "look in the archive"}
    out = client.runs.wait(thread, "agent", command=command)

    assert out["messages"][-1]["content"] == "It is invoice 42."


def test_a_person_stops_it_over_http(client: Any, thread: str) -> None:
    """The report is in the output, and in the last message."""
    client.runs.wait(thread, "agent", input=WORD)
    out = client.runs.wait(thread, "agent", command={"resume": {"choice": "stop"}})
    message = out["messages"][-1]

    assert out["loopguard_exit"]["detail"] == "a person said to stop"
    assert message["response_metadata"]["loopguard_exit"] == out["loopguard_exit"]


def test_a_run_is_streamed_over_http(client: Any, thread: str) -> None:
    """Every value up to the question comes, and the run is interrupted."""
    parts = [
        part
        for part in client.runs.stream(
            thread, "agent", input=WORD, stream_mode=["values", "updates"]
        )
        if part.event == "updates"
    ]

    assert "__interrupt__" in parts[-1].data


def test_two_runs_on_one_thread_lose_no_count(client: Any, thread: str) -> None:
    """The server has one of them wait for the other."""
    word = {"messages": [{"role": "user", "content": "look in the archive"}]}
    runs = [
        client.runs.create(thread, "agent", input=word, multitask_strategy="enqueue")
        for _ in range(2)
    ]
    for run in runs:
        client.runs.join(thread, run["run_id"])
    used = client.threads.get_state(thread)["values"]["loopguard"]["used"]

    assert used["thread"]["model_calls"] == 3
    assert used["run"]["model_calls"] == 1

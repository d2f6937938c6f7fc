from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest
from langchain_core.tracers import LangChainTracer
from langsmith import Client

from loopguard_lg.telemetry.langsmith import TRIPPED, LangSmithObserver
from loopguard_lg.testing.doubles import ScriptedModel
from tests.middleware.runs import THREAD, ask, guarded, same

PROJECT = {
    "id": str(UUID(int=7)),
    "tenant_id": str(UUID(int=8)),
    "name": "default",
    "start_time": "2026-01-01T00:00:00",
    "reference_dataset_id": None,
}


class Server:
    """A loopback server that keeps what is sent to LangSmith's API."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.asked = 0
        self.answers = threading.Event()
        self.answers.set()
        self.projects: list[Any] = [PROJECT]
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                """Keep a request."""
                size = int(self.headers.get("content-length") or 0)
                outer.sent.append((self.path, self.rfile.read(size)))
                self._say({})

            do_PATCH = do_POST

            def do_GET(self) -> None:
                """Say what the client asks: of the project, or of the server."""
                info = {"batch_ingest_config": {"use_multipart_endpoint": False}}
                project = "/sessions" in self.path
                if project:
                    outer.asked += 1
                    outer.answers.wait(20)
                self._say(outer.projects if project else info)

            def _say(self, data: Any) -> None:
                body = json.dumps(data).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing on the terminal."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    """The server, listening."""
    found = Server()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


def looping(observer: LangSmithObserver) -> Any:
    """An agent that makes the same call three times."""
    model = ScriptedModel(replies=[*same(3), "done"])
    return guarded(model, observers=[observer])


@pytest.fixture
def client(server: Server) -> Client:
    """A client of the server."""
    return Client(api_url=server.url, api_key="none", auto_batch_tracing=False)


def trip(client: Client, observer: LangSmithObserver) -> None:
    """A traced run that trips."""
    config = {**THREAD, "callbacks": [LangChainTracer(client=client)]}
    looping(observer).invoke(ask(), config)


def test_a_traced_run_that_trips_is_marked(server: Server, client: Client) -> None:
    """Feedback on the trace, tags and metadata on the run, nothing that was said."""
    observer = LangSmithObserver(client)
    trip(client, observer)
    assert observer.flush(20)
    client.flush()
    (feedback,) = [body for path, body in server.sent if "feedback" in path]

    assert json.loads(feedback)["key"] == TRIPPED
    assert json.loads(feedback)["value"] == "repeat"
    assert b"no results" not in feedback
    assert any(b"loopguard:repeat" in body for _, body in server.sent)
    assert any(b"loopguard_reflected" in body for _, body in server.sent)


def test_no_run_waits_for_langsmith(server: Server, client: Client) -> None:
    """Runs end before it answers; it is asked for a project once."""
    observer = LangSmithObserver(client)
    server.answers.clear()
    trip(client, observer)
    trip(client, observer)
    assert not [path for path, _ in server.sent if "feedback" in path]
    server.answers.set()

    assert observer.flush(20)
    assert len([path for path, _ in server.sent if "feedback" in path]) == 2
    assert server.asked == 1


def test_feedback_that_can_t_be_sent_is_counted(
    server: Server, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """A project that is not there is asked for three times, and said once."""
    observer = LangSmithObserver(client)
    server.projects = []
    for _ in range(5):
        trip(client, observer)

    assert observer.flush(20)
    assert (observer.lost, server.asked) == (5, 3)
    assert caplog.text.count("feedback for LangSmith is lost") == 1


def test_nothing_is_sent_where_no_run_is_traced(server: Server, client: Client) -> None:
    """With tracing off the observer is silent."""
    looping(LangSmithObserver(client)).invoke(ask(), THREAD)

    assert server.sent == []

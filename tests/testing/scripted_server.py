"""A real HTTP server on loopback that speaks the OpenAI chat format from a script."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Answers each request with the next message of the server's script."""

    server: ScriptedServer

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """Answer whole, or as a stream where the request wants one."""
        size = int(self.headers["content-length"])
        request = json.loads(self.rfile.read(size))
        self.server.requests.append(request)
        self.server.headers.append(dict(self.headers))
        message = self.server.script.pop(0)
        if request.get("stream"):
            self.answer("text/event-stream", stream(message))
        else:
            self.answer("application/json", json.dumps(completion(message)).encode())

    def answer(self, kind: str, body: bytes) -> None:
        """Send a body, packed if the client can unpack it."""
        self.send_response(200)
        if "gzip" in self.headers.get("accept-encoding", ""):
            body = gzip.compress(body)
            self.send_header("content-encoding", "gzip")
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("set-cookie", "session=secret-cookie")
        self.send_header("x-request-id", "req-1")
        self.end_headers()
        self.wfile.write(body)


class ScriptedServer(ThreadingHTTPServer):
    """The server with what it was asked."""

    daemon_threads = True

    def __init__(self, script: Sequence[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []

    @property
    def base_url(self) -> str:
        """Where clients find the API."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


@contextmanager
def serving(*script: dict[str, Any]) -> Iterator[ScriptedServer]:
    """A running server that answers with `script`."""
    with ScriptedServer(script) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def says(text: str) -> dict[str, Any]:
    """A message that is a text."""
    return {"role": "assistant", "content": text}


def calls(tool: str, **args: Any) -> dict[str, Any]:
    """A message that is one tool call."""
    function = {"name": tool, "arguments": json.dumps(args)}
    call = {"index": 0, "id": "call_a", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def completion(message: dict[str, Any]) -> dict[str, Any]:
    """The whole answer."""
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [choice],
        "usage": usage,
    }


def stream(message: dict[str, Any]) -> bytes:
    """The answer as events: one per word, or one for the call, then the end."""
    words = [f"{word} " for word in (message["content"] or "").split()]
    deltas = [message | {"content": word} for word in words] or [message]
    chunks = [
        completion(message)
        | {
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
            "usage": None,
        }
        for delta in deltas
    ]
    chunks[-1]["usage"] = completion(message)["usage"]
    frames = [*map(json.dumps, chunks), "[DONE]"]
    return "".join(f"data: {frame}\n\n" for frame in frames).encode()

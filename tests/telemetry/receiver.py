"""A receiver of OTLP over HTTP, as a collector with a file exporter is one.

It is built on the protobuf messages of `opentelemetry-proto`, and writes what it gets
as OTLP JSON, a request a line.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)

KINDS = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
}


@contextmanager
def receiver(folder: Path) -> Iterator[str]:
    """The address of a receiver that writes `traces.jsonl` and `metrics.jsonl`."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Take a request that parses; others are the client's fault."""
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            message: Any = KINDS[self.path]()
            message.ParseFromString(body)
            name = self.path.rsplit("/", 1)[-1]
            with lock, (folder / f"{name}.jsonl").open("a") as file:
                file.write(MessageToJson(message, indent=None) + "\n")
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

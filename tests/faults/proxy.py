"""A proxy in front of a server, which can be cut, hung and mended."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Proxy:
    """Passes bytes between clients and a server on a unix socket.

    Attributes:
        server: Path of the server's socket.
        port: Where clients connect, on loopback.
        hung: Bytes are taken and not passed on.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self.hung = False
        self._down = False
        self._open: list[socket.socket] = []
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        """Close every connection, and each new one at once."""
        self._down = True
        self._drop()

    def mend(self) -> None:
        """Pass bytes on again, for new connections."""
        self._drop()
        self._down = self.hung = False

    def close(self) -> None:
        """Be gone."""
        self._door.close()
        self._drop()

    def _drop(self) -> None:
        while self._open:
            one = self._open.pop()
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the door is closed
            while True:
                client, _ = self._door.accept()
                if self._down:
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.server)
                self._open += [client, server]
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if not self.hung:
                    to.sendall(data)
            to.shutdown(socket.SHUT_WR)


@contextmanager
def in_front_of(server: str) -> Iterator[Proxy]:
    """A proxy in front of a server's unix socket."""
    proxy = Proxy(server)
    try:
        yield proxy
    finally:
        proxy.close()

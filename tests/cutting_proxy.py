"""A TCP proxy before PostgreSQL that cuts the connection at the client's COMMIT.

``before``: the server never hears of the COMMIT. ``after``: the server has committed and answered, but the
answer is thrown away. ``at_once``: the server gets the COMMIT and the client is cut off without waiting.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal
from urllib.parse import parse_qs, urlsplit

Cut = Literal["before", "after", "at_once"]
_COMMIT = b"COMMIT\x00"
_VERSION = b"INSERT INTO lakebed_versions"


@contextmanager
def proxied(direct: str) -> Iterator[tuple[CuttingProxy, str]]:
    """A proxy before the server of a database, and the URL of the database through it."""
    query = parse_qs(urlsplit(direct).query)
    proxy = CuttingProxy(f"{query['host'][0]}/.s.PGSQL.{query['port'][0]}")
    try:
        yield proxy, f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(direct).path}?sslmode=disable"
    finally:
        proxy.close()


class CuttingProxy:
    """Forwards connections on loopback to a unix socket; ``cut`` arms it for one COMMIT."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cut: Cut | None = None
        self.refusing = False
        """Whether new connections are closed at once, as by a server that is away."""
        self.away_after_cut = False
        self.versions_only = False
        """Whether it cuts at no COMMIT but that of a new version of a table."""
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed: the test is over
            if self.refusing:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            state = _Pair(self, client, server)
            threading.Thread(target=state.client_to_server, daemon=True).start()
            threading.Thread(target=state.server_to_client, daemon=True).start()


class _Pair:
    """One connection through the proxy."""

    def __init__(self, proxy: CuttingProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._swallowing = False
        self._makes_version = False

    def client_to_server(self) -> None:
        try:
            while data := self._client.recv(65536):
                self._makes_version |= _VERSION in data
                cut = self._proxy.cut if _COMMIT in data else None
                if cut is None or (self._proxy.versions_only and not self._makes_version):
                    self._makes_version &= _COMMIT not in data
                    self._server.sendall(data)
                    continue
                self._proxy.cut = None
                self._proxy.cuts += 1
                self._proxy.refusing = self._proxy.away_after_cut
                if cut == "before":
                    break
                self._swallowing = True
                self._server.sendall(data)
                if cut == "at_once":
                    self._client.shutdown(socket.SHUT_RDWR)
                return  # the other direction sees the answer, and ends both
        except OSError:
            pass  # the other side is gone, so this one ends too
        self._end()

    def server_to_client(self) -> None:
        try:
            while data := self._server.recv(65536):
                if self._swallowing:
                    break
                self._client.sendall(data)
        except OSError:
            pass  # as above
        self._end()

    def _end(self) -> None:
        for side in (self._client, self._server):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # already closed
            side.close()

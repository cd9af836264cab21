"""Answers scrapes and probes in threads of its own, whoever else connects.

Each connection has a thread. So there are few of them: who connects when all are taken gets the
place of whoever has held one longest.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from socketserver import BaseServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from gnomon.observe.health import Finding, NodeHealth
from gnomon.observe.siblings import Siblings

MOST_CONNECTIONS = 32
SILENT_SECONDS = 10.0
_JSON = "application/json"

Answer = tuple[HTTPStatus, str, bytes]


class ProcessPages:
    """`/metrics`, `/healthz` and `/readyz` of a process; with `siblings`, of all of them."""

    def __init__(
        self, registry: CollectorRegistry, health: NodeHealth, siblings: Siblings | None
    ) -> None:
        self._registry = registry
        self._health = health
        self._siblings = siblings

    def alone(self) -> "ProcessPages":
        """The same of this process only, for a sibling that asks."""
        return ProcessPages(self._registry, self._health, None)

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            status, media_type, body = self._metrics(environ.get("HTTP_ACCEPT", ""))
        elif path == "/healthz":
            status, media_type, body = self._probe(path, self._health.live())
        elif path == "/readyz":
            status, media_type, body = self._probe(path, self._health.ready())
        else:
            status, media_type = HTTPStatus.NOT_FOUND, "text/plain"
            body = b"there are /metrics, /healthz and /readyz\n"
        headers = [("Content-Type", media_type), ("Content-Length", str(len(body)))]
        start(f"{status.value} {status.phrase}", headers)
        return [body]

    def _metrics(self, accept: str) -> Answer:
        if self._siblings is not None:
            body, media_type = self._siblings.text(self._registry, accept)
            return HTTPStatus.OK, media_type, body
        encode, media_type = choose_encoder(accept)
        return HTTPStatus.OK, media_type, encode(self._registry)

    def _probe(self, path: str, own: Finding) -> Answer:
        """Of several processes, one that is stuck makes all so: whoever restarts them restarts them
        together. One that does not answer at all is being restarted: it is not ready."""
        unwell = [] if own.well else [own.why or own.status]
        if self._siblings is not None:
            for each in self._siblings.ask(path):
                if each.status == HTTPStatus.SERVICE_UNAVAILABLE:
                    unwell.append(f"{each.name} is not well")
                elif each.status == 0 and path == "/readyz":
                    unwell.append(f"{each.name} does not answer")
        told = {"status": own.status if not own.well or not unwell else "not well"}
        if unwell:
            told["why"] = "; ".join(unwell)
        status = HTTPStatus.SERVICE_UNAVAILABLE if unwell else HTTPStatus.OK
        return status, _JSON, json.dumps(told).encode() + b"\n"


class _FewConnections(ThreadingMixIn, BaseServer):
    daemon_threads = True
    request_queue_size = 128
    _open: dict[Any, None]
    _lock: threading.Lock

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = None
            oldest = next(iter(self._open)) if len(self._open) > MOST_CONNECTIONS else None
            if oldest is not None:
                del self._open[oldest]
                _end(oldest)  # its thread closes it
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or never asked."""


class _PortServer(_FewConnections, WSGIServer):
    def __init__(self, host: str, port: int, *, shared: bool) -> None:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self.address_family = family
        self._shared = shared
        self._open = {}
        self._lock = threading.Lock()
        super().__init__(address[:2], _Handler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        if self._shared:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()


class _SocketServer(_FewConnections, WSGIServer):
    address_family = socket.AF_UNIX

    def __init__(self, path: Path) -> None:
        self._open = {}
        self._lock = threading.Lock()
        super().__init__(str(path), _Handler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "localhost", 0
        self.setup_environ()

    def get_request(self) -> tuple[Any, Any]:
        request, _ = super().get_request()
        return request, ("localhost", 0)


class _Handler(WSGIRequestHandler):
    timeout = SILENT_SECONDS

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is inherited
        """Scrapes are not worth a line."""


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # it may have ended by itself
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def scraped(pages: ProcessPages, host: str, port: int, *, shared: bool = False) -> Iterator[int]:
    """Answer meanwhile; `shared`: other processes answer on the same port. Gives the port. Raises
    OSError where it cannot be had."""
    with _served(_PortServer(host, port, shared=shared), pages) as server:
        yield server.server_port


@contextmanager
def told_to_siblings(pages: ProcessPages, path: Path) -> Iterator[None]:
    """Answer siblings meanwhile, on a socket that this process takes over from the one before."""
    path.unlink(missing_ok=True)
    server = _SocketServer(path)
    made = path.stat().st_ino
    try:
        with _served(server, pages):
            yield
    finally:
        with contextlib.suppress(OSError):
            if path.stat().st_ino == made:
                path.unlink()


@contextmanager
def _served(server: Any, pages: ProcessPages) -> Iterator[Any]:
    server.set_app(pages)
    thread = threading.Thread(target=server.serve_forever, name="scrapes", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""The socket that the API listens on, and the HTTP server on it."""

import asyncio
import ipaddress
import socket
from typing import Any

import structlog
from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server
from litestar.types import ASGIApp

from gnomon.file_limit import own_files, raise_file_limit
from gnomon.settings import Settings, SettingsError

BACKLOG = 4096  # connections that wait to be accepted; the system may allow fewer
# Of a connection, for the head of a request and for each part of its body.
_BUFFER_BYTES = 32 * 1024

log = structlog.get_logger("gnomon.api")


def room_for_connections(settings: Settings) -> int:
    """Raises the limit of open files as needed. Returns how many connections it allows."""
    files = raise_file_limit()
    most = max(min(settings.api.connections, files - own_files(settings.database)), 1)
    if most < settings.api.connections:
        log.warning(
            "fewer connections than configured: raise the limit of open files (ulimit -n, or "
            "LimitNOFILE), or lower api.connections",
            connections=most,
            configured=settings.api.connections,
            file_limit=files,
        )
    return most


def listen(settings: Settings) -> socket.socket:
    """The listening socket. Raises SettingsError, which says what to change."""
    host, port = settings.api.host, settings.api.port
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise SettingsError(f"api.host {host!r} is no address: {error}") from error
    if not settings.auth.enabled and not ipaddress.ip_address(address[0]).is_loopback:
        raise SettingsError(
            f"api.host is {host!r}, but without authentication the API listens only on loopback; "
            "set auth.enabled to true (GNOMON_AUTH_ENABLED=true), or api.host to 127.0.0.1"
        )
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _close_dead_peers(listener, settings.api.idle_seconds)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"the API cannot listen on {host}:{port} ({error.strerror}); "
            "stop what listens there, or choose another api.port (0 picks a free one)"
        ) from error
    return listener


def _close_dead_peers(listener: socket.socket, seconds: float) -> None:
    """Closes connections of clients that vanished or do not read their answers. Accepted sockets
    inherit these options."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))


class HttpServer(Server):
    """Granian in our own event loop, on a socket that we bind ourselves: so a port in use is an
    error (Granian would share it), and the port behind 0 is known.

    HTTP/1.1 only: a connection has one request at a time, and its head has to be complete within a
    time limit. Granian has no such limit while it finds out which version a client speaks.
    """

    def __init__(
        self, app: ASGIApp, listener: socket.socket, connections: int, settings: Settings
    ) -> None:
        super().__init__(
            app,
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(
                header_read_timeout=int(settings.api.idle_seconds * 1000),
                max_buffer_size=_BUFFER_BYTES,
            ),
            backlog=BACKLOG,
            backpressure=connections,
            websockets=False,
            log_enabled=False,
        )
        self.started = asyncio.Event()
        self._listener = listener

    def _init_shared_socket(self) -> None:
        self._ssp: None = None
        holder: Any = SocketHolder  # the stubs lack its constructor
        self._shd: Any = holder(self._listener.detach(), False, BACKLOG)  # closes it, too

    def startup(self, spawn_target: object, target_loader: object) -> None:
        super().startup(spawn_target, target_loader)  # type: ignore[no-untyped-call]
        self.started.set()

"""The connections of webhooks: kept for a while, by the guard that let them pass and by origin."""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from ipaddress import ip_address

from aiohappyeyeballs import AddrInfoType, start_connection

from gnomon.access.addresses import AddressGuard
from gnomon.clock import Clock
from gnomon.node.run.resolver import Found, Resolver
from gnomon.node.run.targets import MayBegin, always
from gnomon.node.run.targets.webhook.connection import Disconnected, WebhookConnection
from gnomon.node.run.targets.webhook.request import ServerOrigin
from gnomon.sdk.executing.context import NotBegun

# Many servers drop a connection that was idle for 5 s. What is sent at that moment is lost, and
# must not be sent again: so such a connection is not used any more.
IDLE_SECONDS = 4.0
_NEXT_ADDRESS_SECONDS = 0.25  # after which another address is tried beside the one before
_CLOSED = "the connections of this node were closed"

# By guard: a connection that one tenant may have must not serve another that may not.
Key = tuple[AddressGuard | None, ServerOrigin]


class AddressRefused(OSError):
    """The target has an address that must not be called. All of them say the same, so that this
    is what comes of a host that has several."""

    def __str__(self) -> str:
        return "its address is not public, and not in targets.allow: it is not called"


class WebhookConnections:
    """Opens connections, and keeps those that can be used again. How many there are, those decide
    who call. `may_begin` is asked when one is open, before its first request is sent."""

    def __init__(self, clock: Clock, names: Resolver, may_begin: MayBegin = always) -> None:
        self._clock = clock
        self._names = names
        self._may_begin = may_begin
        self._tls = _tls()  # now: it takes 25 ms, which a call would hold up all others for
        self._idle: dict[Key, list[WebhookConnection]] = {}  # the longest idle first
        self._open: set[WebhookConnection] = set()  # and those that are being opened
        self._opening: set[asyncio.Timeout] = set()  # that have no end of their own
        self._closed = False
        self._sweep: asyncio.TimerHandle | None = None

    def take(self, key: Key) -> WebhookConnection | None:
        """An idle connection, the newest first; None: there is none. Whoever takes it gives it
        back."""
        idle = self._idle.get(key)
        while idle:
            connection = idle.pop()
            if self._clock.monotonic() - connection.idle_since > IDLE_SECONDS:
                connection.abort()
            elif connection.is_usable:
                return connection
        return None

    async def open(self, key: Key, request: Sequence[bytes]) -> WebhookConnection:
        """A new connection that sends this request first. Raises OSError where none can be made,
        and NotBegun where it took too long: then nothing was sent. The address that it connects to
        is the one that the guard is asked about, whatever the name led to before."""
        if self._closed:
            raise Disconnected(_CLOSED)
        try:
            async with asyncio.timeout(None) as opening:
                self._opening.add(opening)
                try:
                    return await self._open_any(key, request)
                finally:
                    self._opening.discard(opening)
        except (OSError, RuntimeError) as error:  # uvloop has both
            if self._closed:
                raise Disconnected(_CLOSED) from error
            raise

    def give_back(self, key: Key, connection: WebhookConnection) -> None:
        """Keep a connection whose answer was read, if it can be used again."""
        if not connection.is_usable:
            connection.abort()
            return
        connection.idle_since = self._clock.monotonic()
        idle = self._idle.get(key)
        if idle is None:
            idle = self._idle[key] = []
        idle.append(connection)
        if self._sweep is None:
            loop = asyncio.get_running_loop()
            self._sweep = loop.call_later(IDLE_SECONDS, self._close_idle)

    def close(self) -> None:
        """End all of them, and open no more."""
        self._closed = True
        for opening in self._opening:
            opening.reschedule(0.0)
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()

    async def _open_any(self, key: Key, request: Sequence[bytes]) -> WebhookConnection:
        """To the first address that takes it. Where one was allowed and failed, that is told rather
        than that another is refused: it may do better next time."""
        guard, origin = key
        infos = [_info(each, origin.port) for each in await self._addresses(origin.host)]
        failed: OSError | None = None
        try:
            while True:
                sockets = _GuardedSockets(guard)
                try:
                    made = await start_connection(
                        infos,
                        happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
                        interleave=1,
                        socket_factory=sockets.make,
                    )
                except OSError as error:
                    raise failed or error from None
                try:
                    return await self._connected(made, origin, request)
                except OSError as error:  # a wrong certificate, say: another may have a better one
                    failed = failed or error
                infos.remove(sockets.made[made])
                if not infos:
                    raise failed
        finally:
            failed = None  # its traceback refers to this call

    async def _connected(
        self, made: socket.socket, origin: ServerOrigin, request: Sequence[bytes]
    ) -> WebhookConnection:
        connection = WebhookConnection(self._open.discard, self._may_begin)
        connection.send(request)
        self._open.add(connection)  # now: it may end before anybody hears that it was made
        try:
            await self._connect(connection, made, origin)
        except BaseException:
            self._open.discard(connection)
            connection.abort()
            with suppress(OSError):  # the loop may have closed it already
                made.close()
            raise
        if connection not in self._open:
            # It has ended, and the loop has closed what the socket stands for. uvloop does not tell
            # the socket, which would close whatever has that number by then.
            made.detach()
        if connection.withheld:
            connection.abort()
            raise NotBegun
        return connection

    async def _addresses(self, host: str) -> list[Found]:
        try:
            address = ip_address(host)
        except ValueError:
            return await self._names.resolve(host)
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        return [Found(family, socket.IPPROTO_TCP, host)]

    async def _connect(
        self, connection: WebhookConnection, made: socket.socket, origin: ServerOrigin
    ) -> None:
        loop = asyncio.get_running_loop()
        tls = self._tls if origin.secure else None
        name = origin.host.rstrip(".") if origin.secure else None  # certificates have no dot there
        await loop.create_connection(lambda: connection, sock=made, ssl=tls, server_hostname=name)

    def _close_idle(self) -> None:
        self._sweep = None
        latest = self._clock.monotonic() - IDLE_SECONDS
        for key, idle in list(self._idle.items()):
            while idle and (idle[0].idle_since < latest or not idle[0].is_usable):
                idle.pop(0).abort()
            if not idle:
                del self._idle[key]
        if self._idle:
            loop = asyncio.get_running_loop()
            self._sweep = loop.call_later(IDLE_SECONDS / 4, self._close_idle)


@cache  # it reads the authorities of the system
def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class _GuardedSockets:
    """Makes sockets for the very addresses that they are going to be connected to."""

    def __init__(self, guard: AddressGuard | None) -> None:
        self._guard = guard
        self.made: dict[socket.socket, AddrInfoType] = {}

    def make(self, info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        if self._guard is not None and self._guard.refuses(str(address[0])):
            raise AddressRefused
        made = socket.socket(family, kind, protocol)
        self.made[made] = info
        return made


def _info(found: Found, port: int) -> AddrInfoType:
    if found.family == socket.AF_INET6:
        address: tuple[str, int] | tuple[str, int, int, int] = (found.address, port, 0, 0)
    else:
        address = (found.address, port)
    return (found.family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)

"""The connections of webhooks: kept for a while, by the guard that let them pass and by origin."""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from functools import cache
from ipaddress import ip_address

from aiohappyeyeballs import AddrInfoType, start_connection

from gnomon.access.addresses import AddressGuard
from gnomon.clock import Clock
from gnomon.node.run.resolver import Found, Resolver
from gnomon.node.run.targets.webhook.connection import WebhookConnection
from gnomon.node.run.targets.webhook.request import ServerOrigin

# Many servers drop a connection that was idle for 5 s. What is sent at that moment is lost, and
# must not be sent again: so such a connection is not used any more.
IDLE_SECONDS = 4.0
_NEXT_ADDRESS_SECONDS = 0.25  # after which another address is tried beside the one before

# By guard: a connection that one tenant may have must not serve another that may not.
Key = tuple[AddressGuard | None, ServerOrigin]


class AddressRefused(OSError):
    """The target has an address that must not be called. All of them say the same, so that this
    is what comes of a host that has several."""

    def __str__(self) -> str:
        return "its address is not public, and not in targets.allow: it is not called"


class WebhookConnections:
    """Opens connections, and keeps those that can be used again. How many there are, those decide
    who call."""

    def __init__(self, clock: Clock, names: Resolver) -> None:
        self._clock = clock
        self._names = names
        self._tls = _tls()  # now: it takes 25 ms, which a call would hold up all others for
        self._idle: dict[Key, list[WebhookConnection]] = {}  # the longest idle first
        self._open: set[WebhookConnection] = set()
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
        """A new connection that sends this request first. Raises OSError where none can be made:
        then nothing was sent. The address that it connects to is the one that the guard is asked
        about, whatever the name led to before."""
        guard, origin = key
        infos = [_info(each, origin.port) for each in await self._addresses(origin.host)]
        while True:
            sockets = _GuardedSockets(guard)
            made = await start_connection(
                infos,
                happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
                interleave=1,
                socket_factory=sockets.make,
            )
            connection = WebhookConnection(self._open.discard)
            connection.send(request)
            try:
                await self._connect(connection, made, origin)
            except BaseException as error:
                connection.abort()
                made.close()
                infos.remove(sockets.made[made])
                if not infos or not isinstance(error, OSError):
                    raise
                continue  # it was a wrong certificate, say: another address may have a better one
            self._open.add(connection)
            return connection

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
        """End all of them."""
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()

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

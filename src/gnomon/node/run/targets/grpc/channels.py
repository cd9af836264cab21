"""Channels of gRPC: one to each host, connected only to addresses that may be called."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import grpc
import grpc.aio

from gnomon.access.addresses import AddressGuard
from gnomon.clock import Clock
from gnomon.model.errors import GnomonError
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.node.run.resolver import Resolver
from gnomon.node.run.targets.http import GuardOf, name_in
from gnomon.node.run.targets.webhook.connections import AddressRefused
from gnomon.settings.targets import GrpcTls
from gnomon.version import VERSION

_IDLE_SECONDS = 300.0
_MOST_CHANNELS = 1000
_CONNECTING = (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING)
_OPTIONS = (
    ("grpc.primary_user_agent", f"gnomon/{VERSION}"),
    ("grpc.enable_retries", 0),  # one execution is one request
    ("grpc.enable_http_proxy", 0),  # it would connect to whatever it likes
    ("grpc.lb_policy_name", "round_robin"),
    ("grpc.service_config_disable_resolution", 1),
    # A server that is back is found within a second.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
)


class TlsUnusable(GnomonError):
    """The files of the settings for a host cannot be used."""


class ChannelKey(NamedTuple):
    """What calls must have in common to share a channel."""

    authority: str  # as in the URL
    addresses: tuple[str, ...]  # allowed for the tenant that calls
    secure: bool
    tls: tuple[bytes | None, ...]  # authorities, key and certificate: other files, another channel


class OpenChannel:
    """A channel, and who uses it."""

    def __init__(self, key: ChannelKey) -> None:
        self.key = key
        self.users = 0
        self.idle_since = 0.0
        self.channel = _opened(key)

    async def connected(self, seconds: float) -> None:
        """Wait until it is connected, or cannot be: what it is given before that, gRPC sends by
        itself whenever it is, and nobody is asked again."""
        with suppress(TimeoutError):  # the call says so
            async with asyncio.timeout(seconds):
                while (state := self.channel.get_state(try_to_connect=True)) in _CONNECTING:
                    await self.channel.wait_for_state_change(state)


class Channels:
    """Opens channels when they are needed, and closes those that nobody uses any more. Names are
    looked up here and not by gRPC: whoever connects must have asked the guard."""

    def __init__(
        self, clock: Clock, names: Resolver, guard_of: GuardOf, tls: Mapping[str, GrpcTls]
    ) -> None:
        self._clock = clock
        self._names = names
        self._guard_of = guard_of
        self._tls = {_spelled(host): files for host, files in tls.items()}
        self._open: dict[ChannelKey, OpenChannel] = {}

    @asynccontextmanager
    async def to(self, target: GrpcTarget, tenant_id: str) -> AsyncIterator[OpenChannel]:
        """Raises OSError where the name leads nowhere, AddressRefused, TlsUnusable."""
        key = await self._key(target, tenant_id)
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = OpenChannel(key)
        found.users += 1
        try:
            yield found
        finally:
            found.users -= 1
            found.idle_since = self._clock.monotonic()
            await self._close_idle()

    async def close(self) -> None:
        for each in self._open.values():
            await each.channel.close()
        self._open.clear()

    async def _key(self, target: GrpcTarget, tenant_id: str) -> ChannelKey:
        parts = urlsplit(target.url)
        port = parts.port or (443 if target.secure else 80)
        guard = self._guard_of(tenant_id)
        addresses = await self._addresses(target, guard)
        tls = await self._tls_of(target, tenant_id)
        named = tuple(sorted(f"{each}:{port}" for each in _of_one_family(addresses)))
        return ChannelKey(parts.netloc, named, target.secure, tls)

    async def _addresses(self, target: GrpcTarget, guard: AddressGuard | None) -> list[str]:
        name = name_in(target.url)
        if name is None:
            found = [target.address or ""]
        else:
            found = [each.address for each in await self._names.resolve(name)]
        allowed = [each for each in found if guard is None or not guard.refuses(each)]
        if not allowed:
            raise AddressRefused
        return allowed

    async def _tls_of(self, target: GrpcTarget, tenant_id: str) -> tuple[bytes | None, ...]:
        """Read for each call: a file that was replaced is used by the next."""
        files = self._tls.get(_spelled(target.host)) if target.secure else None
        if files is None or not files.is_for(tenant_id):
            return ()
        return await asyncio.get_running_loop().run_in_executor(None, _contents, files)

    async def _close_idle(self) -> None:
        now = self._clock.monotonic()
        crowded = len(self._open) > _MOST_CHANNELS
        over = [
            each
            for each in self._open.values()
            if not each.users and (crowded or now - each.idle_since > _IDLE_SECONDS)
        ]
        for each in over:
            del self._open[each.key]
        for each in over:
            await each.channel.close()


def _opened(key: ChannelKey) -> grpc.aio.Channel:
    family = "ipv6" if key.addresses[0].startswith("[") else "ipv4"
    target = f"{family}:{','.join(key.addresses)}"
    host = urlsplit(f"//{key.authority}").hostname or ""
    options = [*_OPTIONS, ("grpc.default_authority", key.authority)]
    if not key.secure:
        return grpc.aio.insecure_channel(target, options)
    authorities, private_key, certificate = key.tls or (None, None, None)
    credentials = grpc.ssl_channel_credentials(authorities, private_key, certificate)
    options.append(("grpc.ssl_target_name_override", host))
    return grpc.aio.secure_channel(target, credentials, options)


def _of_one_family(addresses: list[str]) -> list[str]:
    """Those of IPv4, which a channel cannot mix with others; where there are none, all."""
    found = [each for each in addresses if not isinstance(ip_address(each), IPv6Address)]
    return found or [f"[{each}]" for each in addresses]


def _spelled(host: str) -> str:
    return host.lower()


def _contents(files: GrpcTls) -> tuple[bytes | None, ...]:
    """Raises TlsUnusable."""
    found = []
    for name in (files.ca_file, files.key_file, files.certificate_file):
        try:
            found.append(None if name is None else Path(name).read_bytes())
        except OSError as error:
            raise TlsUnusable(f"{name}: {error.strerror}") from error
    return tuple(found)

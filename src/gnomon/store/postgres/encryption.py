"""How a connection to PostgreSQL is protected on its way, as the connection itself tells."""

import ipaddress
import ssl
from dataclasses import dataclass

import asyncpg


@dataclass(frozen=True)
class Protection:
    """Of one connection, on this side of any pooler."""

    address: str | None  # None: a Unix socket
    protocol: str | None  # None: in clear
    certificate_checked: bool = False
    name_checked: bool = False

    @property
    def local(self) -> bool:
        """Whether it stays on this machine."""
        return self.address is None or ipaddress.ip_address(self.address).is_loopback


def protection_of(connection: "asyncpg.Connection[asyncpg.Record]") -> Protection:
    """What the driver made of `sslmode`: a wish in a DSN is not yet an encrypted connection."""
    # There is no public way to it; a pooler may be in between, so the server cannot be asked.
    transport = connection._transport  # type: ignore[attr-defined]
    peer = transport.get_extra_info("peername")
    address = peer[0].partition("%")[0] if isinstance(peer, tuple) else None
    secured = transport.get_extra_info("ssl_object")
    if secured is None:
        return Protection(address, None)
    return Protection(
        address,
        secured.version(),
        certificate_checked=secured.context.verify_mode == ssl.CERT_REQUIRED,
        name_checked=secured.context.check_hostname,
    )

"""The addresses that a webhook may reach. Pure: an address in, an answer out.

Whoever may submit tasks may have any URL called, by a machine that is inside. So addresses that are
not of the public internet are refused: private networks, loopback, link-local, multicast and what
is reserved, also where an IPv6 address only wraps them; and the services by which clouds hand out
credentials, wherever they are.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from string import hexdigits

Address = IPv4Address | IPv6Address

_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
# Not public either, whatever a version of Python says of them.
_NEVER_PUBLIC = (
    IPv4Network("100.64.0.0/10"),
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),  # relays of 6to4, deprecated
    IPv6Network("64:ff9b:1::/48"),
    IPv6Network("::ffff:0:0:0/96"),  # IPv4 behind a stateless translator
    IPv6Network("fec0::/10"),
    IPv6Network("3fff::/20"),  # for documentation
    IPv6Network("5f00::/16"),  # segment routing within a domain
)
# Metadata services. To allow a network that they are in does not allow them.
_METADATA_ADDRESSES = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",  # most clouds
            "169.254.170.2",  # tasks of Amazon ECS
            "169.254.170.23",  # pods of Amazon EKS
            "168.63.129.16",  # Azure, at an address that is public elsewhere
            "100.100.100.200",  # Alibaba
            "192.0.0.192",  # Oracle
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",  # Google
        ),
    )
)
_METADATA_NAMES = ("metadata.google.internal", "metadata.goog", "instance-data.ec2.internal")
_LOOPBACK = ("127.0.0.1", "::1")
# Full stops of other scripts that separate the labels of a name all the same.
_FULL_STOPS = str.maketrans("\u3002\uff0e\uff61", "...")


class AddressGuard:
    """Refuses addresses that are not public, but for the networks in `allow`."""

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self.allow = tuple(sorted(set(allow)))
        self._allow = [ip_network(text) for text in self.allow]
        self._single = {n.network_address for n in self._allow if n.num_addresses == 1}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AddressGuard) and self.allow == other.allow

    def __hash__(self) -> int:
        return hash(self.allow)

    def refuses(self, address: str) -> bool:
        """Whether a connection to an address, as the system writes it, must not be made."""
        chain = list(_unwrapped(ip_address(address)))
        if not _METADATA_ADDRESSES.isdisjoint(chain):
            return not any(each in self._single for each in chain)
        if any(each in network for each in chain for network in self._allow):
            return False
        return not all(map(_is_public, chain))

    def refuses_host(self, host: str) -> bool:
        """Whether a URL's host is an address that is refused, however it is written, or by its name
        this machine or a metadata service. What other names lead to is seen only when they are
        called."""
        host = unicodedata.normalize("NFKC", host).translate(_FULL_STOPS).rstrip(".").lower()
        if host == "localhost" or host.endswith(".localhost"):
            return all(map(self.refuses, _LOOPBACK))
        if host in _METADATA_NAMES:
            return True
        literal = _literal(host)
        return literal is not None and self.refuses(str(literal))


def _unwrapped(address: Address) -> Iterator[Address]:
    """The address, and those that it leads to at the other end of a translation or a tunnel."""
    if isinstance(address, IPv4Address):
        yield address
        return
    address = IPv6Address(int(address))  # without the zone: it makes another address of the same
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped  # the same thing in another notation
        return
    yield address
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _NAT64 or address in _COMPATIBLE:
        yield IPv4Address(int(address) & 0xFFFFFFFF)


def _is_public(address: Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not any(address in network for network in _NEVER_PUBLIC)
    )


def _literal(host: str) -> Address | None:
    """The address that a host is written as; also in the old ways (127.1, 0x7f000001)."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    parts = host.split(".")
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        return None
    *leading, last = numbers
    if len(parts) > 4 or any(n > 255 for n in leading) or last >= 256 ** (5 - len(parts)):
        return None
    value = last
    for place, number in enumerate(leading):
        value |= number << (24 - 8 * place)
    return IPv4Address(value)


def _number(text: str) -> int:
    if text.startswith("0x"):
        if not all(digit in hexdigits for digit in text[2:]):  # int() takes signs and _ as well
            raise ValueError(text)
        return int(text[2:] or "0", 16)
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text, 8 if len(text) > 1 and text.startswith("0") else 10)

"""The address that a request is counted under. Pure: headers in, an address out.

Behind a proxy the peer of a connection is the proxy, and a header says whose request it is. Whoever
asks can send that header, too; so it is read from its end, where each proxy adds whom it has seen,
and only as far as proxies are trusted.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import islice
from typing import NamedTuple

FORWARDED = "forwarded"  # RFC 7239; any other header lists addresses, as X-Forwarded-For does
MOST_HOPS = 32  # more proxies than anybody has one behind another
_MOST_CHARACTERS = 64  # of an address with a port
_MOST_FORWARDED = 2048  # characters of a line, from its end: whoever asks can send a long one
_MARKS = re.compile(r'\\+"|[",;]')
_REMEMBERED = 10_000
_V6_PREFIX = 64  # what one subscriber has, at the least

Headers = Iterable[tuple[bytes, bytes]]


class CountedAddress(NamedTuple):
    """An address as limits see it."""

    group: str  # counted together: an IPv4 address, or the /64 of an IPv6 one
    trusted: bool  # a proxy whose word is taken
    unlimited: bool  # not counted at all


NOWHERE = CountedAddress("", trusted=False, unlimited=False)  # a peer that has no address


class ClientAddresses:
    """Finds the address that a request is counted under."""

    def __init__(self, trusted: Iterable[str], unlimited: Iterable[str], header: str) -> None:
        self._trusted = [ip_network(text) for text in trusted]
        self._unlimited = [ip_network(text) for text in unlimited]
        self._header = header.lower().encode()
        self._read = _forwarded if header.lower() == FORWARDED else _listed
        self._judged = lru_cache(_REMEMBERED)(self._judge)

    def peer(self, host: str) -> CountedAddress:
        """The other end of a connection."""
        return self._judged(host) or NOWHERE

    def of(self, host: str, headers: Headers) -> CountedAddress:
        """The client behind a connection from `host`: the last address in the header that is not
        itself a trusted proxy's. Where the header holds something else there, the proxy that added
        it, without any exemption from limits."""
        found = self.peer(host)
        if not found.trusted:
            return found
        for text in islice(self._hops(headers), MOST_HOPS):
            hop = self._judged(text)
            if hop is None:
                # The client came through the proxy, so an exemption of the proxy is not theirs.
                return found._replace(unlimited=False)
            found = hop
            if not found.trusted:
                break
        return found

    def says_who(self, headers: Headers) -> bool:
        """Whether the request has the header at all."""
        return any(name == self._header for name, _ in headers)

    def _hops(self, headers: Headers) -> Iterator[str]:
        """From the last one, which the nearest proxy has added. Some add a line, others extend
        the one that is there."""
        lines = [value for name, value in headers if name == self._header]
        for line in reversed(lines):
            yield from self._read(line.decode("latin-1"))

    def _judge(self, text: str) -> CountedAddress | None:
        try:
            address = ip_address(text.partition("%")[0])
        except ValueError:
            return None
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return CountedAddress(
            _group(address),
            trusted=any(address in network for network in self._trusted),
            unlimited=any(address in network for network in self._unlimited),
        )


def _group(address: IPv4Address | IPv6Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Network((int(address), _V6_PREFIX), strict=False))


def _listed(line: str) -> Iterator[str]:
    for part in reversed(line.rsplit(",", MOST_HOPS)):
        yield _without_port(part.strip())


def _forwarded(line: str) -> Iterator[str]:
    """Read from the end as well, quotes and all: only what stands at the end is a proxy's. Before
    that somebody may have left a quote open, and within its quotes there may be what a client has
    sent, a host of `x,for=127.0.0.1`, say."""
    text = line[-_MOST_FORWARDED:]
    for element in _parted(text, ","):
        pairs = (pair.partition("=") for pair in _parted(element, ";"))
        named = [value for name, _, value in pairs if name.strip().lower() == "for"]
        yield _without_port(named[0].strip().strip('"')) if len(named) == 1 else ""


def _parted(text: str, mark: str) -> Iterator[str]:
    """The parts between marks that are not in quotes, from the last one."""
    end, quoted = len(text), False
    for match in reversed([*_MARKS.finditer(text)]):
        if match[0].endswith('"'):
            escaped = len(match[0]) % 2 == 0  # by the last of its backslashes
            quoted = quoted if escaped else not quoted
        elif match[0] == mark and not quoted:
            yield text[match.end() : end]
            end = match.start()
    yield "" if quoted else text[:end]


def _without_port(text: str) -> str:
    if len(text) > _MOST_CHARACTERS:
        return ""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text

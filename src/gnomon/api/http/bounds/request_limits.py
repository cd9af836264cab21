"""Limits the requests of each address and each key, before a request is parsed.

A request with a key that this process has lately found valid counts towards that key, and towards
the valid keys of its address. All others of the address are strangers and share a bucket: however
many wrong keys one of them tries, valid keys of the same address get through. A failed
authentication costs as much as many requests. Keys that were found wrong a moment ago have another
bucket, apart from keys not seen before. A session counts as the key that it was made with.
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from enum import StrEnum

import msgspec
import structlog
from litestar.types import Scope

from gnomon.access.client_address import NOWHERE, ClientAddresses, CountedAddress
from gnomon.access.token_buckets import TokenBuckets
from gnomon.api.auth.authentication import Authenticator, TrustedCaller
from gnomon.api.auth.key_cache import Recognition
from gnomon.api.auth.sessions import cookie_in
from gnomon.api.http.bounds.refusals import Refusals
from gnomon.api.http.requests.headers import headers_of
from gnomon.clock import Clock
from gnomon.observe.metrics.api import ApiMetrics
from gnomon.settings import ApiSettings

BURST_SECONDS = 2.0  # a bucket holds the tokens of so much time
STRANGERS_A_SECOND = 300.0  # requests of one address without a known valid key
STRANGERS_AT_ONCE = 1_000.0
FAILURE_COSTS = 20.0  # tokens of a failed authentication: 50 at once, then 15 a second
SIGN_IN_COSTS = 20.0  # tokens: each leaves a session that is kept for hours
WATCHERS_A_SECOND = 100.0  # health checks of one address that are answered without a wait
WATCHER_WAITS = 0.5  # seconds; health checkers give up after one at the earliest
MOST_REMEMBERED = 20_000  # addresses, and keys; some megabytes
TELL_SECONDS = 10.0  # between two lines in the log
_HEALTH = frozenset(("/healthz", "/readyz"))
_UNSAID = (
    "a trusted proxy does not say whose request it passes on; let it set the header that "
    "forwarded_header names"
)
_UNLISTED = (
    "requests come through a proxy whose address is not limited, so none of its clients is; name "
    "it in api.trusted_proxies"
)
_CALLER = "gnomon.caller"  # the key of a request's caller in its scope
# In the scope of a request that has come through a broker, from no address: its connection.
CONNECTION = "gnomon.connection"
_STRANGERS_THERE = NOWHERE._replace(group="pipe")

log = structlog.get_logger("gnomon.api")


class Limit(StrEnum):
    """The limits that a request can exceed."""

    ADDRESS = "address"
    KEY = "key"
    FAILURES = "failures"
    UNDER_WAY = "under_way"


DETAILS = {
    Limit.ADDRESS: "too many requests from this address; slow down",
    Limit.KEY: "too many requests with this key; slow down",
    Limit.FAILURES: "too many requests from this address without a valid key; slow down",
    Limit.UNDER_WAY: "too many requests from this address are in progress; wait for their answers",
}


class Excess(msgspec.Struct, frozen=True):
    """A request beyond a limit."""

    limit: Limit
    seconds: int  # after which the client may try again


class _Caller(msgspec.Struct, frozen=True):
    address: CountedAddress
    known: Recognition  # of its key

    @property
    def stranger(self) -> bool:
        return self.known is not Recognition.GOOD and not self.address.unlimited


class RequestLimits:
    """The limits of one process. They add up over several processes."""

    def __init__(
        self,
        settings: ApiSettings,
        clock: Clock,
        authenticator: Authenticator | TrustedCaller | None,
        metrics: ApiMetrics,
        requests: int,
    ) -> None:
        """`requests`: how many may be in progress at once, from all addresses together."""
        self.addresses = ClientAddresses(
            settings.trusted_proxies, settings.unlimited_addresses, settings.forwarded_header
        )
        # Health checkers and metrics must get through, also when the process is overloaded.
        self.unlimited_paths = _HEALTH if authenticator else _HEALTH | {"/metrics"}
        # Fewer than an address may have connections, so that some of those are always idle.
        self._most_under_way = max(min(requests // 4, settings.address_connections // 2), 1)
        self._under_way: dict[str, int] = {}
        self._clock = clock
        self._authenticator = authenticator
        self._metrics = metrics
        self._of_address = _buckets(settings.address_requests_per_second)
        self._of_key = _buckets(settings.key_requests_per_second)
        strangers = min(STRANGERS_A_SECOND, settings.address_requests_per_second)
        self._of_strangers = TokenBuckets(strangers, STRANGERS_AT_ONCE, MOST_REMEMBERED)
        self._of_wrong = TokenBuckets(strangers, STRANGERS_AT_ONCE, MOST_REMEMBERED)
        self._of_watchers = _buckets(WATCHERS_A_SECOND)
        self._sessions: dict[str, Hashable] = {}  # that were found valid, with their holders
        self._pace = Refusals(clock)
        self._refused: Counter[str] = Counter()
        self._told_at = self._unsaid_at = -math.inf

    def exceeded(self, scope: Scope) -> Excess | None:
        """Counts a request; returns the limit that it exceeds, if any."""
        known, key = Recognition.GOOD, None
        if self._authenticator is not None:
            found = headers_of(scope)  # type: ignore[arg-type]
            known, key = self._recognised(found, self._authenticator)
        address = self._address(scope, known)
        excess = self._excess(address, known, key)
        if excess is None:
            scope[_CALLER] = _Caller(address, known)  # type: ignore[literal-required]
        return excess

    def _recognised(
        self, headers: Mapping[bytes, bytes], authenticator: Authenticator | TrustedCaller
    ) -> tuple[Recognition, Hashable]:
        session = None
        if (header := _value(headers, b"authorization")) is None:
            session = cookie_in(_value(headers, b"cookie"))
        if session is None:
            return authenticator.recognise(header)
        if session in self._sessions:
            return Recognition.GOOD, self._sessions[session]
        return Recognition.UNKNOWN, None

    async def slow_watcher(self, scope: Scope) -> None:
        """Delays a health check of an address that makes too many. Health is never refused, nor
        delayed for so long that a checker gives up."""
        # A proxy checks health for itself, not for a client: its own address counts.
        address = self.addresses.of(_host(scope), scope["headers"])
        if address.unlimited:
            return
        if self._of_watchers.take(address.group, self._clock.monotonic()) > 0:
            await self._clock.sleep(WATCHER_WAITS)

    def _address(self, scope: Scope, known: Recognition) -> CountedAddress:
        connection: str | None = scope.get(CONNECTION)  # type: ignore[assignment]
        if connection is not None:
            # Senders name their connections as they like: all strangers among them are one.
            if known is not Recognition.GOOD:
                return _STRANGERS_THERE
            return NOWHERE._replace(group=connection)
        host, headers = _host(scope), scope["headers"]
        peer = self.addresses.peer(host)
        if not peer.trusted and not peer.unlimited:
            return peer  # the client itself
        if peer.trusted != self.addresses.says_who(headers):
            self._tell_of_proxy(peer)
        return self.addresses.of(host, headers)

    async def wait(self) -> None:
        """Delays a refusal, so that clients that repeat a request at once do not keep the process
        busy. Meanwhile the request is not in progress, and its connection may be closed."""
        await self._pace.wait()

    def failed(self, scope: Scope) -> None:
        """Charges a request whose authentication failed."""
        caller = _caller(scope)
        self._forget_session(scope)
        if not caller.address.unlimited:
            buckets = self._buckets_of(caller.known)
            buckets.charge(caller.address.group, self._clock.monotonic(), FAILURE_COSTS)

    def succeeded(self, scope: Scope) -> None:
        """Refunds a request of a stranger whose key turned out to be valid."""
        caller = _caller(scope)
        if caller.stranger:
            buckets = self._buckets_of(caller.known)
            buckets.charge(caller.address.group, self._clock.monotonic(), -1.0)

    def succeeded_by_session(self, scope: Scope, session: str, authorization: str | None) -> None:
        """As `succeeded`. From now on the session counts as the key behind it."""
        self.succeeded(scope)
        if self._authenticator is not None:
            while len(self._sessions) >= MOST_REMEMBERED:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[session] = self._authenticator.recognise(authorization)[1]

    def signed_in(self, scope: Scope) -> None:
        """Charges a session that was begun: whoever has a key begins few at once. The one of before
        is over."""
        caller = _caller(scope)
        self._forget_session(scope)
        if not caller.address.unlimited:
            buckets = self._buckets_of(caller.known)
            buckets.charge(caller.address.group, self._clock.monotonic(), SIGN_IN_COSTS)

    def _forget_session(self, scope: Scope) -> None:
        cookie = _value(headers_of(scope), b"cookie")  # type: ignore[arg-type]
        self._sessions.pop(cookie_in(cookie) or "", None)

    def begin(self, scope: Scope) -> Excess | None:
        """Counts a request as in progress until `end`; returns the limit if it exceeds that."""
        address = _caller(scope).address
        if address.unlimited:
            return None
        under_way = self._under_way.get(address.group, 0)
        if under_way >= self._most_under_way:
            return self._told(Excess(Limit.UNDER_WAY, 1), address)
        self._under_way[address.group] = under_way + 1
        return None

    def end(self, scope: Scope) -> None:
        address = _caller(scope).address
        if address.unlimited:
            return
        self._under_way[address.group] -= 1
        if not self._under_way[address.group]:
            del self._under_way[address.group]

    def refused_busy(self) -> None:
        """Counts a request that is refused because the process has too many in progress."""
        self._metrics.refused("process")

    def _excess(self, address: CountedAddress, known: Recognition, key: Hashable) -> Excess | None:
        limit, wait, now = Limit.ADDRESS, 0.0, self._clock.monotonic()
        if known is Recognition.GOOD:
            if not address.unlimited:
                wait = self._of_address.take(address.group, now)
            if wait == 0 and key is not None:
                limit, wait = Limit.KEY, self._of_key.take(key, now)
        elif not address.unlimited:
            limit, wait = Limit.FAILURES, self._buckets_of(known).take(address.group, now)
        return self._told(Excess(limit, math.ceil(wait)), address) if wait > 0 else None

    def _buckets_of(self, known: Recognition) -> TokenBuckets:
        # Repeated wrong keys must not keep out new keys of the same address.
        return self._of_wrong if known is Recognition.WRONG else self._of_strangers

    def _told(self, excess: Excess, address: CountedAddress) -> Excess:
        self._metrics.refused(excess.limit.value)
        self._refused[excess.limit.value] += 1
        now = self._clock.monotonic()
        if now >= self._told_at + TELL_SECONDS:
            log.warning("refused requests beyond a limit", last=address.group, **self._refused)
            self._refused, self._told_at = Counter(), now
        return excess

    def _tell_of_proxy(self, proxy: CountedAddress) -> None:
        now = self._clock.monotonic()
        if now >= self._unsaid_at + TELL_SECONDS:
            self._unsaid_at = now
            log.warning(_UNSAID if proxy.trusted else _UNLISTED, proxy=proxy.group)


def _buckets(rate: float) -> TokenBuckets:
    return TokenBuckets(rate, max(rate * BURST_SECONDS, 1.0), MOST_REMEMBERED)


def _host(scope: Scope) -> str:
    return scope["client"][0] if scope["client"] else ""


def _caller(scope: Scope) -> _Caller:
    caller: _Caller = scope[_CALLER]  # type: ignore[literal-required]
    return caller


def _value(headers: Mapping[bytes, bytes], name: bytes) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode("latin-1")

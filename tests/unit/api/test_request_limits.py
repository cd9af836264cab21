"""Who is counted with whom, and how long whoever watches waits."""

from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from gnomon.api.auth.authentication import Authenticator
from gnomon.api.auth.key_cache import KeyRing, Recognition
from gnomon.api.http.bounds.request_limits import (
    CONNECTION,
    WATCHER_WAITS,
    WATCHERS_A_SECOND,
    Limit,
    RequestLimits,
)
from gnomon.clock import SystemClock
from gnomon.observe.metrics.api import ApiMetrics
from gnomon.settings import ApiSettings


class StillClock(SystemClock):
    """Time passes only for those who sleep."""

    def __init__(self) -> None:
        self.at = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Known:
    """An authenticator that knows what a key is by its name."""

    def recognise(self, header: str | None) -> tuple[Recognition, str | None]:
        return Recognition[(header or "wrong").upper()], header


def limits(clock: StillClock, **settings: Any) -> RequestLimits:
    known = cast(Authenticator, Known())
    return RequestLimits(ApiSettings(**settings), clock, known, ApiMetrics(), 1_000)


def asked(key: str | None = None, host: str = "192.0.2.7") -> Any:
    headers = [] if key is None else [(b"authorization", key.encode())]
    return {"client": (host, 1), "headers": headers, "path": "/healthz"}


@pytest.mark.parametrize("repeated", ["wrong", None])
def test_whoever_repeats_what_is_wrong_keeps_no_new_key_of_the_address_out(
    repeated: str | None,
) -> None:
    made = limits(StillClock())
    while (excess := made.exceeded(scope := asked(repeated))) is None:
        made.failed(scope)
    assert excess.limit is Limit.FAILURES
    # At the very same moment: there is no luck in it.
    new = asked("unknown")
    assert made.exceeded(new) is None
    made.succeeded(new)


def test_whoever_tries_keys_is_kept_from_trying_more_of_them() -> None:
    made, tried = limits(StillClock()), 0
    while made.exceeded(scope := asked("unknown")) is None:
        made.failed(scope)
        tried += 1
    assert 40 <= tried <= 50
    assert made.exceeded(asked("good")) is None


def through_redis(key: str, connection: int) -> Any:
    return {**asked(key, "pipe"), CONNECTION: f"gnomon:1:worker:{connection}"}


def test_strangers_behind_redis_are_one_however_they_name_their_connections() -> None:
    made, tried = limits(StillClock(), trusted_proxies=("::/0",), unlimited_addresses=("::/0",)), 0
    while tried < 1_000 and made.exceeded(scope := through_redis("unknown", tried)) is None:
        made.failed(scope)
        tried += 1
    assert 40 <= tried <= 50


def test_connections_through_redis_with_a_good_key_are_not_one() -> None:
    made = limits(StillClock(), address_connections=10)
    for connection in range(100):
        assert made.exceeded(scope := through_redis("good", connection)) is None
        assert made.begin(scope) is None


@pytest.mark.parametrize(
    "header", [None, "Basic YTpi", "Bearer", "Bearer gn_short", "Bearer a.b.c"]
)
def test_what_can_never_be_good_is_known_to_be_wrong(header: str | None) -> None:
    clock = StillClock()
    asks = Authenticator(KeyRing(cast(Any, None), clock), None)
    assert asks.recognise(header) == (Recognition.WRONG, None)


async def test_whoever_looks_at_health_all_the_time_waits_and_is_told_nevertheless() -> None:
    clock = StillClock()
    made = limits(clock)
    for _ in range(int(WATCHERS_A_SECOND)):
        await made.slow_watcher(asked())
    assert clock.slept == []
    for _ in range(1_000):
        await made.slow_watcher(asked())
    assert set(clock.slept) == {WATCHER_WAITS}
    assert len(clock.slept) >= 900
    clock.slept.clear()
    await made.slow_watcher(asked(host="192.0.2.8"))
    await made.slow_watcher(asked(host="127.0.0.1"))
    assert clock.slept == []


@pytest.mark.parametrize(
    ("host", "passed_on", "told"),
    [
        ("127.0.0.1", True, "trusted_proxies"),  # whose clients are not limited
        ("127.0.0.1", False, None),
        ("192.0.2.7", True, None),  # anybody can send the header
        ("10.0.0.5", False, "forwarded_header"),
        ("10.0.0.5", True, None),
    ],
)
async def test_a_proxy_that_takes_its_clients_out_of_the_limits_is_told_of(
    host: str, passed_on: bool, told: str | None
) -> None:
    made, scope = limits(StillClock(), trusted_proxies=("10.0.0.5/32",)), asked("good", host)
    scope["headers"] += [(b"x-forwarded-for", b"198.51.100.1")] * passed_on
    with capture_logs() as logs:
        await made.slow_watcher(scope)  # a proxy looks at health for itself
        assert logs == []
        for _ in range(3):
            made.exceeded(scope)
    assert len(logs) == (told is not None)
    assert told is None or told in logs[0]["event"]


SESSION = "ab" * 32


def with_session(session: str = SESSION) -> Any:
    return asked() | {"headers": [(b"cookie", f"gnomon_session={session}".encode())]}


def test_a_session_counts_as_the_key_that_it_was_made_with() -> None:
    made = limits(StillClock(), key_requests_per_second=10)
    first = with_session()
    assert made.exceeded(first) is None
    made.succeeded_by_session(first, SESSION, "good")
    excess = None
    for _ in range(30):
        if (excess := made.exceeded(with_session())) is not None:
            break
        made.succeeded_by_session(with_caller(made), SESSION, "good")
    assert excess is not None
    assert excess.limit is Limit.KEY
    assert made.exceeded(asked("good")) is not None  # they share what the key may do


def with_caller(made: RequestLimits) -> Any:
    """A request of somebody else, who is let in."""
    made.exceeded(scope := asked("unknown"))
    return scope


def test_wrong_keys_of_an_address_keep_no_session_out() -> None:
    made = limits(StillClock())
    first = with_session()
    made.exceeded(first)
    made.succeeded_by_session(first, SESSION, "good")
    while made.exceeded(scope := asked("wrong")) is None:
        made.failed(scope)
    while made.exceeded(scope := asked("unknown")) is None:
        made.failed(scope)
    assert made.exceeded(with_session()) is None
    assert made.exceeded(with_session("cd" * 32)) is not None  # which nobody knows


def test_sessions_are_begun_few_at_once_also_with_a_session_of_before() -> None:
    for scope in (asked, with_session):
        made, begun = limits(StillClock()), 0
        made.exceeded(first := with_session())
        made.succeeded_by_session(first, SESSION, "good")
        while begun < 1_000 and made.exceeded(one := scope()) is None:
            made.signed_in(one)
            begun += 1
        assert 40 <= begun <= 55

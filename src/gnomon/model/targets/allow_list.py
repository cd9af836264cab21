"""Allow-lists: the Python functions and the hosts that a tenant, or an API key, is held to.

A function is allowed by its name, or by how its name begins (`billing.*`). A host is allowed by its
name or address (`api.example.com`), or as one below a name (`*.example.com`, which is not
example.com itself); with a port (`api.example.com:8443`), on that port only. A list of hosts also
has the topics that may be published to (`queue://orders/created.*`).

A list only ever takes away: whether an address that is not public may be reached is decided by
`targets_allow` (addresses.py), whatever is listed here.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple, assert_never

import msgspec

from gnomon.model.remembered import KEPT_BYTES, remembered
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.targets.queue_target import QueueTarget, is_topic_pattern, topic_allows
from gnomon.model.targets.target import (
    HttpTarget,
    NotificationTarget,
    PythonTarget,
    Target,
    WorkflowTarget,
)

MOST_PATTERNS = 100  # of functions, and as many of hosts
MOST_PATTERN_CHARACTERS = 260
_MOST_NAMED = 20
_NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_STORED = re.compile(  # ends in a name that no address ends in, and leaves large ports to the rest
    r"(?P<below>\*\.)?(?P<name>(?:[a-z0-9_-]{1,63}\.)*[a-z]{2,63})(?::(?P<port>[1-9][0-9]{0,3}))?"
)
_PART_OF_A_URL = re.compile(r"[/?#@\\%\s]")


class CalledHost(NamedTuple):
    """The host and port that a URL calls, in one spelling."""

    name: str  # lower case, ASCII, without a dot at its end
    port: int

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return f"{name}:{self.port}"


class HostPattern(NamedTuple):
    """One entry of a list of hosts, parsed."""

    name: str
    below: bool  # the hosts below the name, and not the name itself
    port: int | None  # None: every port

    def allows(self, host: CalledHost) -> bool:
        named = host.name.endswith(f".{self.name}") if self.below else host.name == self.name
        return named and self.port in (None, host.port)


class AllowList(msgspec.Struct, frozen=True):
    """Functions and hosts that may be called. None allows all of a kind, an empty list none."""

    functions: tuple[str, ...] | None = None
    hosts: tuple[str, ...] | None = None

    @property
    def limits(self) -> bool:
        return self.functions is not None or self.hosts is not None

    def allows(self, target: Target) -> bool:
        if self.functions is None and self.hosts is None:
            return True
        match target:
            case HttpTarget():
                return self.hosts is None or _allows_url(self.hosts, target.url)
            case GrpcTarget():
                return self.hosts is None or _allows_url(self.hosts, target.http_url)
            case QueueTarget():
                return self.hosts is None or _allows_topic(self.hosts, target.url)
            case PythonTarget():
                return self.functions is None or any(
                    _function_allows(pattern, target.function) for pattern in self.functions
                )
            case NotificationTarget() | WorkflowTarget():
                return True  # the list is asked for what is called in the end
            case _:
                assert_never(target)

    def covers(self, other: "AllowList") -> bool:
        """Whether all that the other allows is allowed here."""
        return self.covers_functions(other) and self.covers_hosts(other)

    def covers_functions(self, other: "AllowList") -> bool:
        if self.functions is None or other.functions is None:
            return self.functions is None
        return all(_covers_function(self.functions, each) for each in other.functions)

    def covers_hosts(self, other: "AllowList") -> bool:
        if self.hosts is None or other.hosts is None:
            return self.hosts is None
        return all(
            any(topic_allows(own, each) for own in self.hosts if is_topic_pattern(own))
            if is_topic_pattern(each)
            else _covers_host(self.hosts, _host_pattern(each))
            for each in other.hosts
        )

    def refusal(self, target: Target, whose: str) -> str:
        """The message that refuses a target, with what would be allowed."""
        match target:
            case HttpTarget() | GrpcTarget():
                url = target.url if isinstance(target, HttpTarget) else target.http_url
                called = called_host(url)
                what = "a host that cannot be read" if called is None else f"the host {called}"
                allowed = f"hosts: {listed(self.hosts)}"
            case QueueTarget():
                what = f"the topic {target.url}"
                topics = [each for each in self.hosts or () if is_topic_pattern(each)]
                allowed = f"topics: {listed(topics)}"
            case PythonTarget():
                what = f"the function {target.function!r}"
                allowed = f"functions: {listed(self.functions)}"
            case NotificationTarget() | WorkflowTarget():
                raise AssertionError("it is never refused")
            case _:
                assert_never(target)
        return f"calls {what}, but {whose} is only for the {allowed}"


EVERYTHING = AllowList()


def listed(patterns: Iterable[str] | None) -> str:
    """The patterns for a message; a long list is cut."""
    if patterns is None:
        return "all"
    known = list(patterns)
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    return f"{', '.join(known[:_MOST_NAMED])}{more}" if known else "none"


def function_pattern(text: str) -> str:
    """The pattern of a function as it is stored. Raises ValueError."""
    if not 1 <= len(text) <= MOST_PATTERN_CHARACTERS or not text.isprintable():
        raise ValueError(f"a function is 1 to {MOST_PATTERN_CHARACTERS} printable characters")
    if "*" in text[:-1] or text == "*":
        raise ValueError(
            f"a function is a name, or how names begin and *, as in billing.*; got {text!r}"
        )
    return text


def host_pattern(text: str) -> str:
    """The pattern of a host as it is stored, in one spelling; or of a topic. Raises ValueError."""
    if is_topic_pattern(text) and len(text) <= MOST_PATTERN_CHARACTERS:
        return text
    pattern = _host_pattern(text)
    host = f"[{pattern.name}]" if ":" in pattern.name else pattern.name
    port = "" if pattern.port is None else f":{pattern.port}"
    return f"{'*.' if pattern.below else ''}{host}{port}"


def patterns_of(
    written: Iterable[str] | None, pattern: Callable[[str], str]
) -> tuple[str, ...] | None:
    """A list as it is stored. An entry that cannot be read allows nothing: anybody who can write
    SQL can write anything there."""
    if written is None:
        return None
    return tuple(found for text in written if (found := _readable(text, pattern)) is not None)


def allow_list(functions: Iterable[str] | None, hosts: Iterable[str] | None) -> AllowList:
    """The allow-list of two stored lists."""
    if functions is None and hosts is None:
        return EVERYTHING
    return AllowList(patterns_of(functions, function_pattern), patterns_of(hosts, host_pattern))


@remembered
def called_host(url: str) -> CalledHost | None:
    """The host that a URL calls, parsed as the HTTP client does: a list must not be about another
    host than the one called. None where it cannot be parsed."""
    import yarl  # not above: clients import this module, and have no need of it

    try:
        parts = yarl.URL(url)
        name, port = parts.raw_host, parts.port
    except ValueError:
        return None
    return None if not name or port is None else CalledHost(_spelling(name), port)


@lru_cache(maxsize=4096)
def _host_pattern(text: str) -> HostPattern:
    # As it is stored, but for addresses, which costs a tenth to read.
    if (stored := _STORED.fullmatch(text)) and len(text) <= MOST_PATTERN_CHARACTERS:
        port = stored["port"]
        return HostPattern(stored["name"], bool(stored["below"]), int(port) if port else None)
    below = text.startswith("*.")
    rest = _in_brackets(text[2:] if below else text)
    mistake = ValueError(
        "a host is a name or an address, as in api.example.com, *.example.com or "
        "api.example.com:8443, or a topic, as in queue://orders/created.*; "
        f"got {text[:MOST_PATTERN_CHARACTERS]!r}"
    )
    if not rest or len(text) > MOST_PATTERN_CHARACTERS or _PART_OF_A_URL.search(rest):
        raise mistake
    import yarl

    try:
        parts = yarl.URL(f"http://{rest}/")
        name, port = _spelling(parts.raw_host or ""), parts.explicit_port
    except ValueError:
        raise mistake from None
    if port == 0 or (below and _is_address(name)):
        raise mistake
    if not _is_address(name) and not _NAME.fullmatch(name):
        raise mistake
    return HostPattern(name, below, port)


def _spelling(host: str) -> str:
    host = host.rstrip(".").lower()
    return ip_address(host).compressed if _is_address(host) else host


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host and _is_address(host) else host


def _readable(text: str, pattern: Callable[[str], str]) -> str | None:
    try:
        return pattern(text)
    except (ValueError, TypeError, AttributeError):
        return None


def _allows_url(hosts: tuple[str, ...], url: str) -> bool:
    judge = _judged_url if len(url) <= KEPT_BYTES else _judged_url.__wrapped__
    return judge(hosts, url)


@lru_cache(maxsize=4096)
def _judged_url(hosts: tuple[str, ...], url: str) -> bool:
    called = called_host(url)
    return called is not None and any(
        _host_pattern(text).allows(called) for text in hosts if not is_topic_pattern(text)
    )


def _allows_topic(hosts: tuple[str, ...], url: str) -> bool:
    judge = _judged_topic if len(url) <= KEPT_BYTES else _judged_topic.__wrapped__
    return judge(hosts, url)


@lru_cache(maxsize=4096)
def _judged_topic(hosts: tuple[str, ...], url: str) -> bool:
    return any(topic_allows(each, url) for each in hosts if is_topic_pattern(each))


def _function_allows(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


# A page of keys has lists of 100 against lists of 100, and everybody waits for it: so each entry is
# held against all of a list at once.


def _covers_function(own: tuple[str, ...], other: str) -> bool:
    """Whether all that the other pattern allows is allowed by one of these."""
    exact, beginnings = _function_patterns(own)
    return other in exact or other.removesuffix("*").startswith(beginnings)


@lru_cache(maxsize=256)
def _function_patterns(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The names, and the beginnings of names."""
    beginnings = tuple(each[:-1] for each in patterns if each.endswith("*"))
    return frozenset(each for each in patterns if not each.endswith("*")), beginnings


def _covers_host(own: tuple[str, ...], other: HostPattern) -> bool:
    """Whether all hosts of the other pattern are allowed, on its port or on all."""
    exact, endings = _host_patterns(own)
    return any(
        (other.name, other.below, port) in exact or other.name.endswith(endings.get(port, ()))
        for port in (None, other.port)
    )


@lru_cache(maxsize=256)
def _host_patterns(
    patterns: tuple[str, ...],
) -> tuple[frozenset[HostPattern], dict[int | None, tuple[str, ...]]]:
    """The patterns, and by port the endings of names below one of them."""
    hosts = (each for each in patterns if not is_topic_pattern(each))
    exact = frozenset(map(_host_pattern, hosts))
    endings: dict[int | None, tuple[str, ...]] = {}
    for each in exact:
        if each.below:
            endings[each.port] = (*endings.get(each.port, ()), f".{each.name}")
    return exact, endings

"""Targets: what a task calls.

A kind of target is a class here, with everything that others ask of any target: `check`, `host`,
`by_handler`, `address`, `masked`, `unmasked` and `pointer`. Code that must know the kinds apart
uses `match` and ends in `assert_never`; so mypy names every place that must know a new kind.
"""

import hashlib
import re
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Annotated, ClassVar
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from gnomon.model.targets.target_secrets import (
    MASK,
    masked_headers,
    masked_url,
    same_origin,
    unmasked_headers,
    unmasked_url,
)

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_BLANK = re.compile(r"[\x00-\x20\x7f]")
_CREDENTIALS = re.compile(r"//.*@")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # a tab may stand in a header
_HOST = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.IGNORECASE)
_SCOPE = re.compile(r"[a-z0-9._~-]+", re.IGNORECASE)
_METHODS = ("POST", "PUT", "PATCH", "GET", "DELETE")
_MOST_HOST_CHARACTERS = 253  # that DNS allows
_OURS = ("webhook-", "gnomon-")
# Framing belongs to the HTTP client, and the rest carry our own promises.
_RESERVED = {
    "connection", "content-length", "host", "idempotency-key", "keep-alive", "te", "trailer",
    "transfer-encoding", "upgrade",
}  # fmt: skip


_MOST_URL_CHARACTERS = 4096
_MOST_HEADERS = 64
_MOST_NAME_CHARACTERS = 200


class HttpTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="http"):
    """A webhook: `method` to `url`, the payload as the body."""

    url: Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": _MOST_URL_CHARACTERS})]
    method: str = "POST"
    headers: Annotated[
        dict[str, str], msgspec.Meta(extra_json_schema={"maxProperties": _MOST_HEADERS})
    ] = {}

    pointer: ClassVar[str] = "/url"  # to the field that says whom it calls
    by_handler: ClassVar[bool] = False  # whether a handler runs it, in the node or worker itself

    @property
    def host(self) -> str:
        """The name or address that answers, with its port: calls to one host share a breaker and
        connections. Whatever was stored has one."""
        return _host_in(self.url)

    @property
    def address(self) -> str | None:
        """The name or address to connect to, for the guard of addresses. None: there is none, or
        it cannot be read."""
        try:
            return urlsplit(self.url).hostname
        except ValueError:
            return None

    def masked(self) -> "HttpTarget":
        """The target as anybody may see it: without its secrets."""
        if not self.headers and "?" not in self.url:
            return self
        url, headers = masked_url(self.url), masked_headers(self.headers)
        if url == self.url and headers == self.headers:
            return self
        return msgspec.structs.replace(self, url=url, headers=headers)

    def unmasked(self, stored: "Target | None") -> "HttpTarget":
        """The target with the secrets of the stored one, where they came back as a mask. Raises
        InvalidTask where there are none to be put in their place."""
        if MASK not in self.url and MASK not in self.headers.values():
            return self
        if not isinstance(stored, HttpTarget) or not same_origin(stored.url, self.url):
            stored = None
        url = unmasked_url(self.url, None if stored is None else stored.url)
        headers = unmasked_headers(self.headers, {} if stored is None else stored.headers)
        if url == self.url and headers == self.headers:
            return self
        return msgspec.structs.replace(self, url=url, headers=headers)

    def check(self) -> None:
        """Raises ValueError, the field first, where it cannot be called. Not whenever one is made:
        what was stored under other rules must be readable still, or it would stop whoever claims
        it. So targets are checked when they come in, and again before they are called."""
        _check_url(self.url)
        if self.method not in _METHODS:
            raise ValueError(f"method must be one of {', '.join(_METHODS)}; got {self.method!r}")
        if len(self.headers) > _MOST_HEADERS:
            raise ValueError(
                f"header: at most {_MOST_HEADERS} may be given; got {len(self.headers)}"
            )
        for name, value in self.headers.items():
            _check_header(name, value)


class PythonTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="python"):
    """A handler of an app, by its name or alias."""

    function: Annotated[
        str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": _MOST_NAME_CHARACTERS})
    ]

    pointer: ClassVar[str] = "/function"
    by_handler: ClassVar[bool] = True
    host: ClassVar[None] = None  # the node itself runs it
    address: ClassVar[None] = None

    def masked(self) -> "PythonTarget":
        return self  # it has no secrets

    def unmasked(self, _stored: "Target | None") -> "PythonTarget":
        return self

    def check(self) -> None:
        """Raises ValueError where no function can have this name."""
        if not 1 <= len(self.function) <= _MOST_NAME_CHARACTERS:
            raise ValueError(f"function must have 1 to {_MOST_NAME_CHARACTERS} characters")
        if not self.function.isprintable():
            raise ValueError("function must not contain control characters")


class NotificationTarget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="notification"
):
    """The channel of a subscription, which the node looks up when it sends. Requests cannot name
    it, and nodes call it for nobody but the notifier."""

    on_behalf_of: str  # the tenant whose rules and secrets hold for the call
    host: str  # as of other targets
    subscription_id: UUID | None = None  # None: the heartbeat of the settings

    pointer: ClassVar[str] = "/subscription_id"
    by_handler: ClassVar[bool] = False
    address: ClassVar[None] = None  # the guard is asked for the channel, when it is called

    def masked(self) -> "NotificationTarget":
        return self  # its secrets are those of the subscription

    def unmasked(self, _stored: "Target | None") -> "NotificationTarget":
        return self

    def check(self) -> None:
        """It was made by Gnomon itself."""


RequestTarget = HttpTarget | PythonTarget  # what requests can name
Target = RequestTarget | NotificationTarget


@lru_cache(maxsize=4096)
def _host_in(url: str) -> str:
    """The host of a URL in one spelling. It is short: a key of indexes."""
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return _shortened(url)
    host = f"[{name}]" if ":" in name else name
    return f"{_shortened(host)}:{port or (443 if parts.scheme == 'https' else 80)}"


def _shortened(host: str) -> str:
    if len(host) <= _MOST_HOST_CHARACTERS:
        return host
    return f"{host[:100]}…{hashlib.sha256(host.encode()).hexdigest()}"


@lru_cache(maxsize=4096)  # the same few, again and again
def _check_url(url: str) -> None:
    if len(url) > _MOST_URL_CHARACTERS:
        raise ValueError(f"url must have at most {_MOST_URL_CHARACTERS} characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        # The reason would quote what is in the place of a host or port: a password, perhaps.
        detail = "url cannot be read: after // it must have a host, and perhaps : and a port"
        raise ValueError(detail) from error
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"url must start with http:// or https://; got {_shown(url)!r}")
    if not parts.hostname:
        raise ValueError(f"url must name a host; got {_shown(url)!r}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("url must not carry credentials; send them in headers")
    if port == 0:
        raise ValueError("url must not name port 0")
    if _BLANK.search(url) or not url.isprintable():
        raise ValueError("url must not contain spaces or control characters; encode them")
    _check_host(parts.hostname, in_brackets="[" in parts.netloc)


def _shown(url: str) -> str:
    """The part of a URL that an error may quote: neither credentials nor a query."""
    return _CREDENTIALS.sub("//", re.split(r"[?#]", url, maxsplit=1)[0])[:100]


def _check_host(host: str, *, in_brackets: bool) -> None:
    if in_brackets:
        address, _, scope = host.partition("%")
        try:
            IPv6Address(address)
        except ValueError as error:
            raise ValueError(f"url must name an address of IPv6 in brackets: {error}") from error
        if "%" in host and not _SCOPE.fullmatch(scope):
            raise ValueError(f"url must not name the scope {scope!r}")
        return
    try:
        ascii_host = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError as error:
        raise ValueError(f"url must name a host; {host!r} cannot be one: {error}") from error
    if len(ascii_host.removesuffix(".")) > _MOST_HOST_CHARACTERS:
        raise ValueError(
            f"url must name a host of at most {_MOST_HOST_CHARACTERS} characters; "
            f"got {len(ascii_host)}"
        )
    if not _HOST.fullmatch(ascii_host):
        raise ValueError(
            f"url must name a host of letters, digits, -, _ and dots between labels of 1 to 63 "
            f"characters, or an address; got {host!r}"
        )


def _check_header(name: str, value: str) -> None:
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"header name {name!r} is not a valid HTTP token")
    if len(name) > _MOST_NAME_CHARACTERS:
        raise ValueError(f"header name must have at most {_MOST_NAME_CHARACTERS} characters")
    lower = name.lower()
    if lower in _RESERVED or lower.startswith(_OURS):
        raise ValueError(f"header {name!r} is set by Gnomon and cannot be chosen")
    if len(value) > 8192:
        raise ValueError(f"header {name!r} is longer than 8192 characters")
    if _CONTROL.search(value):
        raise ValueError(f"header {name!r} must not contain control characters")

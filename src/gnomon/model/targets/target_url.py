"""URLs and headers of targets: the host that they name, and what is wrong with them. Pure."""

import hashlib
import re
from collections.abc import Mapping
from ipaddress import IPv6Address
from urllib.parse import urlsplit

from gnomon.model.remembered import remembered

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_BLANK = re.compile(r"[\x00-\x20\x7f]")
_CREDENTIALS = re.compile(r"//.*@")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # a tab may stand in a header
_HOST = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.IGNORECASE)
_SECURE = ("https", "grpcs")
_SCOPE = re.compile(r"[a-z0-9._~-]+", re.IGNORECASE)
MOST_URL_CHARACTERS = 4096
MOST_HEADERS = 64
_MOST_NAME_CHARACTERS = 200
_MOST_HOST_CHARACTERS = 253  # that DNS allows
_OURS = ("webhook-", "gnomon-")
# Framing belongs to the HTTP client, and the rest carry our own promises.
_RESERVED = {
    "connection", "content-length", "host", "idempotency-key", "keep-alive", "te", "trailer",
    "transfer-encoding", "upgrade",
}  # fmt: skip


@remembered
def host_in(url: str) -> str:
    """The host of a URL in one spelling, or the connection of a topic. It is short: a key of
    indexes."""
    if url.startswith("queue://"):
        return _shortened("/".join(url.split("/", 3)[:3]))
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return _shortened(url)
    host = f"[{name}]" if ":" in name else name
    return f"{_shortened(host)}:{port or (443 if parts.scheme in _SECURE else 80)}"


def _shortened(host: str) -> str:
    if len(host) <= _MOST_HOST_CHARACTERS:
        return host
    return f"{host[:100]}…{hashlib.sha256(host.encode()).hexdigest()}"


@remembered  # the same few, again and again
def check_url(url: str) -> None:
    """Raises ValueError, the field first."""
    _check_url(url, ("http", "https"))


@remembered
def check_grpc_url(url: str) -> None:
    """Raises ValueError, the field first."""
    _check_url(url, ("grpc", "grpcs"))


def _check_url(url: str, schemes: tuple[str, str]) -> None:
    if len(url) > MOST_URL_CHARACTERS:
        raise ValueError(f"url must have at most {MOST_URL_CHARACTERS} characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        # The reason would quote what is in the place of a host or port: a password, perhaps.
        detail = "url cannot be read: after // it must have a host, and perhaps : and a port"
        raise ValueError(detail) from error
    if parts.scheme not in schemes:
        wanted = " or ".join(f"{scheme}://" for scheme in schemes)
        raise ValueError(f"url must start with {wanted}; got {shown_url(url)!r}")
    if not parts.hostname:
        raise ValueError(f"url must name a host; got {shown_url(url)!r}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("url must not carry credentials; send them in headers")
    if port == 0:
        raise ValueError("url must not name port 0")
    if _BLANK.search(url) or not url.isprintable():
        raise ValueError("url must not contain spaces or control characters; encode them")
    _check_host(parts.hostname, in_brackets="[" in parts.netloc)


def shown_url(url: str) -> str:
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


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises ValueError, the word "header" first."""
    if len(headers) > MOST_HEADERS:
        raise ValueError(f"header: at most {MOST_HEADERS} may be given; got {len(headers)}")
    for name, value in headers.items():
        _check_header(name, value)


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

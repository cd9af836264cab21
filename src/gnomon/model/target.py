"""What a task calls."""

import re
from functools import lru_cache
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_BLANK = re.compile(r"[\x00-\x20\x7f]")
_METHODS = ("POST", "PUT", "PATCH", "GET", "DELETE")
_OURS = ("webhook-", "gnomon-")
# Framing belongs to the HTTP client, and the rest carry our own promises.
_RESERVED = {
    "connection", "content-length", "host", "idempotency-key", "keep-alive", "te", "trailer",
    "transfer-encoding", "upgrade",
}  # fmt: skip


class HttpTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="http"):
    """A webhook: `method` to `url`, the payload as the body."""

    url: Annotated[str, msgspec.Meta(max_length=4096)]
    method: str = "POST"
    headers: Annotated[dict[str, str], msgspec.Meta(max_length=64)] = {}

    def __post_init__(self) -> None:
        _check_url(self.url)
        if self.method not in _METHODS:
            raise ValueError(f"method must be one of {', '.join(_METHODS)}; got {self.method!r}")
        for name, value in self.headers.items():
            _check_header(name, value)


class PythonTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="python"):
    """A function that the nodes know by this name (setting `functions`)."""

    function: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


Target = HttpTarget | PythonTarget


@lru_cache(maxsize=4096)
def host_of(url: str) -> str:
    """Who answers at a URL: the name or address, with the port, in one spelling."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


@lru_cache(maxsize=1024)  # the same few, again and again
def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"url {url!r} cannot be read: {error}") from error
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"url must start with http:// or https://; got {url!r}")
    if not parts.hostname:
        raise ValueError(f"url must name a host; got {url!r}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("url must not carry credentials; send them in headers")
    if port == 0:
        raise ValueError("url must not name port 0")
    if _BLANK.search(url):
        raise ValueError("url must not contain spaces or control characters; encode them")


def _check_header(name: str, value: str) -> None:
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"header name {name!r} is not a valid HTTP token")
    lower = name.lower()
    if lower in _RESERVED or lower.startswith(_OURS):
        raise ValueError(f"header {name!r} is set by Gnomon and cannot be chosen")
    if len(value) > 8192:
        raise ValueError(f"header {name!r} is longer than 8192 characters")
    if any((ord(char) < 32 and char != "\t") or ord(char) == 127 for char in value):
        raise ValueError(f"header {name!r} must not contain control characters")

"""Secrets of targets, in headers and in URLs: stored as given, and shown as a mask."""

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from gnomon.model.errors import InvalidTask

MASK = "***"

# A header that is not known to be harmless may be anything: services make up their own names.
_HARMLESS_HEADERS = frozenset(
    ("accept", "accept-charset", "accept-encoding", "accept-language", "cache-control",
     "content-encoding", "content-language", "content-type", "date", "expect", "if-match",
     "if-none-match", "pragma", "prefer", "referer", "traceparent", "tracestate", "user-agent",
     "x-correlation-id", "x-request-id")
)  # fmt: skip
_SECRET_PARAMETERS = ("auth", "credential", "passw", "pwd", "secret", "signature", "token")
_SECRET_ENDINGS = ("code", "jwt", "key", "sig")
_QUERY = re.compile(r"(?P<name>[^&;=]*)=(?P<value>[^&;]*)")


def is_secret_header(name: str) -> bool:
    return name.lower() not in _HARMLESS_HEADERS


def is_secret_parameter(name: str) -> bool:
    """Of a query, by its name: `api_key`, `X-Amz-Signature`, `access_token`."""
    lower = name.lower()
    return lower.endswith(_SECRET_ENDINGS) or any(part in lower for part in _SECRET_PARAMETERS)


def masked_url(url: str) -> str:
    """The URL as anybody may see it."""
    return _with_values(url, lambda _, value: MASK if value else value)


def masked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers as anybody may see them."""
    return {name: MASK if is_secret_header(name) else value for name, value in headers.items()}


def unmasked_url(url: str, stored: str | None) -> str:
    """The URL with the stored secrets in place of their masks. Raises InvalidTask where there is
    none to be put in the place of one."""
    kept: dict[str, list[str]] = {}
    if stored is not None:
        for match in _QUERY.finditer(urlsplit(stored).query):
            kept.setdefault(match["name"], []).append(match["value"])

    def found(name: str, value: str) -> str:
        if value != MASK:
            return value
        if not kept.get(name):
            raise _nothing_kept("/target/url")
        return kept[name].pop(0)  # the same name may stand there more than once, in its order

    return _with_values(url, found)


def unmasked_headers(headers: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """Headers with the stored secrets in place of their masks. Raises InvalidTask."""
    kept = {name.lower(): value for name, value in stored.items()}

    def found(name: str, value: str) -> str:
        if value != MASK or not is_secret_header(name):
            return value
        if name.lower() not in kept:
            raise _nothing_kept(f"/target/headers/{name}")
        return kept[name.lower()]

    return {name: found(name, value) for name, value in headers.items()}


def same_origin(one: str, other: str) -> bool:
    """Whether two URLs lead to the same host: a secret is never sent to another one."""
    return _origin(one) == _origin(other)


def _with_values(url: str, change: Callable[[str, str], str]) -> str:
    """The URL with other values for the secrets in its query."""
    before, mark, rest = url.partition("?")
    if not mark:
        return url
    query, fragment_mark, fragment = rest.partition("#")

    def changed(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"]
        return f"{name}={change(name, value) if is_secret_parameter(name) else value}"

    return f"{before}?{_QUERY.sub(changed, query)}{fragment_mark}{fragment}"


def _nothing_kept(pointer: str) -> InvalidTask:
    return InvalidTask(
        f"has {MASK!r}, which stands for a secret that is kept for this host, and none is; "
        "give the value itself",
        pointer,
    )


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()

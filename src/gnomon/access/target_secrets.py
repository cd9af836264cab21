"""Secrets of targets, in headers and in URLs: kept as given, and shown as nothing but that they are
there."""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from gnomon.model.errors import InvalidTask
from gnomon.model.target import HttpTarget, Target

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


def masked(target: Target) -> Target:
    """The target as anybody may see it."""
    if not isinstance(target, HttpTarget):
        return target
    if not target.headers and "?" not in target.url:
        return target
    url = _with_values(target.url, lambda _, value: MASK if value else value)
    if url == target.url and not any(map(is_secret_header, target.headers)):
        return target
    headers = {n: MASK if is_secret_header(n) else value for n, value in target.headers.items()}
    return msgspec.structs.replace(target, url=url, headers=headers)


def unmasked(target: Target, stored: Target | None) -> Target:
    """The target with the secrets that were shown as a mask, and came back as one. Raises
    InvalidTask where there are none to be put in their place."""
    if not isinstance(target, HttpTarget):
        return target
    if MASK not in target.url and MASK not in target.headers.values():
        return target
    if stored is not None and not isinstance(stored, HttpTarget):
        stored = None
    if stored is not None and _origin(stored.url) != _origin(target.url):
        stored = None  # a secret is never sent to another host than it was given for
    url, headers = _unmasked_url(target, stored), _unmasked_headers(target, stored)
    if url == target.url and headers == target.headers:
        return target
    return msgspec.structs.replace(target, url=url, headers=headers)


def _unmasked_headers(target: HttpTarget, stored: HttpTarget | None) -> dict[str, str]:
    kept = {} if stored is None else {n.lower(): value for n, value in stored.headers.items()}

    def found(name: str, value: str) -> str:
        if value != MASK or not is_secret_header(name):
            return value
        if name.lower() not in kept:
            raise _nothing_kept(f"/target/headers/{name}")
        return kept[name.lower()]

    return {name: found(name, value) for name, value in target.headers.items()}


def _unmasked_url(target: HttpTarget, stored: HttpTarget | None) -> str:
    kept: dict[str, list[str]] = {}
    if stored is not None:
        for match in _QUERY.finditer(urlsplit(stored.url).query):
            kept.setdefault(match["name"], []).append(match["value"])

    def found(name: str, value: str) -> str:
        if value != MASK:
            return value
        if not kept.get(name):
            raise _nothing_kept("/target/url")
        return kept[name].pop(0)  # the same name may stand there more than once, in its order

    return _with_values(target.url, found)


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

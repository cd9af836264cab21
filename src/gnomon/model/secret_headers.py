"""Headers that hold secrets: kept as given, and shown as nothing but that they are there."""

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from gnomon.model.errors import InvalidTask
from gnomon.model.target import HttpTarget, Target

MASK = "***"

_NAMES = frozenset(("authorization", "proxy-authorization", "cookie", "x-api-key"))
_PARTS = ("secret", "token")


def is_secret(name: str) -> bool:
    lower = name.lower()
    return lower in _NAMES or any(part in lower for part in _PARTS)


def masked(target: Target) -> Target:
    """The target as anybody may see it."""
    if not isinstance(target, HttpTarget) or not any(map(is_secret, target.headers)):
        return target
    headers = {name: MASK if is_secret(name) else value for name, value in target.headers.items()}
    return msgspec.structs.replace(target, headers=headers)


def unmasked(target: Target, stored: Target | None) -> Target:
    """The target with the secrets that were shown as a mask, and came back as one. Raises
    InvalidTask where there are none to be put in their place."""
    if not isinstance(target, HttpTarget):
        return target
    hidden = [name for name, value in target.headers.items() if value == MASK and is_secret(name)]
    if not hidden:
        return target
    known = _secrets(target, stored)
    found = {name: known[name.lower()] for name in hidden if name.lower() in known}
    if len(found) < len(hidden):
        name = next(name for name in hidden if name not in found)
        raise InvalidTask(
            f"is {MASK!r}, which stands for a secret that is kept for this host, and none is; "
            "give the value itself",
            f"/target/headers/{name}",
        )
    return msgspec.structs.replace(target, headers={**target.headers, **found})


def _secrets(target: HttpTarget, stored: Target | None) -> Mapping[str, str]:
    """What may be put in: a secret is never sent to another host than it was given for."""
    if not isinstance(stored, HttpTarget) or _origin(stored.url) != _origin(target.url):
        return {}
    return {name.lower(): value for name, value in stored.headers.items() if is_secret(name)}


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()

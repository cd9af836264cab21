"""The headers of a request by their names, found once for all who look for one."""

from collections.abc import Mapping, MutableMapping
from typing import Any

_FOUND = "gnomon.headers"  # in the scope of a request


def headers_of(scope: MutableMapping[str, Any]) -> Mapping[bytes, bytes]:
    """The first value of each header, by its name in lower case. Where several lines of a name
    count, ask the scope."""
    found: dict[bytes, bytes] | None = scope.get(_FOUND)
    if found is None:
        found = scope[_FOUND] = dict(reversed(scope["headers"]))
    return found

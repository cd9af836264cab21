"""Paths of requests: names within them, and what logs show of them. Names belong to tenants."""

from collections.abc import Mapping, MutableMapping
from typing import Any
from urllib.parse import unquote
from uuid import UUID

NOT_ROUTED = "-"  # of a request that was refused before, or is for no route


def keep_names_whole(scope: MutableMapping[str, Any]) -> None:
    """Lets a name in the path of a request have slashes: those that were sent as %2F stay encoded,
    as does every %, so that routes see one name where one was sent."""
    raw: bytes = scope["raw_path"].partition(b"?")[0]
    if b"%2" in raw:  # of a slash or a percent sign; all other paths are right already
        parts = (unquote(part) for part in raw.decode("latin-1").split("/"))
        scope["path"] = "/".join(map(_kept, parts))


def read_names(scope: MutableMapping[str, Any]) -> None:
    """Decodes the names that the route has found in the path."""
    if "%" in scope["path"]:
        # Not in place: the router gives the same values to the next request for this path.
        scope["path_params"] = {
            name: _read(value) if isinstance(value, str) else value
            for name, value in scope["path_params"].items()
        }


def _kept(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")


def _read(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")


def shown_path(scope: Mapping[str, Any]) -> str:
    """The path as its route has it, with ids instead of their parameters, and without names and
    query."""
    path: str = scope.get("path_template") or NOT_ROUTED
    for name, value in scope.get("path_params", {}).items():
        if _is_id(value):
            path = path.replace(f"{{{name}}}", str(value))
    return path


def _is_id(value: Any) -> bool:
    try:
        UUID(str(value))
    except ValueError:
        return False
    return True

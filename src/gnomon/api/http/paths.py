"""Paths of requests, as logs show them: names in them belong to tenants."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

NOT_ROUTED = "-"  # of a request that was refused before, or is for no route


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

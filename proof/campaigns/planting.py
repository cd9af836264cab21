"""How bugs are planted: each changes the product in memory, in the process that asks for it.

A patch that no longer meets what it was written for fails: a bug that is not planted would be
"not found" for the wrong reason. The product never imports this.
"""

import importlib
import sys
from collections.abc import Callable
from typing import Any

Patch = Callable[[], None]

PATCHES: dict[str, Patch] = {}


class Withered(Exception):
    """The code that the bug was written for is not there any more."""


def planted(name: str) -> Callable[[Patch], Patch]:
    def keep(patch: Patch) -> Patch:
        PATCHES[name] = patch
        return patch

    return keep


def sql(changes: dict[str, list[tuple[str, str]]]) -> None:
    """Replace text in named statements, wherever the loader is used."""
    queries: Any = importlib.import_module("gnomon.store.postgres.queries")
    original = queries.query
    texts: dict[str, str] = {}
    for name, replacements in changes.items():
        text = original(name)
        for old, new in replacements:
            if old not in text:
                raise Withered(f"{name}.sql does not contain {old!r}")
            text = text.replace(old, new)
        texts[name] = text

    def query(name: str) -> str:
        return texts[name] if name in texts else original(name)

    queries.query = query
    for module in list(sys.modules.values()):
        if getattr(module, "query", None) is original:
            module.query = query  # type: ignore[attr-defined]


def swap(where: str, make: Callable[[Any], Any]) -> None:
    """Replace `module:attribute` or `module:Class.attribute` by what `make` makes of it."""
    module_name, _, path = where.partition(":")
    owner: Any = importlib.import_module(module_name)
    *owners, name = path.split(".")
    for each in owners:
        owner = getattr(owner, each)
    if name not in vars(owner):
        raise Withered(f"there is no {where}")
    setattr(owner, name, make(vars(owner)[name]))


def returns(value: Any) -> Callable[[Any], Any]:
    async def nothing(*_: Any, **__: Any) -> Any:
        return value

    return lambda _original: nothing

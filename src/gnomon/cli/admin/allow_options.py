"""Allow-lists as they are typed: names and hosts, `none`, or `all`."""

from collections.abc import Callable
from typing import Any

import typer

from gnomon.model.targets.allow_list import MOST_PATTERNS, function_pattern, host_pattern


def allow_lists(functions: list[str] | None, hosts: list[str] | None) -> dict[str, Any]:
    """The lists as the API takes them, where they were given: null allows everything."""
    typed = {
        "functions": _patterns("--function", functions, function_pattern),
        "hosts": _patterns("--host", hosts, host_pattern),
    }
    given = {"functions": functions, "hosts": hosts}
    return {name: patterns for name, patterns in typed.items() if given[name] is not None}


def _patterns(
    option: str, given: list[str] | None, pattern: Callable[[str], str]
) -> list[str] | None:
    if given is None or given == ["all"]:
        return None
    if given == ["none"]:
        return []
    if {"all", "none"} & {*given}:
        raise typer.BadParameter(f"{option}: all and none go alone")
    if len(given) > MOST_PATTERNS:
        raise typer.BadParameter(f"{option} may be given {MOST_PATTERNS} times at most")
    try:
        return list(dict.fromkeys(map(pattern, given)))
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from error

"""Allow-lists as they are typed: names and hosts, `none`, or `all`."""

from collections.abc import Callable

import typer

from gnomon.model.allow_list import MOST_PATTERNS, AllowList, function_pattern, host_pattern


def allow_list(functions: list[str] | None, hosts: list[str] | None) -> AllowList:
    """What somebody is held to; None where nothing was said, or all is allowed."""
    return AllowList(
        _patterns("--function", functions, function_pattern),
        _patterns("--host", hosts, host_pattern),
    )


def lifted(functions: list[str] | None, hosts: list[str] | None) -> frozenset[str]:
    """The lists that are there no longer."""
    given = {"functions": functions, "hosts": hosts}
    return frozenset(name for name, each in given.items() if each == ["all"])


def _patterns(
    option: str, given: list[str] | None, pattern: Callable[[str], str]
) -> tuple[str, ...] | None:
    if given is None or given == ["all"]:
        return None
    if given == ["none"]:
        return ()
    if {"all", "none"} & {*given}:
        raise typer.BadParameter(f"{option}: all and none go alone")
    if len(given) > MOST_PATTERNS:
        raise typer.BadParameter(f"{option} may be given {MOST_PATTERNS} times at most")
    try:
        return tuple(dict.fromkeys(map(pattern, given)))
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from error

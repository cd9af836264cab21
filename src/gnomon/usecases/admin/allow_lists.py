"""Allow-lists as requests give them."""

from collections.abc import Callable, Iterable

from gnomon.model.errors import InvalidTask
from gnomon.model.targets.allow_list import AllowList, function_pattern, host_pattern


def allow_list_of(functions: Iterable[str] | None, hosts: Iterable[str] | None) -> AllowList:
    """The lists in the spelling that is stored. Raises InvalidTask, with the place."""
    return AllowList(
        _patterns(functions, function_pattern, "/functions"),
        _patterns(hosts, host_pattern, "/hosts"),
    )


def _patterns(
    given: Iterable[str] | None, pattern: Callable[[str], str], pointer: str
) -> tuple[str, ...] | None:
    if given is None:
        return None
    found: dict[str, None] = {}
    for index, text in enumerate(given):
        try:
            found[pattern(text)] = None
        except ValueError as error:
            raise InvalidTask(str(error), f"{pointer}/{index}") from error
    return tuple(found)

"""Errors of declaring and submitting handlers.

GnomonError
├── InvalidHandler     a function or an option that no handler can have
├── InvalidArguments   arguments that the handler's signature does not take; also a TypeError
├── InvalidOption      an option of a submission that makes no sense; also a ValueError
├── InvalidResult      a result that is not of the type that the handler returns
├── UnknownHandler     a name that no handler of the app has
└── AppNotLoaded       a path that leads to no app
"""

from collections.abc import Iterable

from gnomon.model.errors import GnomonError


class InvalidHandler(GnomonError):
    """A function or an option that no handler can have, and what would be right."""


class InvalidArguments(GnomonError, TypeError):
    """Arguments that the handler does not take: raised where they are given."""


class InvalidResult(GnomonError):
    """A result that is not of the type that the handler returns: it was changed since, or its
    result could not be kept."""


class InvalidOption(GnomonError, ValueError):
    """An option that no submission can have, and what would be right."""


class UnknownHandler(GnomonError):
    """The app has no handler of this name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        has = ", ".join(sorted(known)) or "none"
        super().__init__(f"there is no handler {name!r} here (there are: {has})")
        self.name = name


class AppNotLoaded(GnomonError):
    """A path that leads to no app, and why."""

"""Errors of declaring, submitting and completing tasks of handlers.

GnomonError
├── InvalidHandler     a function or an option that no handler can have
├── InvalidArguments   arguments that the handler's signature does not take; also a TypeError
├── InvalidOption      an option of a submission that makes no sense; also a ValueError
├── InvalidResult      a result that is not of the type that the handler returns
├── InvalidWorkflow    a workflow that cannot be declared so
├── CannotSpawn        a spawn by a task that can have none, or one too many
├── UnknownHandler     a name that no handler of the app has
├── AppNotLoaded       a path that leads to no app
├── ExecutionLost      an execution whose task was taken over, or is completed already
└── NoTransaction      a connection without an open transaction, where one is needed
"""

from collections.abc import Iterable
from uuid import UUID

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


class InvalidWorkflow(GnomonError):
    """A workflow that cannot be declared so, and what would be right."""


class CannotSpawn(GnomonError):
    """A task that cannot spawn others, or not this one, and what would be right."""


class UnknownHandler(GnomonError):
    """The app has no handler of this name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        has = ", ".join(sorted(known)) or "none"
        super().__init__(f"there is no handler {name!r} here (there are: {has})")
        self.name = name


class AppNotLoaded(GnomonError):
    """A path that leads to no app, and why."""


class ExecutionLost(GnomonError):
    """The execution no longer owns its task: what it wrote must be rolled back."""

    def __init__(self, task_id: UUID) -> None:
        super().__init__(
            f"task {task_id} cannot be completed by this execution: another one took it over, "
            "or it is completed already; roll back"
        )
        self.task_id = task_id


class NoTransaction(GnomonError):
    """Outside of a transaction nothing would hold the task and the program's writes together."""

    def __init__(self) -> None:
        super().__init__(
            "this needs an open transaction, together with what the program writes; begin one, and "
            "do not use autocommit"
        )

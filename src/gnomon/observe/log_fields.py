"""The fields by which lines of the log name what they are about: a request, a task.

They are found out when a line is logged, not when a request or an execution begins: most log
nothing.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol

from structlog.typing import EventDict

from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import TaskKey

# The request (its ASGI scope) that the running code answers.
current_request: ContextVar[Mapping[str, Any] | None] = ContextVar("gnomon_request", default=None)


class LoggedTask(Protocol):
    """A task as lines name it: a `Delivery`, a `RunningTask`, a `TaskSettled`."""

    @property
    def key(self) -> TaskKey: ...
    @property
    def task_type(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def origin(self) -> Origin | None: ...


def about(task: LoggedTask) -> dict[str, object]:
    """The fields of a line about an execution of a task."""
    fields: dict[str, object] = {
        "task_id": str(task.key.id),
        "task_type": task.task_type,
        "attempt": task.attempt,
        "tenant": task.key.tenant_id,
    }
    if task.origin is not None and task.origin.correlation_id is not None:
        fields["correlation_id"] = task.origin.correlation_id
    return fields


def label_request(_: Any, __: str, event: EventDict) -> EventDict:
    """Name the request that is being answered, and its tenant, in a line that is logged
    meanwhile."""
    scope = current_request.get()
    if scope is not None:
        event.setdefault("request_id", scope.get("request_id"))
        tenant = getattr(scope.get("auth"), "tenant_id", None)
        if tenant is not None:
            event.setdefault("tenant", tenant)
    return event

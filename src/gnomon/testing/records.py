"""What an app submitted in a test, and assertions about it."""

from typing import Any
from uuid import UUID

import msgspec

from gnomon.sdk.declaring.handler import Handler
from gnomon.sdk.submitting.prepared import WithOptions
from gnomon.sdk.values import encoded

# How a request writes its options; a failure shows them as they were given to `options()`.
_OPTION_NAMES = {
    "delay_seconds": "delay",
    "execute_at": "at",
    "expires_at": "expires",
    "idempotency_key": "key",
    "retry_policy": "retries",
    "timeout_seconds": "timeout",
}
_APART = ("task_type", "payload")
_MOST_SHOWN = 20

AnyHandler = Handler[..., Any] | WithOptions[..., Any]


class RecordedTask(msgspec.Struct, kw_only=True, eq=False):
    """A task that was submitted, as JSON carried it."""

    task_id: UUID
    task_type: str
    arguments: Any  # the payload: an object keyed by the parameters' names
    options: dict[str, Any]  # the other fields of the request, such as delay_seconds

    def __repr__(self) -> str:
        options = [f"{_OPTION_NAMES.get(n, n)}={v!r}" for n, v in sorted(self.options.items())]
        after = f"  with {', '.join(options)}" if options else ""
        return f"{self.task_type}({_written(self.arguments)}){after}"


class Records:
    """The tasks that were submitted, in their order."""

    def __init__(self) -> None:
        self.submitted: list[RecordedTask] = []

    def submitted_to(self, handler: AnyHandler, /) -> list[RecordedTask]:
        """The tasks of one handler; of a handler with options, those that have them."""
        name, options = _wanted(handler)
        return [
            task
            for task in self.submitted
            if task.task_type == name and _contains(task.options, options)
        ]

    def assert_submitted(self, handler: AnyHandler, /, **arguments: Any) -> RecordedTask:
        """That a task of this handler was submitted with these arguments; others may be anything.
        Of `handler.options(delay="10m")`, that it was submitted with these options. Returns the
        first of them."""
        found = self._matching(handler, arguments)
        if not found:
            raise AssertionError(
                f"no task was submitted as {_described(handler, arguments)}; {self._told()}"
            )
        return found[0]

    def assert_not_submitted(self, handler: AnyHandler, /, **arguments: Any) -> None:
        """That no task of this handler was submitted with these arguments."""
        found = self._matching(handler, arguments)
        if found:
            raise AssertionError(
                f"a task was submitted as {_described(handler, arguments)}; {self._told()}"
            )

    def clear(self) -> None:
        """Forget what was submitted so far."""
        self.submitted.clear()

    def _matching(self, handler: AnyHandler, arguments: dict[str, Any]) -> list[RecordedTask]:
        wanted = _as_json(arguments)
        return [
            task
            for task in self.submitted_to(handler)
            if not wanted
            or (isinstance(task.arguments, dict) and _contains(task.arguments, wanted))
        ]

    def _told(self) -> str:
        if not self.submitted:
            return "nothing was submitted"
        shown = "".join(f"\n  {task!r}" for task in self.submitted[:_MOST_SHOWN])
        more = len(self.submitted) - _MOST_SHOWN
        return f"submitted were:{shown}" + (f"\n  and {more} more" if more > 0 else "")


def recorded(task_id: UUID, spec: dict[str, Any]) -> RecordedTask:
    """The record of a request to submit a task."""
    return RecordedTask(
        task_id=task_id,
        task_type=spec["task_type"],
        arguments=spec.get("payload"),
        options={name: value for name, value in spec.items() if name not in _APART},
    )


def _wanted(handler: AnyHandler) -> tuple[str, dict[str, Any]]:
    if isinstance(handler, WithOptions):
        return handler.handler.name, _as_json(handler.fields)
    return handler.name, {}


def _contains(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(name in found and found[name] == value for name, value in wanted.items())


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    """As JSON carries them, so that they can be compared."""
    plain: dict[str, Any] = msgspec.json.decode(encoded(values))
    return plain


def _described(handler: AnyHandler, arguments: dict[str, Any]) -> str:
    name, options = _wanted(handler)
    task = RecordedTask(
        task_id=UUID(int=0), task_type=name, arguments=_as_json(arguments), options=options
    )
    return repr(task)


def _written(arguments: Any) -> str:
    if isinstance(arguments, dict):
        return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return "" if arguments is None else repr(arguments)

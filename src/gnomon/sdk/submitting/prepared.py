"""A task that is ready to be submitted: a handler, its arguments, and options."""

from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, cast
from uuid import UUID

import msgspec

from gnomon.client.types.tasks import TaskSpec
from gnomon.model.duration import Duration, seconds_of
from gnomon.sdk.declaring.options import (
    TASK_FIELDS,
    TaskDefaults,
    TaskFields,
    check_known,
    read_fields,
)
from gnomon.sdk.errors import InvalidOption
from gnomon.sdk.executing.context import current
from gnomon.sdk.submitting.drivers import AsyncConnection, BlockingConnection, CursorConnection
from gnomon.sdk.workflow.references import has_marks, marked
from gnomon.sdk.workflow.steps import Step, StepTask

if TYPE_CHECKING:
    from gnomon.sdk.app import Gnomon
    from gnomon.sdk.declaring.handler import Handler
    from gnomon.sdk.submitting.batch import BatchHandle
    from gnomon.sdk.submitting.handle import Handle

P = ParamSpec("P")
R = TypeVar("R")


class SubmitFields(TaskFields, total=False):
    """The options of a submission: `delay` or `at` say when the task is due, `expires` when it is
    no longer worth running, a `key` that submitting it again gives the same task, a
    `correlation_id` what it belongs to. A `connection` of the program's own makes the task a part
    of the transaction that is open on it. `on_success` and `on_failure` are what `prepare` gave: it
    runs when the task has succeeded, or when its retries are spent. A `batch` that is open, or its
    id, is what the task is put into."""

    delay: Duration
    at: datetime
    expires: datetime | Duration
    key: str
    name: str
    correlation_id: str
    connection: AsyncConnection | BlockingConnection | CursorConnection
    on_success: "Prepared[Any]"
    on_failure: "Prepared[Any]"
    batch: "BatchHandle | UUID | str"


_NOT_OF_STEPS = {
    "delay": "delay_seconds",
    "at": "execute_at",
    "expires": "expires_at",
    "key": "idempotency_key",
    "name": "name",
    "correlation_id": "correlation_id",
    "on_success": "on_success",
    "on_failure": "on_failure",
    "batch": "batch_id",
}
_NOT_OF_SPAWNS = {o: f for o, f in _NOT_OF_STEPS.items() if o not in ("name", "correlation_id")}
_KNOWN = (*SubmitFields.__annotations__, *TASK_FIELDS)


class Prepared(Generic[R]):
    """A task that is ready to be submitted, on its own or with many others."""

    __slots__ = ("connection", "handler", "lifetime", "spec")

    def __init__(
        self,
        handler: "Handler[..., R]",
        spec: TaskSpec,
        lifetime: float | None = None,
        connection: Any = None,
    ) -> None:
        self.handler = handler
        self.spec = spec
        self.lifetime = lifetime  # seconds from the submission after which it expires
        self.connection = connection  # whose transaction it belongs to; None: it has its own

    def __repr__(self) -> str:
        return f"<Prepared {self.handler.name}>"

    def spawn_spec(self) -> TaskSpec:
        """What to add to a workflow run. Raises InvalidOption for what a task that is spawned
        cannot have."""
        given = [o for o, field in _NOT_OF_SPAWNS.items() if getattr(self.spec, field) is not None]
        given += ["expires"] if self.lifetime is not None else []
        given += ["connection"] if self.connection is not None else []
        if given:
            raise InvalidOption(
                f"{self.handler.name}: a spawned task has no {', '.join(given)}=: it starts when "
                "the task that spawns it has succeeded, and once"
            )
        return msgspec.structs.replace(self.due_spec(), jitter_seconds=None)

    def due_spec(self) -> TaskSpec:
        """What to send now."""
        spec, ctx = self.spec, current.get()
        if ctx is not None and spec.correlation_id is None:  # a handler submits it
            spec = msgspec.structs.replace(spec, correlation_id=ctx.correlation_id)
        if self.lifetime is None:
            return spec
        expires_at = self.handler.app.now() + timedelta(seconds=self.lifetime)
        return msgspec.structs.replace(spec, expires_at=expires_at)


class Submittable(Generic[P, R]):
    """What is submitted with a handler's own arguments: the handler, or the handler with options.

    Arguments are checked by the call itself, before anything is awaited or sent.
    """

    app: "Gnomon"

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> Prepared[R]:
        """A task to submit later, or with others by `app.submit_many`. Raises InvalidArguments."""
        raise NotImplementedError

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, "Handle[R]"]:
        """Submits a task. Raises InvalidArguments, ClientError."""
        prepared = self.prepare(*args, **kwargs)
        return self.app.submit(prepared)

    def submit_sync(self, *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
        """Submits a task from synchronous code, and blocks until it is stored."""
        return self.app.submit_sync(self.prepare(*args, **kwargs))

    def step(self, *args: P.args, **kwargs: P.kwargs) -> Step[R]:
        """Adds a step to the workflow that is being declared. Arguments may be outputs of other
        steps. Raises InvalidArguments, InvalidWorkflow."""
        task = self.step_task(args, kwargs)
        return Step(task.fields["task_type"], task)

    def step_task(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> StepTask:
        """The task of a step with these arguments."""
        raise NotImplementedError


class WithOptions(Submittable[P, R]):
    """A handler with options for the tasks that are submitted through it."""

    def __init__(self, handler: "Handler[P, R]", options: SubmitFields) -> None:
        """Raises InvalidOption."""
        self.app = handler.app
        self.handler = handler
        try:
            self.fields = {**_of_handler(handler.defaults), **_fields(options)}
            self._lifetime = _lifetime(options)
            self._connection = options.get("connection")
        except ValueError as error:
            raise InvalidOption(f"{handler.name}: {error}") from None

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> Prepared[R]:
        payload = msgspec.Raw(self.handler.arguments.encode(args, kwargs))
        spec = TaskSpec(task_type=self.handler.name, payload=payload, **self.fields)
        return Prepared(self.handler, spec, self._lifetime, self._connection)

    def step_task(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> StepTask:
        given = [option for option, field in _NOT_OF_STEPS.items() if field in self.fields]
        if given or self._lifetime is not None:
            raise InvalidOption(
                f"{self.handler.name}: a step has no {', '.join(given) or 'expires'}=: it starts "
                "after the steps before it, and once"
            )
        fields = {name: value for name, value in self.fields.items() if name != "jitter_seconds"}
        payload = self.handler.arguments.document(args, kwargs)
        if not has_marks(marked(payload)):
            self.handler.arguments.encode(args, kwargs)  # all is known: it can be checked
        return StepTask({"task_type": self.handler.name, **fields}, payload)


class SubmittableHandler(Submittable[P, R]):
    """The submitting half of a handler."""

    def options(self, **options: Unpack[SubmitFields]) -> WithOptions[P, R]:
        """The handler with options for what is submitted through it. Raises InvalidOption."""
        return WithOptions(cast("Handler[P, R]", self), options)

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> Prepared[R]:
        return self._without_options.prepare(*args, **kwargs)

    def step_task(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> StepTask:
        return self._without_options.step_task(args, kwargs)

    @cached_property
    def _without_options(self) -> WithOptions[P, R]:
        return self.options()


def _of_handler(defaults: TaskDefaults) -> dict[str, Any]:
    """What the handler says, so that it holds before a worker has told the server. But for the
    expiry: the server counts it from the submission, which may be a repeated one. And whether
    transitions are logged is said by the type alone."""
    fields = msgspec.structs.asdict(defaults)
    del fields["expires_after_seconds"], fields["log_transitions"]
    return {name: value for name, value in fields.items() if value}


def _fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a TaskSpec. Raises ValueError."""
    check_known(options, _KNOWN)
    if "delay" in options and "at" in options:
        raise ValueError("delay= and at= are two ways to say when: give one of them")
    fields = read_fields(options)
    for option, field in (("key", "idempotency_key"), ("name", "name"), ("correlation_id",) * 2):
        if option in options:
            fields[field] = _text(option, options[option])
    if "delay" in options:
        fields["delay_seconds"] = _seconds("delay", options["delay"])
    if "at" in options:
        fields["execute_at"] = _moment("at", options["at"])
    if isinstance(options.get("expires"), datetime):
        fields["expires_at"] = _moment("expires", options["expires"])
    for option in ("on_success", "on_failure"):
        if option in options:
            if not isinstance(options[option], Prepared):
                raise ValueError(f"{option}= must be what prepare() of a handler gives")
            if "connection" in options:
                raise ValueError(f"{option}= and connection=: callbacks are submitted by the API")
            fields[option] = options[option].spec
    if "batch" in options:
        if "connection" in options:
            raise ValueError("batch= and connection=: tasks are put into a batch by the API")
        fields["batch_id"] = _batch_id(options["batch"])
    return fields


def _batch_id(given: Any) -> UUID:
    """The id of a batch, which may be given itself. Raises ValueError."""
    if isinstance(given, str):
        return UUID(given)
    found = given if isinstance(given, UUID) else getattr(given, "id", None)
    if not isinstance(found, UUID):
        raise ValueError(f"batch={given!r}: must be a batch that is open, or its id")  # noqa: TRY004 - as for all options
    return found


def _lifetime(options: Mapping[str, Any]) -> float | None:
    """The seconds from the submission after which the task expires, where options say so."""
    expires = options.get("expires")
    if expires is None or isinstance(expires, datetime):
        return None
    if "key" in options:
        raise ValueError(
            "expires= must be a time where key= is given: a submission that is repeated has to "
            "say the same"
        )
    return _seconds("expires", expires)


def _text(option: str, given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError(f"{option}={given!r}: must be a text")  # noqa: TRY004 - as for all options
    return given


def _seconds(option: str, given: Any) -> float:
    try:
        return seconds_of(given)
    except ValueError as error:
        raise ValueError(f"{option}= {error}") from None


def _moment(option: str, given: Any) -> datetime:
    if not isinstance(given, datetime):
        raise ValueError(f"{option}={given!r}: must be a datetime")  # noqa: TRY004 - likewise
    if given.tzinfo is None:
        raise ValueError(
            f"{option}={given.isoformat()} has no time zone: give it one, as in "
            "datetime(2030, 1, 31, 9, tzinfo=ZoneInfo('Europe/Berlin'))"
        )
    return given

"""Cron jobs that are declared beside their handlers: checked there, synchronised by a worker."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from gnomon.client.types.cron import CronJobSpec
from gnomon.cron.dst import Dst
from gnomon.cron.job import Definition, Missed, Overlap, checked, payload_of
from gnomon.cron.template import Values
from gnomon.model.duration import Duration
from gnomon.model.errors import InvalidTask
from gnomon.model.targets.target import PythonTarget, WorkflowTarget
from gnomon.sdk.declaring.handler import Handler
from gnomon.sdk.declaring.options import (
    LONGEST_EXPIRY,
    TASK_FIELDS,
    TASK_OPTIONS,
    TaskDefaults,
    TaskFields,
    check_delivery,
    check_options,
    read_choice,
    read_duration,
    task_defaults,
)
from gnomon.sdk.errors import InvalidHandler
from gnomon.sdk.signals import Reject
from gnomon.sdk.values import encoded

ONE_DAY = 24 * 3600.0
MOST_NAME_CHARACTERS = 200
MOST_BACKFILLED = 10_000
MOST_RUNS = 2**31 - 1
_LEAST = 0.001

OverlapName = Literal["skip", "queue", "allow", "cancel_running"]
MissedName = Literal["skip", "fire_once", "backfill"]


class CronOptions(TaskFields, total=False):
    """The options of `@app.cron` and `@app.every`: those of the job, and of its tasks."""

    name: str
    timezone: str | ZoneInfo
    dst: Dst
    payload: Any
    overlap: Overlap | OverlapName
    missed: Missed | MissedName
    missed_after: Duration
    backfill_limit: int
    backfill_window: Duration
    start: datetime
    end: datetime
    max_runs: int
    sla: Duration
    phase: str
    renamed_from: str


class DeclaredCron(NamedTuple):
    """A cron job of an app."""

    name: str
    handler: str  # or workflow: its task type
    spec: CronJobSpec  # without a source, which is whoever synchronises it
    renamed_from: str | None  # its former name
    place: str  # of its handler, or workflow


class ScheduledWork(NamedTuple):
    """What a job runs: a handler, or a workflow."""

    name: str  # and its task type
    place: str
    defaults: TaskDefaults
    target: PythonTarget | WorkflowTarget
    check: Callable[[bytes | None], object]  # of what a run would get; raises Reject
    template: Callable[[Any], Any] = lambda payload: payload  # of its payload, as it is declared

    @classmethod
    def of_handler(cls, handler: Handler[..., Any]) -> "ScheduledWork":
        target = PythonTarget(handler.name)
        return cls(handler.name, handler.place, handler.defaults, target, handler.decode)


def declared_cron(
    work: ScheduledWork,
    timing: Mapping[str, Any],
    options: Mapping[str, Any],
) -> DeclaredCron:
    """A job that runs this; `timing` is its cron_expression or interval_seconds. Raises
    InvalidHandler."""
    name = options.get("name", work.name)
    about = f"cron job {name!r}"
    _check_names(about, options)
    fields = {**timing, **_fields(about, options)}
    payload = work.template(fields.get("payload_template"))
    if payload is not None:
        fields["payload_template"] = payload
    tasks = _tasks(about, work.defaults, options)
    _check_payload(about, work, _definition(about, work, name, fields))
    target = work.target if isinstance(work.target, WorkflowTarget) else None
    spec = CronJobSpec(name=name, task_type=work.name, target=target, **fields, **tasks)
    return DeclaredCron(name, work.name, spec, options.get("renamed_from"), work.place)


def _check_names(about: str, options: Mapping[str, Any]) -> None:
    for option in options:
        if option in TASK_OPTIONS and option not in (*TASK_FIELDS, "name"):
            raise InvalidHandler(
                f"{about}: {option}= is an option of the handler: write it in @app.task, below"
            )
    check_options(about, options, tuple(CronOptions.__annotations__))


def _fields(about: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job that the options say."""
    fields: dict[str, Any] = {}
    for option, value in options.items():
        if option not in _READERS:
            continue
        field, read = _READERS[option]
        try:
            fields[field] = read(value)
        except (ValueError, TypeError) as error:
            raise InvalidHandler(f"{about}: {option}={value!r}: {error}") from None
    return fields


def _tasks(about: str, defaults: TaskDefaults, options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the job's tasks: as the job says, else as its handler does."""
    said = {**defaults.said(), **task_defaults(about, options).said()}
    said.pop("expires_after_seconds", None)  # jobs have none: the next run comes
    said.pop("log_transitions", None)  # said by the type alone
    check_delivery(about, TaskDefaults(**said))
    return said


def _definition(
    about: str, work: ScheduledWork, name: Any, fields: Mapping[str, Any]
) -> Definition:
    """The job as the server would make it."""
    if not isinstance(name, str) or len(name) > MOST_NAME_CHARACTERS:
        raise InvalidHandler(f"{about}: name: must be text of up to {MOST_NAME_CHARACTERS} letters")
    payload = fields.get("payload_template")
    raw = None if payload is None else msgspec.Raw(encoded(payload))
    try:
        return checked(
            Definition(
                name=name,
                task_type=work.name,
                target=work.target,
                **{**fields, "payload_template": raw},
            )
        )
    except InvalidTask as error:
        field = error.pointer.lstrip("/").partition("/")[0]
        place = f"{_OPTIONS.get(field, field)}: " if field else ""
        raise InvalidHandler(f"{about}: {place}{error.detail}") from None


def _check_payload(about: str, work: ScheduledWork, definition: Definition) -> None:
    """Whether it can take what a run would get."""
    payload = definition.payload_template
    try:
        work.check(None if payload is None else payload_of(definition).render(_A_RUN))
    except Reject as error:
        raise InvalidHandler(f"{about}: payload: {error}") from None


def _moment(value: Any) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise TypeError("must be a datetime with a zone")
    return value


def _count(most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise ValueError(f"must be a number from 1 to {most}")
        return value

    return read


def _zone(value: Any) -> str:
    if isinstance(value, ZoneInfo):
        value = value.key
    if not isinstance(value, str):
        raise TypeError("must be the name of a zone, like 'Europe/Berlin'")
    return value


def _dst(value: Any) -> Dst:
    if not isinstance(value, Dst):
        raise TypeError("must be a Dst")
    return value


def _json(value: Any) -> Any:
    return msgspec.json.decode(encoded(value))


def _phase(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("must be a time of day like '09:07', or a moment")
    return value


_READERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "timezone": ("timezone", _zone),
    "dst": ("dst", _dst),
    "payload": ("payload_template", _json),
    "overlap": ("overlap_policy", read_choice(Overlap)),
    "missed": ("missed_run_policy", read_choice(Missed)),
    "missed_after": ("missed_after_seconds", read_duration(1, ONE_DAY)),
    "backfill_limit": ("backfill_limit", _count(MOST_BACKFILLED)),
    "backfill_window": ("backfill_window_seconds", read_duration(_LEAST, LONGEST_EXPIRY)),
    "start": ("start_date", _moment),
    "end": ("end_date", _moment),
    "max_runs": ("max_runs", _count(MOST_RUNS)),
    "phase": ("interval_from", _phase),
}
_OPTIONS = {field: option for option, (field, _) in _READERS.items()} | {
    "cron_expression": "the expression",
    "interval_seconds": "the interval",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_A_RUN = Values(
    fire_time=_EPOCH,
    scheduled_for=_EPOCH,
    previous_fire_time=_EPOCH,
    run_id=str(UUID(int=0)),
    job_name="job",
)

"""The definition of a cron job in a request: defaults filled in, values checked."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from gnomon.cron.interval import anchor
from gnomon.cron.job import Definition, checked
from gnomon.cron.zones import zone
from gnomon.model.errors import InvalidSchedule, InvalidTask
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.task import TEMPLATE_FIELDS
from gnomon.model.tasks.type_defaults import BUILT_IN, TypeDefaults
from gnomon.usecases.checks.request_fields import MOST_NAME_CHARACTERS
from gnomon.usecases.checks.request_moments import utc
from gnomon.usecases.checks.text_check import check_note
from gnomon.usecases.cron.cron_requests import PatchCronJob, PreviewSchedule, PutCronJob
from gnomon.usecases.tasks.task_template import (
    changed_template,
    check_text,
    given,
    handler_of,
    payload_of,
    template_of,
)

UNSET = msgspec.UNSET

# Paths under `/cron-jobs/` that are not jobs: a job of that name could not be found.
_TAKEN_NAMES = ("preview", ".", "..")
# Fields of a definition that a request gives as they are stored.
_AS_THEY_ARE = tuple(
    field
    for field in Definition.__struct_fields__
    if field not in (*TEMPLATE_FIELDS, "name", "payload_template", "start_date", "end_date")
)


def definition_of(
    asked: PutCronJob, name: str, most_bytes: int, defaults: TypeDefaults = BUILT_IN
) -> Definition:
    """The definition that a request describes. Raises InvalidTask, with the place."""
    check_text(asked)
    fields = {field: getattr(asked, field) for field in _AS_THEY_ARE}
    if asked.jitter_seconds is UNSET:
        fields["jitter_seconds"] = defaults.jitter_seconds
    return _sound(
        Definition(
            **template_of(asked, defaults),
            **fields,
            name=name,
            payload_template=_template(asked.payload_template, most_bytes),
            start_date=utc(asked.start_date, "/start_date"),
            end_date=utc(asked.end_date, "/end_date"),
        )
    )


def edit_of(asked: PatchCronJob, most_bytes: int) -> Callable[[Definition], Definition]:
    """The change that a request describes. Raises InvalidTask, with the place; so does the edit,
    for mistakes that only show in the whole definition."""
    check_text(asked)
    check_note(asked.pause_reason, "/pause_reason")
    if given(asked.pause_reason) is not None and asked.paused is not True:
        raise InvalidTask('goes with "paused": true', "/pause_reason")
    changes = _changes(asked, most_bytes)

    def edit(definition: Definition) -> Definition:
        if not changes:
            return definition
        return _sound(msgspec.structs.replace(definition, **_followed(definition, changes)))

    return edit


def _followed(definition: Definition, changes: dict[str, Any]) -> dict[str, Any]:
    """With a new task type, the target of a job that calls the handler of its type."""
    if "task_type" not in changes or "target" in changes:
        return changes
    if definition.target != PythonTarget(definition.task_type):
        return changes
    return changes | {"target": handler_of(changes["task_type"])}


def previewed_of(asked: PreviewSchedule) -> Definition:
    """A definition with the schedule of a request, so that it is checked like a job's."""
    return _sound(
        Definition(
            name="a preview",
            task_type="preview",
            target=PythonTarget("preview"),
            cron_expression=asked.cron_expression,
            interval_seconds=asked.interval_seconds,
            interval_from=asked.interval_from,
            timezone=asked.timezone,
            dst=asked.dst,
            start_date=utc(asked.start_date, "/start_date"),
            end_date=utc(asked.end_date, "/end_date"),
        )
    )


def _changes(asked: PatchCronJob, most_bytes: int) -> dict[str, Any]:
    """The fields of a definition that a request changes."""
    changes = changed_template(asked)
    for field in ("name", *_AS_THEY_ARE):
        if (value := getattr(asked, field)) is not UNSET:
            changes[field] = value
    for field in ("start_date", "end_date"):
        if (moment := getattr(asked, field)) is not UNSET:
            changes[field] = utc(moment, f"/{field}")
    if asked.payload_template is not UNSET:
        changes["payload_template"] = _template(asked.payload_template, most_bytes)
    if given(asked.cron_expression) is not None:
        changes = {"interval_seconds": None, "interval_from": None} | changes
    if given(asked.interval_seconds) is not None:
        changes = {"cron_expression": None} | changes
    return changes


def _template(raw: msgspec.Raw | msgspec.UnsetType, most_bytes: int) -> msgspec.Raw | None:
    payload = payload_of(raw, most_bytes, "/payload_template")
    return None if payload is None else msgspec.Raw(payload)


def _sound(definition: Definition) -> Definition:
    """The definition. Raises InvalidTask, InvalidSchedule, with the place."""
    _check_name(definition.name)
    definition.check_delivery()
    with _placed("/timezone"):
        where = zone(definition.timezone)
    with _placed("/interval_from"):
        anchor(definition.interval_from, where)
    start, end = definition.start_date, definition.end_date
    if start is not None and end is not None and end <= start:
        raise InvalidSchedule("must be later than start_date", "/end_date")
    by_interval = definition.interval_seconds is not None
    with _placed("/interval_seconds" if by_interval else "/cron_expression"):
        return checked(definition)


def _check_name(name: str) -> None:
    if name in _TAKEN_NAMES:
        raise InvalidTask(
            f"must not be {name!r}: the path of such a job means something else", "/name"
        )
    if len(name) > MOST_NAME_CHARACTERS:  # the path of a PUT has no such limit
        raise InvalidTask(f"must have at most {MOST_NAME_CHARACTERS} characters", "/name")


@contextmanager
def _placed(pointer: str) -> Iterator[None]:
    """Adds the place to errors that have none."""
    try:
        yield
    except InvalidSchedule as error:
        raise InvalidSchedule(error.detail, error.pointer or pointer) from error

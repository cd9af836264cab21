"""From what was asked for to a job's definition: defaults filled in, sense checked."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from gnomon.api.cron.schemas import (
    MOST_NAME_CHARACTERS,
    CronJobQuery,
    PatchCronJob,
    PreviewSchedule,
    PutCronJob,
)
from gnomon.api.tasks.submissions import (
    changed_template,
    check_text,
    given,
    payload_of,
    template_of,
    utc,
)
from gnomon.cron.interval import anchor
from gnomon.cron.job import Definition, checked
from gnomon.cron.zones import zone
from gnomon.model.errors import InvalidSchedule, InvalidTask
from gnomon.model.target import PythonTarget
from gnomon.model.task import TEMPLATE_FIELDS
from gnomon.store.ports.cron import CronFilter

UNSET = msgspec.UNSET

# Under `/cron-jobs/` these lead elsewhere, so no job could be found by them.
_TAKEN_NAMES = ("preview", ".", "..")
# Fields of a definition that a body gives as they are stored.
_AS_THEY_ARE = tuple(
    field
    for field in Definition.__struct_fields__
    if field not in (*TEMPLATE_FIELDS, "name", "payload_template", "start_date", "end_date")
)


def definition_of(asked: PutCronJob, name: str, most_bytes: int) -> Definition:
    """Raises InvalidTask, with the place."""
    check_text(asked)
    return _sound(
        Definition(
            **template_of(asked),
            **{field: getattr(asked, field) for field in _AS_THEY_ARE},
            name=name,
            payload_template=_template(asked.payload_template, most_bytes),
            start_date=utc(asked.start_date, "/start_date"),
            end_date=utc(asked.end_date, "/end_date"),
        )
    )


def edit_of(asked: PatchCronJob, most_bytes: int) -> Callable[[Definition], Definition]:
    """What a patch does to a definition. Raises InvalidTask, with the place; so does the edit,
    for what only shows together with the rest."""
    check_text(asked)
    if given(asked.pause_reason) is not None and asked.paused is not True:
        raise InvalidTask('goes with "paused": true', "/pause_reason")
    changes = _changes(asked, most_bytes)

    def edit(definition: Definition) -> Definition:
        return _sound(msgspec.structs.replace(definition, **changes)) if changes else definition

    return edit


def previewed_of(asked: PreviewSchedule) -> Definition:
    """A job with the schedule that is asked about, so that it is judged like a job's."""
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


def filter_of(asked: CronJobQuery) -> CronFilter:
    return CronFilter(
        name=asked.name,
        tag=asked.tag,
        paused=asked.paused,
        source=asked.source,
        next_fire_before=utc(asked.next_fire_before, "/next_fire_before"),
    )


def _changes(asked: PatchCronJob, most_bytes: int) -> dict[str, Any]:
    """Fields of a definition by their names."""
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
    """The definition, if a job can be made of it; otherwise what is wrong has its place."""
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
        raise InvalidTask(f"must not be {name!r}: under that path is something else", "/name")
    if len(name) > MOST_NAME_CHARACTERS:  # the path of a PUT says nothing of it
        raise InvalidTask(f"must have at most {MOST_NAME_CHARACTERS} characters", "/name")


@contextmanager
def _placed(pointer: str) -> Iterator[None]:
    """Say where the mistake is, for those who know a value but not its place."""
    try:
        yield
    except InvalidSchedule as error:
        raise InvalidSchedule(error.detail, error.pointer or pointer) from error

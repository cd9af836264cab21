"""From what was asked for to what will be stored: defaults filled in, sense checked."""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeVar

import msgspec

from gnomon.access.principal import Principal
from gnomon.api.context import Context
from gnomon.api.cron.schemas import PatchCronJob, PutCronJob
from gnomon.api.tasks.schemas import (
    DeadLetterFilter,
    PatchTask,
    SubmitTask,
    TaskQuery,
    TemplateBody,
    TemplatePatch,
)
from gnomon.clock import new_id
from gnomon.model.errors import InvalidTask, PayloadTooLarge
from gnomon.model.lifecycle import Status
from gnomon.model.priority import Lane
from gnomon.model.target import HttpTarget, Target
from gnomon.model.task import (
    TEMPLATE_FIELDS,
    Submission,
    Task,
    TaskPatch,
    default_policy,
    template_fields,
)
from gnomon.model.text import is_line, is_note
from gnomon.store.ports.tasks import TaskFilter
from gnomon.usecases.authorization import check_type
from gnomon.usecases.quota_check import check_payload
from gnomon.usecases.target_check import check_allowed, check_own_target, check_target

FIRST_YEAR, LAST_YEAR = 1971, 2199

UNSET = msgspec.UNSET

_NULL = b"null"
_T = TypeVar("_T")


def allowed(
    context: Context, asked: SubmitTask, by: Principal, now: datetime, key: str | None
) -> Submission:
    """The submission, if no rule of the moment is against it; the schema is still to be asked.
    Raises InvalidTask, with the place."""
    check_target(context.rules.address_guard(by.tenant_id), asked)
    submission = submission_of(asked, by, now, key, context.settings.api.max_payload_bytes)
    check_allowed(context.directory.tenant(by.tenant_id).allow, by, submission.target, asked)
    check_payload(submission.payload, context.directory.quotas(by.tenant_id))
    return submission


def submission_of(
    asked: SubmitTask, by: Principal, now: datetime, key: str | None, most_bytes: int
) -> Submission:
    """Raises InvalidTask, with the place."""
    check_text(asked)
    check_type(by, asked.task_type)
    execute_at = _moment_asked(asked.execute_at, asked.delay_seconds, now) or now
    expires_at = utc(asked.expires_at, "/expires_at")
    due_at = max(execute_at, now)
    if expires_at is not None and expires_at <= due_at:
        detail = f"must be later than the start, {due_at:%Y-%m-%dT%H:%M:%SZ}"
        raise InvalidTask(detail, "/expires_at")
    template = template_of(asked)
    template["target"] = template["target"].unmasked(None)
    submission = Submission(
        **template,
        tenant_id=by.tenant_id,
        id=new_id(now),
        execute_at=execute_at,
        due_at=due_at,
        payload=payload_of(asked.payload, most_bytes),
        name=asked.name,
        expires_at=expires_at,
        idempotency_key=key,
        created_by=by.name,
    )
    submission.check_delivery()
    return submission


def template_of(asked: TemplateBody) -> dict[str, Any]:
    """The fields of the task template in a body, every default filled in. Raises InvalidTask."""
    target = target_of(asked.target, asked.callback_url, asked.callback_method)
    if target is None:
        raise InvalidTask("say what to call: target, or callback_url", "/target")
    fields = {name: getattr(asked, name) for name in TEMPLATE_FIELDS}
    fields["target"] = target
    fields["priority"] = Lane[asked.priority]
    fields["tags"] = distinct(asked.tags)
    if asked.retry_policy is UNSET:
        fields["retry_policy"] = default_policy(asked.delivery)
    return fields


def patch_of(asked: PatchTask, now: datetime, most_bytes: int) -> TaskPatch:
    """Raises InvalidTask, with the place."""
    check_text(asked)
    changes = changed_template(asked)
    execute_at = _moment_asked(given(asked.execute_at), given(asked.delay_seconds), now)
    if execute_at is not None:
        changes["execute_at"] = execute_at
    if asked.expires_at is not UNSET:
        changes["expires_at"] = utc(asked.expires_at, "/expires_at")
    if asked.payload is not UNSET:
        changes["payload"] = payload_of(asked.payload, most_bytes)
    return TaskPatch(name=asked.name, **changes)


def changed_template(asked: TemplatePatch) -> dict[str, Any]:
    """The fields of the task template that a body changes, as they are stored. Raises
    InvalidTask."""
    changes = {
        name: value
        for name in TEMPLATE_FIELDS
        if (value := getattr(asked, name, UNSET)) is not UNSET
    }
    named: Target | None = None if asked.target is UNSET else asked.target
    target = target_of(named, given(asked.callback_url), given(asked.callback_method))
    if target is not None:
        changes["target"] = target
    if asked.priority is not UNSET:
        changes["priority"] = Lane[asked.priority]
    if asked.tags is not UNSET:
        changes["tags"] = distinct(asked.tags)
    return changes


def with_secrets(patch: TaskPatch, stored: Target) -> TaskPatch:
    """The patch, with secrets that were only shown as a mask in their places."""
    if patch.target is UNSET:
        return patch
    return msgspec.structs.replace(patch, target=patch.target.unmasked(stored))


def filter_of(asked: DeadLetterFilter) -> TaskFilter:
    return TaskFilter(
        status=asked.status if isinstance(asked, TaskQuery) else None,
        task_type=asked.task_type,
        priority=None if asked.priority is None else Lane[asked.priority],
        tag=asked.tag,
        queue=asked.queue,
        cron_job_id=asked.cron_job_id,
        due_after=utc(asked.due_after, "/due_after"),
        due_before=utc(asked.due_before, "/due_before"),
    )


def repetition_of(task: Task, by: Principal, now: datetime) -> Submission:
    """A new task that does now what a finished one did. Its expiry was about the old one."""
    return Submission(
        **template_fields(task),
        tenant_id=task.tenant_id,
        id=new_id(now),
        execute_at=now,
        due_at=now,
        payload=task.payload,
        name=task.name,
        created_by=by.name,
        retry_of=task.task_id,
    )


def why_not_retried(task: Task) -> str:
    """What to do where a task cannot be retried."""
    remedies = {
        Status.RUNNING: "wait until it has ended",
        Status.PAUSED: "resume it",
        Status.SCHEDULED: "it has not run yet; move its execute_at to run it now",
        Status.READY: "it is about to run",
        Status.BLOCKED: "it runs when the tasks that it waits for have completed",
    }
    return remedies[task.status]


def _moment_asked(at: datetime | None, delay: float | None, now: datetime) -> datetime | None:
    if at is not None and delay is not None:
        raise InvalidTask("give execute_at or delay_seconds, not both", "/delay_seconds")
    if delay is not None:
        return utc(now + timedelta(seconds=delay), "/delay_seconds")
    return utc(at, "/execute_at")


def utc(moment: datetime | None, pointer: str) -> datetime | None:
    return None if moment is None else moment_of(moment, pointer)


def moment_of(moment: datetime, pointer: str) -> datetime:
    """In UTC, if it is of an age that can be kept."""
    # In its own zone it may still be the year before, or the one after: up to a day away.
    if FIRST_YEAR - 1 <= moment.year <= LAST_YEAR + 1:
        at = moment.astimezone(UTC)
        if FIRST_YEAR <= at.year <= LAST_YEAR:
            return at
    raise InvalidTask(f"must be in the years {FIRST_YEAR} to {LAST_YEAR} of UTC", pointer)


def target_of(target: Target | None, url: str | None, method: str | None) -> Target | None:
    """What to call, said in full or in short."""
    if target is not None and (url is not None or method is not None):
        raise InvalidTask("give target or callback_url, not both", "/target")
    if url is None:
        if method is not None:
            raise InvalidTask("callback_method needs a callback_url", "/callback_method")
        return target
    short = HttpTarget(url) if method is None else HttpTarget(url, method)
    try:
        short.check()
    except ValueError as error:
        field = "callback_method" if str(error).startswith("method") else "callback_url"
        raise InvalidTask(str(error), f"/{field}") from error
    return short


def payload_of(
    raw: msgspec.Raw | msgspec.UnsetType, most_bytes: int, pointer: str = "/payload"
) -> bytes | None:
    """The JSON as it was written; None for null."""
    payload = _NULL if raw is UNSET else bytes(raw)
    if len(payload) > most_bytes:
        detail = f"is {len(payload)} bytes; at most {most_bytes} are kept. Send a reference instead"
        raise PayloadTooLarge(detail, pointer)
    try:
        payload.decode()  # msgspec skips over what it need not understand
    except UnicodeDecodeError as error:
        raise InvalidTask("is not UTF-8", pointer) from error
    return None if payload == _NULL else payload


def distinct(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tags if len(tags) < 2 else tuple(dict.fromkeys(tags))


def check_text(asked: SubmitTask | PatchTask | PutCronJob | PatchCronJob) -> None:
    """Raises InvalidTask, with the place."""
    for name, pointer in _lines(type(asked)):
        check_line(getattr(asked, name), pointer)
    tags = given(asked.tags)
    if tags and not all(map(is_line, tags)):
        for index, tag in enumerate(tags):
            check_line(tag, f"/tags/{index}")
    if isinstance(asked, SubmitTask):
        check_key(asked.idempotency_key)
    if isinstance(asked, PatchCronJob):
        check_note(asked.pause_reason, "/pause_reason")
    target = given(asked.target)
    if target is not None:
        try:
            target.check()
        except ValueError as error:
            # Its first word is the field, "header" where it is one of them.
            field = str(error).partition(" ")[0].replace("header", "headers")
            raise InvalidTask(str(error), f"/target/{field}") from error


@cache
def _lines(
    kind: type[SubmitTask | PatchTask | PutCronJob | PatchCronJob],
) -> tuple[tuple[str, str], ...]:
    """The fields that are one line of text, each with its JSON pointer."""
    names = ("task_type", "name", "queue", "source")
    return tuple((name, f"/{name}") for name in names if name in kind.__struct_fields__)


def check_own(by: Principal, asked: SubmitTask) -> None:
    """Raises TypeForbidden, TargetForbidden where this was never theirs to submit, whatever the
    rules of the moment are."""
    check_type(by, asked.task_type)
    if by.allow.limits:
        target = target_of(asked.target, asked.callback_url, asked.callback_method)
        if target is not None:
            check_own_target(by, target, asked)


def check_line(text: str | msgspec.UnsetType | None, pointer: str) -> None:
    """A line is shown in lists, logs and terminals, and PostgreSQL's text cannot hold NUL. (A
    payload is kept as JSON, and may hold anything.)"""
    if isinstance(text, str) and not is_line(text):
        raise InvalidTask("must not contain control characters, such as NUL or a line end", pointer)


def check_note(text: str | msgspec.UnsetType | None, pointer: str) -> None:
    if isinstance(text, str) and not is_note(text):
        raise InvalidTask("must not contain control characters but tabs and line ends", pointer)


def check_key(key: str | None) -> None:
    """An idempotency key is sent on in a header, whose ends are not kept."""
    if key is not None and (not key.isprintable() or key != key.strip()):
        raise InvalidTask("must be printable, without a space at its ends", "/idempotency_key")


def given(value: _T | msgspec.UnsetType) -> _T | None:
    return None if value is UNSET else value

"""From what was asked for to what will be stored: defaults filled in, sense checked."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TypeVar

import msgspec

from gnomon.access.principal import Principal
from gnomon.access.target_secrets import unmasked
from gnomon.api.admin.quotas import check_payload
from gnomon.api.context import Context
from gnomon.api.cron.schemas import PatchCronJob, PutCronJob
from gnomon.api.tasks.schemas import DeadLetterFilter, PatchTask, SubmitTask, TaskQuery
from gnomon.clock import new_id
from gnomon.model.errors import InvalidTask, PayloadTooLarge
from gnomon.model.lifecycle import Status
from gnomon.model.priority import Lane
from gnomon.model.retry import RetryPolicy
from gnomon.model.target import HttpTarget, Target
from gnomon.model.task import DeliveryMode, Submission, Task
from gnomon.model.text import is_line, is_note
from gnomon.store.ports.tasks import TaskFilter, TaskPatch
from gnomon.usecases.authorization import check_type
from gnomon.usecases.target_check import check_allowed, check_own_target, check_target

FIRST_YEAR, LAST_YEAR = 1971, 2199

UNSET = msgspec.UNSET

_NULL = b"null"
_NEVER_AGAIN = RetryPolicy(max_retries=0)
_T = TypeVar("_T")


def allowed(
    context: Context, asked: SubmitTask, by: Principal, now: datetime, key: str | None
) -> Submission:
    """The submission, if no rule of the moment is against it; the schema is still to be asked.
    Raises InvalidTask, with the place."""
    check_target(context.rules.address_guard(by.tenant_id), asked)
    submission = submission_of(asked, by, now, key, context.settings.max_payload_bytes)
    check_allowed(context.directory.tenant(by.tenant_id).allow, by, submission.target, asked)
    check_payload(submission.payload, context.directory.quotas(by.tenant_id))
    return submission


def submission_of(
    asked: SubmitTask, by: Principal, now: datetime, key: str | None, most_bytes: int
) -> Submission:
    """Raises InvalidTask, with the place."""
    check_text(asked)
    check_type(by, asked.task_type)
    check_preemptible(asked.preemptible, asked.delivery)
    execute_at = _moment_asked(asked.execute_at, asked.delay_seconds, now) or now
    expires_at = utc(asked.expires_at, "/expires_at")
    due_at = max(execute_at, now)
    if expires_at is not None and expires_at <= due_at:
        detail = f"must be later than the start, {due_at:%Y-%m-%dT%H:%M:%SZ}"
        raise InvalidTask(detail, "/expires_at")
    target = target_of(asked.target, asked.callback_url, asked.callback_method)
    if target is None:
        raise InvalidTask("say what to call: target, or callback_url", "/target")
    return Submission(
        tenant_id=by.tenant_id,
        id=new_id(now),
        task_type=asked.task_type,
        target=unmasked(target, None),
        execute_at=execute_at,
        due_at=due_at,
        payload=payload_of(asked.payload, most_bytes),
        name=asked.name,
        lane=Lane[asked.priority],
        delivery=asked.delivery,
        retry_policy=policy_of(asked.retry_policy, asked.delivery),
        timeout_seconds=asked.timeout_seconds,
        expires_at=expires_at,
        tags=distinct(asked.tags),
        idempotency_key=key,
        created_by=by.name,
        queue=asked.queue,
        preemptible=asked.preemptible,
        keep_payload=asked.keep_payload,
    )


def patch_of(asked: PatchTask, now: datetime, most_bytes: int) -> TaskPatch:
    """Raises InvalidTask, with the place."""
    check_text(asked)
    execute_at = _moment_asked(given(asked.execute_at), given(asked.delay_seconds), now)
    named: Target | None = None if asked.target is UNSET else asked.target
    target = target_of(named, given(asked.callback_url), given(asked.callback_method))
    return TaskPatch(
        name=asked.name,
        payload=UNSET if asked.payload is UNSET else payload_of(asked.payload, most_bytes),
        target=UNSET if target is None else target,
        execute_at=UNSET if execute_at is None else execute_at,
        priority=UNSET if asked.priority is UNSET else Lane[asked.priority],
        timeout_seconds=asked.timeout_seconds,
        expires_at=UNSET if asked.expires_at is UNSET else utc(asked.expires_at, "/expires_at"),
        retry_policy=asked.retry_policy,
        tags=UNSET if asked.tags is UNSET else distinct(asked.tags),
        queue=asked.queue,
        preemptible=asked.preemptible,
        keep_payload=asked.keep_payload,
    )


def with_secrets(patch: TaskPatch, stored: Target) -> TaskPatch:
    """The patch, with secrets that were only shown as a mask in their places."""
    if patch.target is UNSET:
        return patch
    return msgspec.structs.replace(patch, target=unmasked(patch.target, stored))


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
        tenant_id=task.tenant_id,
        id=new_id(now),
        task_type=task.task_type,
        target=task.target,
        execute_at=now,
        due_at=now,
        payload=task.payload,
        name=task.name,
        lane=task.priority,
        delivery=task.delivery,
        retry_policy=task.retry_policy,
        timeout_seconds=task.timeout_seconds,
        tags=task.tags,
        created_by=by.name,
        retry_of=task.task_id,
        preemptible=task.preemptible,
        queue=task.queue,
        keep_payload=task.keep_payload,
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


def check_preemptible(preemptible: bool, mode: DeliveryMode) -> None:
    if preemptible and mode is DeliveryMode.AT_MOST_ONCE:
        detail = "what is delivered at_most_once cannot be given back once it has begun"
        raise InvalidTask(detail, "/preemptible")


def check_patch(patch: TaskPatch, mode: DeliveryMode) -> None:
    """Raises InvalidTask where the task's mode forbids what is to be changed."""
    if patch.retry_policy is not UNSET:
        check_policy(patch.retry_policy, mode)
    check_preemptible(patch.preemptible is True, mode)


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


def policy_of(asked: RetryPolicy | msgspec.UnsetType, mode: DeliveryMode) -> RetryPolicy:
    """The retry policy of a task. Raises InvalidTask where the mode forbids it."""
    if asked is UNSET:
        return _NEVER_AGAIN if mode is DeliveryMode.AT_MOST_ONCE else RetryPolicy()
    check_policy(asked, mode)
    return asked


def check_policy(policy: RetryPolicy, mode: DeliveryMode) -> None:
    if mode is DeliveryMode.AT_MOST_ONCE and policy.max_retries > 0:
        detail = "must be 0: what is delivered at_most_once is never tried again"
        raise InvalidTask(detail, "/retry_policy/max_retries")


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


def distinct(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tags))


def check_text(asked: SubmitTask | PatchTask | PutCronJob | PatchCronJob) -> None:
    """Raises InvalidTask, with the place."""
    for name in _lines(type(asked)):
        check_line(getattr(asked, name), f"/{name}")
    if asked.tags:
        for index, tag in enumerate(given(asked.tags) or ()):
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
def _lines(kind: type[SubmitTask | PatchTask | PutCronJob | PatchCronJob]) -> tuple[str, ...]:
    names = ("task_type", "name", "queue", "source")
    return tuple(name for name in names if name in kind.__struct_fields__)


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

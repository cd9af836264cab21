"""Accepts a submission, with every default filled in and every rule checked.

`accept` returns the submission; SubmissionBatcher stores it. A caller with an idempotency key adds
the key and the answer to be replayed in between (`NewTask`).
"""

from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from gnomon.access.principal import Principal
from gnomon.model.errors import InvalidTask
from gnomon.model.fleet.crowding import LaneCrowded
from gnomon.model.targets.target import WorkflowTarget
from gnomon.model.tasks.jitter import jitter_of
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import Submission
from gnomon.model.tasks.type_defaults import BUILT_IN, TypeDefaults
from gnomon.store.ports.work.tasks import Once
from gnomon.store.postgres.tasks.new_ids import new_task_id
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.usecases.checks.authorization import check_type
from gnomon.usecases.checks.crowd_check import check_crowd
from gnomon.usecases.checks.payload_check import check_schema
from gnomon.usecases.checks.quota_check import check_payload
from gnomon.usecases.checks.request_moments import latest_of, utc
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.checks.target_check import (
    check_allowed,
    check_connection,
    check_own_target,
    check_target,
)
from gnomon.usecases.checks.text_check import check_key, given_origin
from gnomon.usecases.tasks.task_requests import SubmitTask
from gnomon.usecases.tasks.task_template import (
    UNSET,
    called_of,
    check_text,
    payload_of,
    template_of,
)


class AnsweredBefore(msgspec.Struct, frozen=True):
    """The answer to an earlier request with the same key and body."""

    answer: bytes


async def accept(
    store: PostgresTasks,
    rules: TenantRules,
    by: Principal,
    asked: SubmitTask,
    now: datetime,
    once: Once | None = None,
    origin: Origin | None = None,
) -> Submission | AnsweredBefore:
    """The task to store. Raises InvalidTask, with the place, and LaneCrowded.

    `once`: its idempotency key, if it has one. A repeated request is answered as before even where
    the rules have changed since, but not to a principal who may not make it at all. `origin`: of
    the request, by its headers.
    """
    try:
        submission = allowed(rules, by, asked, now, None if once is None else once.key, origin)
        if rules.directory.schema(by.tenant_id, asked.task_type) is not None:
            await check_schema(rules, by.tenant_id, asked.task_type, submission.payload)
        check_crowd(rules.directory, submission, now)
    except (InvalidTask, LaneCrowded):
        check_own(by, asked)
        if once is None:
            raise
        known = await store.answered(by.tenant_id, [once])
        if once not in known:
            raise
        return AnsweredBefore(known[once])
    return submission


def allowed(
    rules: TenantRules,
    by: Principal,
    asked: SubmitTask,
    now: datetime,
    key: str | None,
    origin: Origin | None = None,
    task_id: UUID | None = None,
) -> Submission:
    """The task to store, if it passes all checks but that of its payload's schema. `task_id`: its
    id, where others are submitted with it. Raises InvalidTask, with the place."""
    tenant_id = by.tenant_id
    if isinstance(asked.target, WorkflowTarget):
        detail = "only cron jobs have a workflow as their target; start a run of it instead"
        raise InvalidTask(detail, "/target")
    check_target(rules.guards.of(tenant_id), asked)
    defaults = rules.directory.defaults(tenant_id, asked.task_type)
    submission = submission_of(
        asked, by, now, key, rules.max_payload_bytes, defaults, origin, task_id
    )
    check_allowed(rules.directory.tenant(tenant_id).allow, by, submission.target, asked)
    check_connection(rules.queues, tenant_id, submission.target, asked)
    check_payload(submission.payload, rules.directory.quotas(tenant_id))
    return submission


def submission_of(
    asked: SubmitTask,
    by: Principal,
    now: datetime,
    key: str | None,
    most_bytes: int,
    defaults: TypeDefaults = BUILT_IN,
    origin: Origin | None = None,
    task_id: UUID | None = None,
) -> Submission:
    """The task that a request describes. Raises InvalidTask, with the place."""
    check_text(asked)
    check_key(asked.idempotency_key)
    check_type(by, asked.task_type)
    task_id = task_id or new_task_id(now)
    execute_at = due_at = latest = now
    if asked.execute_at is not None or asked.delay_seconds is not None:
        execute_at = asked_moment(asked.execute_at, asked.delay_seconds, now) or now
        due_at = latest = max(execute_at, now)
    jitter = defaults.jitter_seconds if asked.jitter_seconds is UNSET else asked.jitter_seconds
    if jitter:
        latest = due_at + timedelta(seconds=jitter)
        execute_at = due_at = latest_of(due_at + jitter_of(str(task_id), jitter))
    expires_at = _expiry(asked, due_at, latest, defaults)
    template = template_of(asked, defaults)
    template["target"] = template["target"].unmasked(None)
    submission = Submission(
        **template,
        tenant_id=by.tenant_id,
        id=task_id,
        execute_at=execute_at,
        due_at=due_at,
        payload=payload_of(asked.payload, most_bytes),
        name=asked.name,
        expires_at=expires_at,
        idempotency_key=key,
        created_by=by.name,
        retry_of=asked.retry_of,
        batch_id=asked.batch_id,
        origin=given_origin(asked.correlation_id, origin),
        log_transitions=defaults.log_transitions,
    )
    submission.check_delivery()
    return submission


def _expiry(
    asked: SubmitTask, due_at: datetime, latest: datetime, defaults: TypeDefaults
) -> datetime | None:
    """The moment from which the task is not started. Raises InvalidTask where that may be before
    its latest start."""
    if asked.expires_at is UNSET:
        seconds = defaults.expires_after_seconds
        return None if seconds is None else latest_of(due_at + timedelta(seconds=seconds))
    expires_at = utc(asked.expires_at, "/expires_at")
    if expires_at is not None and expires_at <= latest:
        detail = f"must be later than the start, {latest:%Y-%m-%dT%H:%M:%SZ}"
        raise InvalidTask(detail, "/expires_at")
    return expires_at


def check_own(by: Principal, asked: SubmitTask) -> None:
    """Raises TypeForbidden, TargetForbidden where the principal may not submit this, whatever the
    rules are at the moment."""
    check_type(by, asked.task_type)
    if by.allow.limits:
        check_own_target(by, called_of(asked), asked)


def asked_moment(at: datetime | None, delay: float | None, now: datetime) -> datetime | None:
    """The start of a task, given as a moment or as a delay. Raises InvalidTask, with the place."""
    if at is not None and delay is not None:
        raise InvalidTask("give execute_at or delay_seconds, not both", "/delay_seconds")
    if delay is not None:
        return utc(now + timedelta(seconds=delay), "/delay_seconds")
    return utc(at, "/execute_at")

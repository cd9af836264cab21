"""Cron jobs: declare, change, stop, run now, run what was missed.

Requests are checked by the `accept` functions, before a transaction begins; the others act in one.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime

import msgspec

from gnomon.access.principal import Principal
from gnomon.cron.job import CronJob, CronRun, Definition
from gnomon.model.errors import InvalidTask
from gnomon.model.job_errors import CronJobNotFound, DefinitionChanged
from gnomon.model.targets.target import WorkflowTarget
from gnomon.model.tasks.task import DeliveryMode
from gnomon.store.ports.work.cron import Backfilled, Put
from gnomon.store.postgres.cron.jobs import PostgresCronJobs
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.checks.authorization import (
    check_job_held,
    check_job_startable,
    check_type,
    check_whole,
    check_work,
    locked,
)
from gnomon.usecases.checks.payload_check import check_template_schema
from gnomon.usecases.checks.quota_check import check_rhythm, check_template
from gnomon.usecases.checks.request_moments import moment_of
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.checks.target_check import (
    check_allowed,
    check_connection,
    check_own_target,
    check_target,
)
from gnomon.usecases.checks.text_check import check_note
from gnomon.usecases.cron.cron_requests import BackfillCronJob, PatchCronJob, PutCronJob
from gnomon.usecases.cron.definitions import definition_of, edit_of
from gnomon.usecases.tasks.task_template import given

Edit = Callable[[Definition], Definition]


class PutJob(msgspec.Struct, frozen=True):
    """A job that was put: as it is now, what was done, and its definitions before and after."""

    job: CronJob
    done: Put
    before: Definition | None  # None: the job is new
    after: Definition


async def accept(rules: TenantRules, by: Principal, asked: PutCronJob, name: str) -> Definition:
    """The definition of the job of this name. Raises InvalidTask, with the place."""
    check_target(rules.address_guard(by.tenant_id), asked)
    if asked.name not in (None, name):
        raise InvalidTask("is not the name in the path; to rename a job, PATCH it", "/name")
    defaults = rules.directory.defaults(by.tenant_id, asked.task_type)
    definition = definition_of(asked, name, rules.max_payload_bytes, defaults)
    check_type(by, definition.task_type)
    check_allowed(rules.allow_list(by.tenant_id), by, definition.target, asked)
    check_connection(rules.queues, by.tenant_id, definition.target, asked)
    check_template(definition.payload_template, rules.quotas(by.tenant_id))
    _check_workflow(by, definition)
    await check_template_schema(rules, by.tenant_id, definition)
    return definition


def _check_workflow(by: Principal, definition: Definition) -> None:
    """Raises InvalidTask, LimitedKey for a job whose runs could not follow those of a workflow."""
    if not isinstance(definition.target, WorkflowTarget):
        return
    check_whole(by)
    if definition.delivery is DeliveryMode.AT_MOST_ONCE:
        raise InvalidTask(
            "a run of a workflow is looked at again until it ends: use at_least_once", "/delivery"
        )


async def create(change: PostgresTaskChange, by: Principal, definition: Definition) -> CronJob:
    """Stores a new job. Raises NameTaken."""
    return await change.cron.create(_with_secrets(definition, None), by.name)


async def put(change: PostgresTaskChange, by: Principal, definition: Definition) -> PutJob:
    """Creates or replaces the job of this name. Raises TypeForbidden, TargetForbidden where the
    principal may not change the job that is there."""
    before = await _known(locked(change, definition.name))
    if before is not None:
        check_work(by, before.definition)
    wanted = _with_secrets(definition, before)
    job, done = await change.cron.put(wanted, by.name)
    job = await change.cron.with_history(job)
    return PutJob(job, done, None if before is None else before.definition, wanted)


async def foresee_put(
    store: PostgresCronJobs, rules: TenantRules, by: Principal, definition: Definition
) -> tuple[CronJob | None, Definition]:
    """The job that `put` would replace, if there is one, and the definition that it would get.
    Raises what `put` would."""
    before = await _known(store.get(by.tenant_id, definition.name))
    if before is not None:
        check_work(by, before.definition)
    check_rhythm(before, definition, rules.clock.now(), rules.quotas(by.tenant_id))
    return before, _with_secrets(definition, before)


async def _known(reading: Awaitable[CronJob]) -> CronJob | None:
    try:
        return await reading
    except CronJobNotFound:
        return None


def _with_secrets(definition: Definition, before: CronJob | None) -> Definition:
    """The definition, with the stored secrets in place of their masks."""
    stored = None if before is None else before.definition.target
    return msgspec.structs.replace(definition, target=definition.target.unmasked(stored))


def accept_patch(rules: TenantRules, by: Principal, asked: PatchCronJob) -> Edit:
    """The change of a definition. Raises InvalidTask, with the place. So does the change itself,
    for mistakes that only show in the whole definition, and where the principal may not have the
    job as it was or as it would be. Secrets that come back as a mask stay as they are."""
    check_target(rules.address_guard(by.tenant_id), asked)
    edit = edit_of(asked, rules.max_payload_bytes)
    tenant = rules.allow_list(by.tenant_id)
    if asked.payload_template is not msgspec.UNSET:
        check_template(asked.payload_template, rules.quotas(by.tenant_id))

    def within_grant(before: Definition) -> Definition:
        check_work(by, before)
        after = edit(before)
        check_type(by, after.task_type)
        _check_workflow(by, after)
        check_own_target(by, after.target, asked)
        if after.target != before.target:  # one that stays may be paused, though not allowed
            check_allowed(tenant, by, after.target, asked)
            check_connection(rules.queues, by.tenant_id, after.target, asked)
        return msgspec.structs.replace(after, target=after.target.unmasked(before.target))

    return within_grant


async def patch(
    change: PostgresTaskChange,
    rules: TenantRules,
    by: Principal,
    ref: str,
    asked: PatchCronJob,
    edit: Edit,
) -> CronJob:
    """Changes a job's definition by an accepted edit, and pauses or resumes it if asked. Raises
    DefinitionChanged where it is not the one that the request is about."""
    if (seen := asked.definition_version) is not msgspec.UNSET:
        job = await locked(change, ref)
        if job.definition_version != seen:
            raise DefinitionChanged(job.definition.name, seen, job.definition_version)
    job = await change.cron.patch(ref, edit)
    if _changes_payload(asked):
        await check_template_schema(rules, job.tenant_id, job.definition, str(job.id))
    job_id = str(job.id)  # the patch may have renamed it
    if asked.paused is True:
        job = await change.cron.pause(job_id, given(asked.pause_reason), by.name)
    elif asked.paused is False:
        job = await change.cron.resume(job_id)
    return await change.cron.with_history(job)


def _changes_payload(asked: PatchCronJob) -> bool:
    """Whether runs may send something else than before. A job that was stored before its task type
    had a schema can still be paused, or moved to another hour."""
    return any(field is not msgspec.UNSET for field in (asked.payload_template, asked.task_type))


async def delete(change: PostgresTaskChange, by: Principal, ref: str) -> None:
    """Removes a job and its runs that have not started."""
    await check_job_held(change, by, ref)
    await change.cron.delete(ref)


async def pause(change: PostgresTaskChange, by: Principal, ref: str, reason: str | None) -> CronJob:
    """Starts no more runs on schedule."""
    check_note(reason, "/reason")
    await check_job_held(change, by, ref)
    return await change.cron.with_history(await change.cron.pause(ref, reason, by.name))


async def resume(change: PostgresTaskChange, by: Principal, ref: str) -> CronJob:
    """Goes on with the next fire."""
    await check_job_held(change, by, ref)
    return await change.cron.with_history(await change.cron.resume(ref))


async def trigger(
    change: PostgresTaskChange, rules: TenantRules, by: Principal, ref: str
) -> CronRun:
    """Runs a job now, whatever its schedule says. Raises Overlapping."""
    await check_job_startable(change, rules, by, ref)
    return await change.cron.trigger(ref)


def accept_backfill(rules: TenantRules, asked: BackfillCronJob) -> tuple[datetime, datetime]:
    """The first and the last moment to backfill. Raises InvalidTask, with the place."""
    first, last = moment_of(asked.first, "/from"), moment_of(asked.last, "/to")
    if last < first:
        raise InvalidTask("must not be earlier than from", "/to")
    if last > rules.clock.now():
        raise InvalidTask("must not be in the future: later fires start by themselves", "/to")
    return first, last


async def backfill(
    change: PostgresTaskChange,
    rules: TenantRules,
    by: Principal,
    ref: str,
    asked: BackfillCronJob,
    between: tuple[datetime, datetime],
) -> tuple[CronJob, Backfilled]:
    """Runs the fires of the past that have no run yet, or with `dry_run` only finds them."""
    await check_job_startable(change, rules, by, ref)
    job = await locked(change, ref)
    found = await change.cron.backfill(ref, *between, asked.limit, dry_run=asked.dry_run)
    return job, found

"""`/cron-jobs`: declare, read, change, stop."""

from collections.abc import Awaitable, Callable
from datetime import datetime

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Principal, Role
from gnomon.api.context import (
    Context,
    Request,
    context_of,
    cron_ref_of,
    principal_of,
    tenant_of,
)
from gnomon.api.cron.definitions import definition_of, edit_of, filter_of
from gnomon.api.cron.previews import preview_cron_job
from gnomon.api.cron.runs import backfill_cron_job, list_cron_runs, trigger_cron_job
from gnomon.api.cron.schemas import (
    CreateCronJob,
    CronJobPage,
    CronJobQuery,
    CronJobReceipt,
    CronJobView,
    PatchCronJob,
    PauseCronJob,
    PutChange,
    PutCronJob,
    PutQuery,
    PutReceipt,
    PutResult,
)
from gnomon.api.cron.views import difference, job_view
from gnomon.api.http.idempotency import Answer, answer, changed, respond, shown
from gnomon.api.http.operation import Operation
from gnomon.api.http.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import NoQuery, Nothing
from gnomon.api.tasks.submissions import check_note, given
from gnomon.api.tasks.views import cursor_of, cursor_view
from gnomon.cron.job import CronJob, Definition
from gnomon.model.errors import CronJobNotFound, InvalidTask
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.cron import Put
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.authorization import check_job_held, check_type, check_work, locked
from gnomon.usecases.payload_check import check_template_schema
from gnomon.usecases.quota_check import check_rhythm, check_template
from gnomon.usecases.target_check import check_allowed, check_own_target, check_target

Edit = Callable[[Definition], Definition]


@Operation(
    "POST",
    "/",
    name="create_cron_job",
    role=Role.SUBMIT,
    summary="Declare a job that recurs",
    body=CreateCronJob,
    body_required=True,
    answers={201: CronJobView},
    receipt=CronJobReceipt,
    echoes=True,
    grows=True,
    keyed=True,
)
async def create_cron_job(request: Request) -> ASGIResponse:
    context = context_of(request)
    most_bytes = context.settings.api.max_payload_bytes
    body = await read_body(request, most_bytes + OVERHEAD_BYTES)
    asked = decoded(body, CreateCronJob)
    check_target(context.rules.address_guard(tenant_of(request)), asked)
    definition = _with_secrets(definition_of(asked, asked.name, most_bytes), None)
    by = principal_of(request)
    check_type(by, definition.task_type)
    check_allowed(context.directory.tenant(by.tenant_id).allow, by, definition.target, asked)
    check_template(definition.payload_template, context.directory.quotas(by.tenant_id))
    await check_template_schema(context.rules, by.tenant_id, definition)

    async def act(change: PostgresTaskChange) -> Answer:
        return _shown(201, await change.cron.create(definition, by.name), context)

    return await changed(request, body, act)


@Operation(
    "GET",
    "/",
    name="list_cron_jobs",
    role=Role.READ,
    summary="List cron jobs, newest first",
    query=CronJobQuery,
    answers={200: CronJobPage},
)
async def list_cron_jobs(request: Request) -> ASGIResponse:
    context = context_of(request)
    asked = queried(request, CronJobQuery)
    page = await context.cron.list(
        tenant_of(request), filter_of(asked), cursor_of(asked.cursor), asked.limit
    )
    now = context.clock.now()
    jobs = [job_view(job, now) for job in page.jobs]
    return respond(answer(200, CronJobPage(jobs, cursor_view(page.next_cursor))))


@Operation(
    "GET",
    "/{ref:str}",
    name="get_cron_job",
    role=Role.READ,
    summary="Read a cron job",
    query=NoQuery,
    answers={200: CronJobView},
    errors=(404,),
)
async def get_cron_job(request: Request) -> ASGIResponse:
    context = context_of(request)
    queried(request, NoQuery)
    job = await context.cron.get(tenant_of(request), cron_ref_of(request))
    return respond(_shown(200, job, context))


@Operation(
    "PUT",
    "/{ref:str}",
    name="put_cron_job",
    role=Role.SUBMIT,
    summary="Make the cron job of this name be as given, whether there is one or not",
    query=PutQuery,
    body=PutCronJob,
    body_required=True,
    answers={200: PutResult, 201: PutResult},
    receipt=PutReceipt,
    grows=True,
    keyed=True,
)
async def put_cron_job(request: Request) -> ASGIResponse:
    context, name = context_of(request), request.path_params["ref"]
    dry_run = queried(request, PutQuery).dry_run
    most_bytes = context.settings.api.max_payload_bytes
    body = await read_body(request, most_bytes + OVERHEAD_BYTES)
    asked = decoded(body, PutCronJob)
    check_target(context.rules.address_guard(tenant_of(request)), asked)
    if asked.name not in (None, name):
        raise InvalidTask("is not the name in the path; to rename a job, PATCH it", "/name")
    definition = definition_of(asked, name, most_bytes)
    by = principal_of(request)
    check_type(by, definition.task_type)
    check_allowed(context.directory.tenant(by.tenant_id).allow, by, definition.target, asked)
    quotas = context.directory.quotas(by.tenant_id)
    check_template(definition.payload_template, quotas)
    await check_template_schema(context.rules, by.tenant_id, definition)
    if dry_run:
        before = await _known(context.cron.get(by.tenant_id, name))
        if before is not None:
            check_work(by, before.definition)
        check_rhythm(before, definition, context.clock.now(), quotas)
        wanted = _with_secrets(definition, before)
        foreseen = answer(200, _foreseen(before, wanted, context.clock.now()))
        return respond(shown(request, foreseen))

    async def act(change: PostgresTaskChange) -> Answer:
        before = await _known(locked(change, name))
        if before is not None:
            check_work(by, before.definition)
        wanted = _with_secrets(definition, before)
        job, done = await change.cron.put(wanted, by.name)
        fields = {}
        if before is not None and done is Put.CHANGED:
            fields = difference(before.definition, wanted)
        view = job_view(job, context.clock.now())
        status = 201 if done is Put.CREATED else 200
        return answer(status, PutResult(PutChange(done.value), fields, view))

    return await changed(request, body, act)


def _with_secrets(definition: Definition, before: CronJob | None) -> Definition:
    """The definition, with secrets that were only shown as a mask in their places."""
    stored = None if before is None else before.definition.target
    return msgspec.structs.replace(definition, target=definition.target.unmasked(stored))


async def _known(reading: Awaitable[CronJob]) -> CronJob | None:
    try:
        return await reading
    except CronJobNotFound:
        return None


def _foreseen(before: CronJob | None, definition: Definition, now: datetime) -> PutResult:
    """What an upsert would do."""
    if before is None:
        return PutResult(PutChange.CREATED, {}, None)
    fields = difference(before.definition, definition)
    change = PutChange.CHANGED if fields else PutChange.UNCHANGED
    return PutResult(change, fields, job_view(before, now))


@Operation(
    "PATCH",
    "/{ref:str}",
    name="patch_cron_job",
    role=Role.SUBMIT,
    summary="Change a cron job",
    body=PatchCronJob,
    body_required=True,
    answers={200: CronJobView},
    receipt=CronJobReceipt,
    errors=(404,),
    grows=True,
    keyed=True,
)
async def patch_cron_job(request: Request) -> ASGIResponse:
    context, ref = context_of(request), cron_ref_of(request)
    most_bytes = context.settings.api.max_payload_bytes
    body = await read_body(request, most_bytes + OVERHEAD_BYTES)
    asked = decoded(body, PatchCronJob)
    check_target(context.rules.address_guard(tenant_of(request)), asked)
    edit = _within_grant(context, principal_of(request), asked)
    if asked.payload_template is not msgspec.UNSET:
        check_template(asked.payload_template, context.directory.quotas(tenant_of(request)))

    async def act(change: PostgresTaskChange) -> Answer:
        job = await change.cron.patch(ref, edit)
        if _sends_anew(asked):
            await check_template_schema(context.rules, job.tenant_id, job.definition, str(job.id))
        job_id = str(job.id)  # the patch may have renamed it
        if asked.paused is True:
            job = await change.cron.pause(job_id, given(asked.pause_reason))
        elif asked.paused is False:
            job = await change.cron.resume(job_id)
        return _shown(200, job, context)

    return await changed(request, body, act)


def _within_grant(context: Context, by: Principal, asked: PatchCronJob) -> Edit:
    """The edit, for those who may have both the job as it was and as it will be; secrets that come
    back as a mask stay as they are."""
    edit = edit_of(asked, context.settings.api.max_payload_bytes)
    tenant = context.directory.tenant(by.tenant_id).allow

    def checked(before: Definition) -> Definition:
        check_work(by, before)
        after = edit(before)
        check_type(by, after.task_type)
        check_own_target(by, after.target, asked)
        if after.target != before.target:  # one that stays may be paused, though not allowed
            check_allowed(tenant, by, after.target, asked)
        return msgspec.structs.replace(after, target=after.target.unmasked(before.target))

    return checked


def _sends_anew(asked: PatchCronJob) -> bool:
    """Whether the change may be one of what runs send. A job that was stored before its task type
    had a schema can still be paused, or moved to another hour."""
    return any(field is not msgspec.UNSET for field in (asked.payload_template, asked.task_type))


@Operation(
    "DELETE",
    "/{ref:str}",
    name="delete_cron_job",
    role=Role.OPERATE,
    summary="Remove a cron job and the runs that have not started",
    answers={204: None},
    errors=(404,),
    keyed=True,
)
async def delete_cron_job(request: Request) -> ASGIResponse:
    ref = cron_ref_of(request)

    async def act(change: PostgresTaskChange) -> Answer:
        await check_job_held(change, principal_of(request), ref)
        await change.cron.delete(ref)
        return answer(204)

    return await changed(request, b"", act)


@Operation(
    "POST",
    "/{ref:str}/pause",
    name="pause_cron_job",
    role=Role.OPERATE,
    summary="Start nothing more on schedule",
    body=PauseCronJob,
    answers={200: CronJobView},
    receipt=CronJobReceipt,
    errors=(404,),
    keyed=True,
)
async def pause_cron_job(request: Request) -> ASGIResponse:
    context, ref = context_of(request), cron_ref_of(request)
    body = await read_body(request, OVERHEAD_BYTES)
    reason = decoded(body, PauseCronJob).reason
    check_note(reason, "/reason")

    async def act(change: PostgresTaskChange) -> Answer:
        await check_job_held(change, principal_of(request), ref)
        return _shown(200, await change.cron.pause(ref, reason), context)

    return await changed(request, body, act)


@Operation(
    "POST",
    "/{ref:str}/resume",
    name="resume_cron_job",
    role=Role.OPERATE,
    summary="Go on with the next fire",
    body=Nothing,
    answers={200: CronJobView},
    receipt=CronJobReceipt,
    errors=(404,),
    keyed=True,
)
async def resume_cron_job(request: Request) -> ASGIResponse:
    context, ref = context_of(request), cron_ref_of(request)
    body = await read_body(request, OVERHEAD_BYTES)
    decoded(body, Nothing)

    async def act(change: PostgresTaskChange) -> Answer:
        await check_job_held(change, principal_of(request), ref)
        return _shown(200, await change.cron.resume(ref), context)

    return await changed(request, body, act)


def _shown(status: int, job: CronJob, context: Context) -> Answer:
    return answer(status, job_view(job, context.clock.now()))


router = Router(
    "/api/v1/cron-jobs",
    route_handlers=[
        preview_cron_job,
        create_cron_job,
        list_cron_jobs,
        get_cron_job,
        put_cron_job,
        patch_cron_job,
        delete_cron_job,
        pause_cron_job,
        resume_cron_job,
        trigger_cron_job,
        backfill_cron_job,
        list_cron_runs,
    ],
)

"""`/cron-jobs`: declare, read, change, pause and remove recurring jobs."""

from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import (
    Context,
    Request,
    context_of,
    cron_ref_of,
    principal_of,
    tenant_of,
)
from gnomon.api.cron.previews import preview_cron_job
from gnomon.api.cron.runs import backfill_cron_job, list_cron_runs, trigger_cron_job
from gnomon.api.cron.schemas import (
    CronJobPage,
    CronJobQuery,
    CronJobReceipt,
    CronJobView,
    PauseCronJob,
    PutQuery,
    PutReceipt,
    PutResult,
)
from gnomon.api.cron.views import foreseen_view, job_view, put_view
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.cursors import cursor_of, cursor_view
from gnomon.api.http.requests.idempotency import Answer, answer, changed, changed_by, respond, shown
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import NoQuery, Nothing
from gnomon.cron.job import CronJob
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.work.cron import Put
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.cron import cron_jobs
from gnomon.usecases.cron.cron_requests import CreateCronJob, PatchCronJob, PutCronJob


@Operation(
    "POST",
    "/",
    name="create_cron_job",
    role=Role.SUBMIT,
    summary="Declare a recurring job",
    body=CreateCronJob,
    body_required=True,
    answers={201: CronJobView},
    receipt=CronJobReceipt,
    echoes=True,
    grows=True,
    keyed=True,
)
async def create_cron_job(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    body = await read_body(request, context.rules.max_payload_bytes + OVERHEAD_BYTES)
    asked = decoded(body, CreateCronJob)
    definition = await cron_jobs.accept(context.rules, by, asked, asked.name)

    async def act(change: PostgresTaskChange) -> Answer:
        return _shown(201, await cron_jobs.create(change, by, definition), context)

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
        tenant_of(request), asked.chosen(), cursor_of(asked.cursor), asked.limit
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
    summary="Create or replace the cron job of this name",
    query=PutQuery,
    body=PutCronJob,
    body_required=True,
    answers={200: PutResult, 201: PutResult},
    receipt=PutReceipt,
    grows=True,
    keyed=True,
)
async def put_cron_job(request: Request) -> ASGIResponse:
    context, by, name = context_of(request), principal_of(request), request.path_params["ref"]
    dry_run = queried(request, PutQuery).dry_run
    body = await read_body(request, context.rules.max_payload_bytes + OVERHEAD_BYTES)
    definition = await cron_jobs.accept(context.rules, by, decoded(body, PutCronJob), name)
    if dry_run:
        found = await cron_jobs.foresee_put(context.cron, context.rules, by, definition)
        foreseen = answer(200, foreseen_view(*found, context.clock.now()))
        return respond(shown(request, foreseen))

    async def act(change: PostgresTaskChange) -> Answer:
        found = await cron_jobs.put(change, by, definition)
        status = 201 if found.done is Put.CREATED else 200
        return answer(status, put_view(found, context.clock.now()))

    return await changed(request, body, act)


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
    context, by, ref = context_of(request), principal_of(request), cron_ref_of(request)
    body = await read_body(request, context.rules.max_payload_bytes + OVERHEAD_BYTES)
    asked = decoded(body, PatchCronJob)
    edit = cron_jobs.accept_patch(context.rules, by, asked)

    async def act(change: PostgresTaskChange) -> Answer:
        job = await cron_jobs.patch(change, context.rules, by, ref, asked, edit)
        return _shown(200, job, context)

    return await changed(request, body, act)


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
    by, ref = principal_of(request), cron_ref_of(request)

    async def act(change: PostgresTaskChange) -> Answer:
        await cron_jobs.delete(change, by, ref)
        return answer(204)

    return await changed(request, b"", act)


@Operation(
    "POST",
    "/{ref:str}/pause",
    name="pause_cron_job",
    role=Role.OPERATE,
    summary="Pause a cron job: start no more runs on schedule",
    body=PauseCronJob,
    answers={200: CronJobView},
    receipt=CronJobReceipt,
    errors=(404,),
    keyed=True,
)
async def pause_cron_job(request: Request) -> ASGIResponse:
    context, by, ref = context_of(request), principal_of(request), cron_ref_of(request)
    body = await read_body(request, OVERHEAD_BYTES)
    reason = decoded(body, PauseCronJob).reason

    async def act(change: PostgresTaskChange) -> Answer:
        return _shown(200, await cron_jobs.pause(change, by, ref, reason), context)

    return await changed(request, body, act)


@Operation(
    "POST",
    "/{ref:str}/resume",
    name="resume_cron_job",
    role=Role.OPERATE,
    summary="Resume a cron job with its next fire",
    body=Nothing,
    answers={200: CronJobView},
    receipt=CronJobReceipt,
    errors=(404,),
    keyed=True,
)
async def resume_cron_job(request: Request) -> ASGIResponse:
    context, by, ref = context_of(request), principal_of(request), cron_ref_of(request)

    async def act(change: PostgresTaskChange, _: Nothing) -> Answer:
        return _shown(200, await cron_jobs.resume(change, by, ref), context)

    return await changed_by(request, Nothing, act)


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

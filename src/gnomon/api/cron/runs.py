"""`/cron-jobs/{ref}`: run a job now, backfill it, list its runs."""

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, cron_ref_of, principal_of, tenant_of
from gnomon.api.cron.schemas import BackfillView, RunPage, RunQuery, RunView
from gnomon.api.cron.views import backfill_view, run_cursor_of, run_cursor_view, run_view
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import Answer, answer, changed, respond
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import Nothing
from gnomon.cron.zones import zone
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.cron import cron_jobs
from gnomon.usecases.cron.cron_requests import BackfillCronJob


@Operation(
    "POST",
    "/{ref:str}/trigger",
    name="trigger_cron_job",
    role=Role.SUBMIT,
    summary="Run a cron job now, whatever its schedule says",
    body=Nothing,
    answers={202: RunView},
    errors=(404,),
    grows=True,
    keyed=True,
)
async def trigger_cron_job(request: Request) -> ASGIResponse:
    rules, by, ref = context_of(request).rules, principal_of(request), cron_ref_of(request)
    body = await read_body(request, OVERHEAD_BYTES)
    decoded(body, Nothing)

    async def act(change: PostgresTaskChange) -> Answer:
        return answer(202, run_view(await cron_jobs.trigger(change, rules, by, ref)))

    return await changed(request, body, act)


@Operation(
    "POST",
    "/{ref:str}/backfill",
    name="backfill_cron_job",
    role=Role.OPERATE,
    summary="Run the fires of the past that have no run yet",
    body=BackfillCronJob,
    body_required=True,
    answers={200: BackfillView, 202: BackfillView},
    errors=(404,),
    grows=True,
    keyed=True,
)
async def backfill_cron_job(request: Request) -> ASGIResponse:
    context, by, ref = context_of(request), principal_of(request), cron_ref_of(request)
    body = await read_body(request, OVERHEAD_BYTES)
    asked = decoded(body, BackfillCronJob)
    between = cron_jobs.accept_backfill(context.rules, asked)

    async def act(change: PostgresTaskChange) -> Answer:
        job, found = await cron_jobs.backfill(change, context.rules, by, ref, asked, between)
        view = backfill_view(found, zone(job.definition.timezone), dry_run=asked.dry_run)
        return answer(200 if asked.dry_run else 202, view)

    if not asked.dry_run:
        return await changed(request, body, act)
    # A dry run uses up no Idempotency-Key: the backfill itself may have the same one.
    async with context.store.change(by.tenant_id) as change:
        return respond(await act(change))


@Operation(
    "GET",
    "/{ref:str}/runs",
    name="list_cron_runs",
    role=Role.READ,
    summary="List the runs of a cron job, latest fire first",
    query=RunQuery,
    answers={200: RunPage},
    errors=(404,),
)
async def list_cron_runs(request: Request) -> ASGIResponse:
    asked = queried(request, RunQuery)
    page = await context_of(request).cron.runs(
        tenant_of(request),
        cron_ref_of(request),
        asked.chosen(),
        run_cursor_of(asked.cursor),
        asked.limit,
    )
    runs = [run_view(run) for run in page.runs]
    return respond(answer(200, RunPage(runs, run_cursor_view(page.next_cursor))))

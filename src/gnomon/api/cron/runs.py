"""`/cron-jobs/{ref}`: run it now, run what it missed, see what it ran."""

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, cron_ref_of, principal_of, tenant_of
from gnomon.api.cron.schemas import BackfillCronJob, BackfillView, RunPage, RunQuery, RunView
from gnomon.api.cron.views import backfill_view, run_cursor_of, run_cursor_view, run_view
from gnomon.api.http.idempotency import Answer, answer, changed, respond
from gnomon.api.http.operation import Operation
from gnomon.api.http.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import Nothing
from gnomon.api.tasks.submissions import moment_of
from gnomon.cron.zones import zone
from gnomon.model.errors import InvalidTask
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.authorization import check_job_startable, locked


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
        await check_job_startable(change, rules, by, ref)
        return answer(202, run_view(await change.cron.trigger(ref)))

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
    context, ref, by = context_of(request), cron_ref_of(request), principal_of(request)
    body = await read_body(request, OVERHEAD_BYTES)
    asked = decoded(body, BackfillCronJob)
    first, last = moment_of(asked.first, "/from"), moment_of(asked.last, "/to")
    if last < first:
        raise InvalidTask("must not be earlier than from", "/to")
    if last > context.clock.now():
        raise InvalidTask("must not be in the future: what is still to come fires by itself", "/to")

    async def act(change: PostgresTaskChange) -> Answer:
        await check_job_startable(change, context.rules, by, ref)
        where = zone((await locked(change, ref)).definition.timezone)
        found = await change.cron.backfill(ref, first, last, asked.limit, dry_run=asked.dry_run)
        view = backfill_view(found, where, dry_run=asked.dry_run)
        return answer(200 if asked.dry_run else 202, view)

    if not asked.dry_run:
        return await changed(request, body, act)
    # A key is for what changes something: the same one may be used to carry this out.
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
        tenant_of(request), cron_ref_of(request), run_cursor_of(asked.cursor), asked.limit
    )
    runs = [run_view(run) for run in page.runs]
    return respond(answer(200, RunPage(runs, run_cursor_view(page.next_cursor))))

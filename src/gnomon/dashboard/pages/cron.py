"""Recurring jobs: all of them, and one with its next fires and last runs."""

from urllib.parse import quote, urlencode

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, cron_ref_of, principal_of, tenant_of
from gnomon.api.cron.schemas import PauseCronJob
from gnomon.api.cron.views import job_view, run_view
from gnomon.api.http.cursors import cursor_of, cursor_view
from gnomon.api.http.operation import PageRoute
from gnomon.api.http.reading import decoded, read_form
from gnomon.cron.job import schedule_of
from gnomon.dashboard.json_tree import shown_json
from gnomon.dashboard.pages.tasks import ROWS
from gnomon.dashboard.rendering import page, redirect
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.cron import CronFilter, CronRunFilter
from gnomon.usecases.cron import cron_jobs

FIRES = 8
RUNS = 30


@PageRoute("GET", "/cron", role=Role.READ)
async def show_jobs(request: Request) -> ASGIResponse:
    context, name = context_of(request), request.query_params.get("name", "").replace("\0", "")
    cursor = cursor_of(request.query_params.get("cursor") or None)
    chosen = CronFilter(name=name or None)
    found = await context.cron.list(tenant_of(request), chosen, cursor, ROWS)
    after, now = cursor_view(found.next_cursor), context.clock.now()
    return page(
        request,
        "cron_jobs.html",
        jobs=[job_view(job, now) for job in found.jobs],
        name=name,
        more=None if after is None else "/cron?" + urlencode({"name": name, "cursor": after}),
    )


@PageRoute("GET", "/cron/{ref:str}", role=Role.READ)
async def show_job(request: Request) -> ASGIResponse:
    context, tenant = context_of(request), tenant_of(request)
    job = await context.cron.get(tenant, cron_ref_of(request))
    runs = await context.cron.runs(tenant, str(job.id), CronRunFilter(), None, RUNS)
    now = context.clock.now()
    view = job_view(job, now)
    fires = []
    if view.next_fire_at is not None:
        fires = schedule_of(job.definition, str(job.id)).preview(now, FIRES)
    payload = job.definition.payload_template
    return page(
        request,
        "cron_job.html",
        job=view,
        fires=fires,
        runs=[run_view(run) for run in runs.runs],
        payload=None if payload is None else shown_json(bytes(payload)),
    )


@PageRoute("POST", "/cron/{ref:str}/pause", role=Role.OPERATE)
async def pause(request: Request) -> ASGIResponse:
    by, ref = principal_of(request), cron_ref_of(request)
    reason = (await read_form(request, OVERHEAD_BYTES)).get("reason", "").strip()
    asked = decoded(msgspec.json.encode({"reason": reason or None}), PauseCronJob)
    async with context_of(request).store.change(by.tenant_id) as change:
        await cron_jobs.pause(change, by, ref, asked.reason)
    return _back(ref, "pause")


@PageRoute("POST", "/cron/{ref:str}/resume", role=Role.OPERATE)
async def resume(request: Request) -> ASGIResponse:
    by, ref = principal_of(request), cron_ref_of(request)
    await read_form(request, OVERHEAD_BYTES)
    async with context_of(request).store.change(by.tenant_id) as change:
        await cron_jobs.resume(change, by, ref)
    return _back(ref, "resume")


@PageRoute("POST", "/cron/{ref:str}/trigger", role=Role.SUBMIT, grows=True)
async def trigger(request: Request) -> ASGIResponse:
    rules, by, ref = context_of(request).rules, principal_of(request), cron_ref_of(request)
    await read_form(request, OVERHEAD_BYTES)
    async with context_of(request).store.change(by.tenant_id) as change:
        await cron_jobs.trigger(change, rules, by, ref)
    return _back(ref, "trigger")


def _back(ref: str, done: str) -> ASGIResponse:
    return redirect(f"/cron/{quote(ref, safe='')}?done={done}")


ROUTES = (show_jobs, show_job, pause, resume, trigger)

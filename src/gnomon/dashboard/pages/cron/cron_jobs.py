"""Recurring jobs: all of them, one with its fires and runs, and what can be done with it."""

from urllib.parse import quote, urlencode

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, cron_ref_of, principal_of, tenant_of
from gnomon.api.cron.schemas import CronJobQuery, PauseCronJob, RunQuery, RunStatus
from gnomon.api.cron.views import job_view, run_cursor_of, run_cursor_view, run_view
from gnomon.api.http.answers.problems import described
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.cursors import cursor_of, cursor_view
from gnomon.api.http.requests.reading import decoded, read_form
from gnomon.cron.job import schedule_of
from gnomon.dashboard.drawing.week_calendar import week_of
from gnomon.dashboard.rendering import page, redirect
from gnomon.dashboard.text.job_words import job_summary, outlook
from gnomon.dashboard.text.json_tree import shown_json
from gnomon.model.errors import GnomonError, InvalidTask
from gnomon.model.job_errors import Overlapping
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.checks.validation import of_texts
from gnomon.usecases.cron import cron_jobs

JOBS = 50
FIRES = 8
STRIP = 30
RUNS = 50
_FILTERS = ("name", "tag", "paused", "source")


@PageRoute("GET", "/cron", role=Role.READ)
async def show_jobs(request: Request) -> ASGIResponse:
    given = {
        name: value
        for name in _FILTERS
        if (value := request.query_params.get(name, "").replace("\0", "").strip())
    }
    context, wrong, status = context_of(request), None, 200
    try:
        asked = of_texts(given, CronJobQuery)
        chosen, cursor = asked.chosen(), cursor_of(request.query_params.get("cursor") or None)
    except InvalidTask as error:
        wrong, status = f"{error.pointer.lstrip('/')} {error.detail}", 422
        chosen, cursor = CronJobQuery().chosen(), None
    now = context.clock.now()
    jobs, after = [], None
    if wrong is None:
        listed = await context.cron.list(tenant_of(request), chosen, cursor, JOBS, STRIP)
        after = cursor_view(listed.next_cursor)
        for job in listed.jobs:
            runs = [run_view(run) for run in job.history.runs]
            jobs.append((job_view(job, now), runs, outlook(runs)))
    return page(
        request,
        "cron_jobs.html",
        status,
        jobs=jobs,
        given=given,
        wrong=wrong,
        first=cursor is None,
        here="/cron?"
        + urlencode(given | ({} if cursor is None else {"cursor": cursor_view(cursor)})),
        more=None if after is None else "/cron?" + urlencode(given | {"cursor": after}),
    )


@PageRoute("GET", "/cron/{ref:str}", role=Role.READ)
async def show_job(request: Request) -> ASGIResponse:
    return await job_page(request, cron_ref_of(request))


async def job_page(
    request: Request, ref: str, error: GnomonError | None = None, reason: str = ""
) -> ASGIResponse:
    """One job, with what was wrong about an action, and what was typed for it."""
    context = context_of(request)
    job = await context.cron.get(tenant_of(request), ref, STRIP)
    now = context.clock.now()
    view = job_view(job, now)
    schedule = schedule_of(job.definition, str(job.id))
    payload = job.definition.payload_template
    runs = [run_view(run) for run in job.history.runs]
    return page(
        request,
        "cron_job.html",
        200 if error is None else described(error)[0].status,
        job=view,
        runs=runs,
        summary=job_summary(view, runs[0] if runs else None),
        outlook=outlook(runs),
        fires=schedule.preview(now, FIRES),
        week=week_of(schedule, now),
        target=view.target,
        payload=None if payload is None else shown_json(bytes(payload)),
        wrong=None if error is None else str(error),
        reason=reason,
        here=f"/cron/{job.id}",
    )


@PageRoute("GET", "/cron/{ref:str}/runs", role=Role.READ)
async def show_runs(request: Request) -> ASGIResponse:
    context, tenant = context_of(request), tenant_of(request)
    status = request.query_params.get("status", "")
    wanted = RunQuery(status=RunStatus(status) if status in list(RunStatus) else None).chosen()
    cursor = run_cursor_of(request.query_params.get("cursor") or None)
    job = await context.cron.get(tenant, cron_ref_of(request))
    found = await context.cron.runs(tenant, str(job.id), wanted, cursor, RUNS)
    after, here = run_cursor_view(found.next_cursor), f"/cron/{job.id}/runs"
    return page(
        request,
        "cron_runs.html",
        job=job_view(job, context.clock.now()),
        runs=[run_view(run) for run in found.runs],
        chosen=status,
        statuses=list(RunStatus),
        first=cursor is None,
        more=None if after is None else f"{here}?" + urlencode({"status": status, "cursor": after}),
    )


@PageRoute("POST", "/cron/{ref:str}/pause", role=Role.OPERATE)
async def pause(request: Request) -> ASGIResponse:
    by, ref = principal_of(request), cron_ref_of(request)
    reason = (await read_form(request, OVERHEAD_BYTES)).get("reason", "").strip()
    try:
        asked = decoded(msgspec.json.encode({"reason": reason or None}), PauseCronJob)
        async with context_of(request).store.change(by.tenant_id) as change:
            await cron_jobs.pause(change, by, ref, asked.reason)
    except InvalidTask as error:
        if not by.may(Role.READ):
            raise
        return await job_page(request, ref, error, reason)
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
    try:
        async with context_of(request).store.change(by.tenant_id) as change:
            await cron_jobs.trigger(change, rules, by, ref)
    except Overlapping as error:
        if not by.may(Role.READ):
            raise
        return await job_page(request, ref, error)
    return _back(ref, "trigger")


@PageRoute("POST", "/cron/{ref:str}/delete", role=Role.OPERATE)
async def delete(request: Request) -> ASGIResponse:
    by, ref = principal_of(request), cron_ref_of(request)
    await read_form(request, OVERHEAD_BYTES)
    async with context_of(request).store.change(by.tenant_id) as change:
        await cron_jobs.delete(change, by, ref)
    return redirect("/cron?done=job_deleted")


def _back(ref: str, done: str) -> ASGIResponse:
    return redirect(f"/cron/{quote(ref, safe='')}?done={done}")


ROUTES = (show_jobs, show_job, show_runs, pause, resume, trigger, delete)

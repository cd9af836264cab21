"""Backfill: past fires without a run, counted first, and confirmed by their number."""

from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, cron_ref_of, principal_of
from gnomon.api.cron.views import job_view
from gnomon.api.http.answers.problems import described
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.reading import decoded, read_form
from gnomon.cron.job import CronJob
from gnomon.cron.zones import zone
from gnomon.dashboard.rendering import page, redirect
from gnomon.model.errors import GnomonError, InvalidTask, QuotaExceeded, RoleMissing
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.work.cron import Backfilled
from gnomon.usecases.checks.request_fields import MOST_BACKFILLED
from gnomon.usecases.cron import cron_jobs
from gnomon.usecases.cron.cron_requests import BackfillCronJob

SHOWN = 10  # of the fires at each end


class AnotherNumber(GnomonError):
    """The runs that were confirmed are not those that would be made now."""

    def __init__(self, confirmed: str, found: int) -> None:
        super().__init__(
            f"{confirmed} runs were confirmed, and it would be {found} now: some were made "
            "meanwhile, or the schedule was changed; look again, and confirm the new number"
        )


@PageRoute("GET", "/cron/{ref:str}/backfill", role=Role.OPERATE)
async def show_backfill(request: Request) -> ASGIResponse:
    form = {name: request.query_params.get(name, "").replace("\0", "") for name in ("from", "to")}
    job = await _job(request)
    if not any(form.values()):
        return _page(request, job, form)
    return await _counted(request, job, form)


@PageRoute("POST", "/cron/{ref:str}/backfill", role=Role.OPERATE, grows=True)
async def backfill(request: Request) -> ASGIResponse:
    form, job = await read_form(request, OVERHEAD_BYTES), await _job(request)
    context, by, ref = context_of(request), principal_of(request), str(job.id)
    try:
        asked = _asked(form, job, dry_run=False)
        between = cron_jobs.accept_backfill(context.rules, asked)
        async with context.store.change(by.tenant_id) as change:
            job, found = await cron_jobs.backfill(change, context.rules, by, ref, asked, between)
            _check_confirmed(form, job, found)
    except AnotherNumber as error:
        return await _counted(request, job, form, error)
    except (InvalidTask, QuotaExceeded) as error:
        return _page(request, job, form, error=error)
    return redirect(f"/cron/{quote(ref, safe='')}?done=backfill")


def _check_confirmed(form: dict[str, str], job: CronJob, found: Backfilled) -> None:
    """Raises AnotherNumber, by which the transaction ends without effect: also where as many other
    fires would run, by another schedule."""
    number = str(len(found.planned))
    confirmed = (form.get("expect"), form.get("definition_version"))
    if confirmed != (number, str(job.definition_version)):
        raise AnotherNumber(form.get("expect") or "no", len(found.planned))


async def _job(request: Request) -> CronJob:
    by = principal_of(request)
    if not by.may(Role.READ):
        raise RoleMissing(Role.READ, by.roles)
    return await context_of(request).cron.get(by.tenant_id, cron_ref_of(request))


async def _counted(
    request: Request, job: CronJob, form: dict[str, str], error: GnomonError | None = None
) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    try:
        asked = _asked(form, job, dry_run=True)
        between = cron_jobs.accept_backfill(context.rules, asked)
        async with context.store.change(by.tenant_id) as change:
            ref = str(job.id)
            _, found = await cron_jobs.backfill(change, context.rules, by, ref, asked, between)
    except InvalidTask as refused:
        return _page(request, job, form, error=refused)
    return _page(request, job, form, found, error)


def _asked(form: dict[str, str], job: CronJob, *, dry_run: bool) -> BackfillCronJob:
    """The range, read by the clocks of the job's zone: of a time that comes twice, the first as its
    beginning and the second as its end. Raises InvalidTask."""
    where = zone(job.definition.timezone)
    body: dict[str, Any] = {"dry_run": dry_run, "limit": MOST_BACKFILLED}
    for fold, name in enumerate(("from", "to")):
        try:
            found = datetime.fromisoformat(form.get(name, ""))
        except ValueError as error:
            raise InvalidTask("must be a time, as 2030-01-31T12:00", f"/{name}") from error
        here = found if found.tzinfo else found.replace(tzinfo=where, fold=fold)
        try:
            body[name] = here.isoformat()
        except OverflowError as error:
            raise InvalidTask("must be a time of this age", f"/{name}") from error
    return decoded(msgspec.json.encode(body), BackfillCronJob)


def _page(
    request: Request,
    job: CronJob,
    form: dict[str, str],
    found: Backfilled | None = None,
    error: GnomonError | None = None,
) -> ASGIResponse:
    where = zone(job.definition.timezone)
    wrong: dict[str, str] = {}
    if isinstance(error, InvalidTask):
        place = error.pointer.lstrip("/")
        wrong[place if place in ("from", "to") else ""] = error.detail
    elif error is not None:
        wrong[""] = str(error)
    planned = [] if found is None else [(fire, fire.astimezone(where)) for fire in found.planned]
    status = 409 if isinstance(error, AnotherNumber) else 200
    if error is not None and status == 200:
        status = described(error)[0].status
    return page(
        request,
        "cron_backfill.html",
        status,
        job=job_view(job, context_of(request).clock.now()),
        form=form,
        counted=found is not None,
        number=len(planned),
        existing=0 if found is None else len(found.existing),
        begin=planned[:SHOWN],
        end=planned[max(SHOWN, len(planned) - SHOWN) :],
        wrong=wrong,
    )


ROUTES = (show_backfill, backfill)

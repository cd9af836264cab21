"""The editor of recurring jobs: a new one, or one that is there, with a preview of its fires."""

from typing import Any

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Principal, Role
from gnomon.api.context import Request, context_of, cron_ref_of, principal_of
from gnomon.api.cron.schemas import CronJobView
from gnomon.api.cron.views import job_view
from gnomon.api.http.answers.problems import described
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.reading import decoded, read_form
from gnomon.cron.dst import Fold, Gap
from gnomon.cron.job import Missed, Overlap
from gnomon.cron.zones import names
from gnomon.dashboard.drawing.week_calendar import week_of
from gnomon.dashboard.forms.job_form import (
    BLANK,
    Form,
    changes_of,
    form_of,
    request_of,
    schedule_request,
)
from gnomon.dashboard.rendering import page, redirect
from gnomon.model.errors import GnomonError, InvalidTask, QuotaExceeded, RoleMissing
from gnomon.model.job_errors import DefinitionChanged, NameTaken
from gnomon.model.tasks.priority import Priority
from gnomon.model.tasks.retry import Backoff
from gnomon.model.tasks.task import DeliveryMode, KeepPayload
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.cron import cron_jobs, cron_preview
from gnomon.usecases.cron.cron_requests import CreateCronJob, PatchCronJob

# A form is percent-encoded: three characters for a byte.
_ENCODED = 3
_CHOICES = {
    "overlap_policy": list(Overlap),
    "missed_run_policy": list(Missed),
    "gap": list(Gap),
    "fold": list(Fold),
    "priority": list(Priority),
    "delivery": list(DeliveryMode),
    "keep_payload": list(KeepPayload),
    "backoff": list(Backoff),
    "callback_method": ["POST", "PUT", "PATCH", "GET", "DELETE"],
}
# Where an error of the API belongs, if there is no field of its name.
_PLACES = {"dst": "gap", "retry_policy": "max_retries"}
_FIELDS = {
    "name", "task_type", "timezone", "cron_expression", "interval_seconds", "interval_from", "gap",
    "fold", "start_date", "end_date", "max_runs", "overlap_policy", "missed_run_policy",
    "missed_after_seconds", "backfill_limit", "backfill_window_seconds", "jitter_seconds",
    "sla_seconds", "warn_after_seconds", "callback_url", "callback_method", "target",
    "payload_template", "priority", "delivery", "timeout_seconds", "tags", "queue",
    "max_retries", "backoff", "base_seconds", "max_seconds", "keep_payload", "preemptible",
}  # fmt: skip


@PageRoute("GET", "/cron/preview", role=Role.READ)
async def preview(request: Request) -> ASGIResponse:
    """The preview alone, for the script of the editor."""
    form = {name: value.replace("\0", "") for name, value in request.query_params.items()}
    found, errors = await _previewed(request, form, form.get("job") or None)
    return page(request, "cron_preview.html", preview=found, errors=errors)


@PageRoute("GET", "/cron/new", role=Role.SUBMIT)
async def show_new(request: Request) -> ASGIResponse:
    _reader(request)
    return await _editor(request, BLANK, None)


@PageRoute("POST", "/cron/new", role=Role.SUBMIT, grows=True)
async def create(request: Request) -> ASGIResponse:
    context, by = context_of(request), _reader(request)
    form = await _read(request)
    if form.get("action") == "preview":
        return await _editor(request, form, None)
    try:
        asked = decoded(msgspec.json.encode(request_of(form)), CreateCronJob)
        definition = await cron_jobs.accept(context.rules, by, asked, asked.name)
        async with context.store.change(by.tenant_id) as change:
            job = await cron_jobs.create(change, by, definition)
    except (InvalidTask, NameTaken, QuotaExceeded) as error:
        return await _editor(request, form, None, error)
    return redirect(f"/cron/{job.id}?done=job_created")


@PageRoute("GET", "/cron/{ref:str}/edit", role=Role.SUBMIT)
async def show_edit(request: Request) -> ASGIResponse:
    job = await _stored(request)
    form = {**form_of(job), "definition_version": str(job.definition_version)}
    return await _editor(request, form, job)


@PageRoute("POST", "/cron/{ref:str}/edit", role=Role.SUBMIT, grows=True)
async def edit(request: Request) -> ASGIResponse:
    context, by, job = context_of(request), principal_of(request), await _stored(request)
    form = await _read(request)
    if form.get("action") == "preview":
        return await _editor(request, form, job)
    try:
        changes = changes_of(form, job) | {"definition_version": _seen(form)}
        asked = decoded(msgspec.json.encode(changes), PatchCronJob)
        accepted = cron_jobs.accept_patch(context.rules, by, asked)
        async with context.store.change(by.tenant_id) as change:
            ref = str(job.cron_job_id)
            await cron_jobs.patch(change, context.rules, by, ref, asked, accepted)
    except DefinitionChanged as error:
        # Once more: it may have been changed after it was read here.
        return await _editor(request, form, await _stored(request), error)
    except (InvalidTask, NameTaken, QuotaExceeded) as error:
        return await _editor(request, form, job, error)
    return redirect(f"/cron/{job.cron_job_id}?done=job_changed")


def _reader(request: Request) -> Principal:
    """Who may submit does not have to be one who may read; the editor shows what is stored."""
    by = principal_of(request)
    if not by.may(Role.READ):
        raise RoleMissing(Role.READ, by.roles)
    return by


async def _stored(request: Request) -> CronJobView:
    context, by = context_of(request), _reader(request)
    return job_view(await context.cron.get(by.tenant_id, cron_ref_of(request)), context.clock.now())


async def _read(request: Request) -> dict[str, str]:
    """The form; browsers send its lines with both characters."""
    most = context_of(request).rules.max_payload_bytes + OVERHEAD_BYTES
    form = await read_form(request, most * _ENCODED)
    return {name: value.replace("\r\n", "\n") for name, value in form.items()}


def _seen(form: Form) -> int:
    text = form.get("definition_version", "")
    if not text.isdecimal() or len(text) > 18:
        raise InvalidTask("the form does not say which definition it was made from; open it again")
    return max(int(text), 1)


async def _previewed(
    request: Request, form: Form, job_id: str | None
) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """The fires of the schedule, or what is wrong with it, by field."""
    clock = context_of(request).clock
    try:
        found = await cron_preview.preview(clock, schedule_request(form, job_id))
    except InvalidTask as error:
        return None, _errors(error)
    shown = {
        "description": found.schedule.describe(),
        "timezone": found.schedule.timezone,
        "fires": found.fires,
        "warnings": found.warnings,
        "week": week_of(found.schedule, clock.now()),
    }
    return shown, {}


async def _editor(
    request: Request, form: Form, job: CronJobView | None, error: GnomonError | None = None
) -> ASGIResponse:
    found, errors = await _previewed(request, form, None if job is None else str(job.cron_job_id))
    errors |= {} if error is None else _errors(error)
    changed = isinstance(error, DefinitionChanged) and job is not None
    return page(
        request,
        "cron_editor.html",
        200 if error is None else described(error)[0].status,
        form=form,
        job=job,
        preview=found,
        errors=errors,
        refused=error is not None,
        differences=_differences(form, job) if changed and job is not None else None,
        version=_version(form, job, newest=changed),
        choices=_CHOICES,
        zones=sorted(names()),
        action="/cron/new" if job is None else f"/cron/{job.cron_job_id}/edit",
    )


def _version(form: Form, job: CronJobView | None, *, newest: bool) -> str:
    """The definition that the form was made from; once its reader was shown the newest, that."""
    if newest and job is not None:
        return str(job.definition_version)
    return form.get("definition_version", "")


def _differences(form: Form, job: CronJobView) -> list[tuple[str, str, str]]:
    """Field by field, what is stored now and what was typed."""
    stored = form_of(job)
    return [
        (name, stored.get(name, ""), form.get(name, ""))
        for name in stored
        if stored.get(name, "") != form.get(name, "")
    ]


def _errors(error: GnomonError) -> dict[str, str]:
    """What is wrong, by the name of the field; '' is the form as a whole."""
    if isinstance(error, NameTaken):
        return {"name": f"there is a job named {error.name!r} already; choose another name"}
    if not isinstance(error, InvalidTask):
        return {"": str(error)}
    found: dict[str, str] = {}
    for pointer, detail in error.mistakes:
        first = pointer.split("/")[1] if pointer.startswith("/") else ""
        name = _PLACES.get(first, first)
        place = name if name in _FIELDS else ""
        deeper = pointer.count("/") > 1 and place in ("payload_template", "target", "tags")
        found.setdefault(
            place, f"{pointer} {detail}" if deeper or (first and not place) else detail
        )
    return found


ROUTES = (preview, show_new, create, show_edit, edit)

"""The form that submits a task, or another one like a task that is there."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Principal, Role
from gnomon.api.context import Request, context_of, principal_of
from gnomon.api.http.answers.problems import described
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.idempotency import answer, kept, once_of, replayed
from gnomon.api.http.requests.origins import requested_origin
from gnomon.api.http.requests.reading import decoded, read_form
from gnomon.api.tasks.schemas import TaskReceipt
from gnomon.api.tasks.tasks import PATH
from gnomon.api.tasks.views import NULL, new_view
from gnomon.clock import new_id
from gnomon.dashboard.forms import task_form
from gnomon.dashboard.forms.local_time import zone_names
from gnomon.dashboard.forms.schema_example import example_of
from gnomon.dashboard.rendering import page, redirect
from gnomon.model.errors import (
    GnomonError,
    IdempotencyConflict,
    InvalidTask,
    RoleMissing,
    TaskNotFound,
)
from gnomon.model.fleet.room import DatabaseFull
from gnomon.model.tasks.task import TaskKey
from gnomon.model.tasks.type_defaults import BUILT_IN, TypeDefaults
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.work.tasks import NewTask
from gnomon.usecases.tasks.submit import AnsweredBefore, accept
from gnomon.usecases.tasks.task_requests import SubmitTask

MOST_SUGGESTED = 500  # task types
MOST_SCHEMA_SHOWN = 20_000  # characters
_ENCODED = 3  # bytes of a form for one of a payload, at the most
_AGAIN = (
    "This form has made a task already, with other values. Submit it once more to make another "
    "one with these."
)


@PageRoute("GET", "/tasks/new", role=Role.SUBMIT)
async def show_form(request: Request) -> ASGIResponse:
    form = task_form.prefilled(request.query_params)
    if form["from"]:
        form = await _like(request, form["from"])
    return await _form(request, form)


@PageRoute("POST", "/tasks/new", role=Role.SUBMIT)
async def submit_form(request: Request) -> ASGIResponse:
    context = context_of(request)
    most = _ENCODED * context.rules.max_payload_bytes + OVERHEAD_BYTES
    typed = await read_form(request, most)
    form = task_form.filled(typed)
    if typed.get("step") == "type":  # only to see what there is to know of the type
        return await _form(request, form)
    try:
        if context.directory.is_full():  # not before the form is read: it would be lost
            raise DatabaseFull
        task_id = await _submitted(request, form)
    except IdempotencyConflict as error:
        if form["idempotency_key"]:
            return await _form(request, form, 422, {"idempotency_key": [str(error)]})
        return await _form(request, form | {"form_key": ""}, 409, {"": [_AGAIN]})
    except GnomonError as error:
        status = described(error)[0].status
        return await _form(request, form, status, _wrong(error))
    if not principal_of(request).may(Role.READ):
        return await _form(request, dict(task_form.BLANK), made=task_id)
    return redirect(f"/tasks/{task_id}?done=submit")


async def _submitted(request: Request, form: task_form.Form) -> UUID:
    """The id of the task; the same for the same form, however often it is sent."""
    context, by = context_of(request), principal_of(request)
    body = task_form.body_of(form)
    asked = decoded(body, SubmitTask)
    assert asked.idempotency_key is not None, "every form has one"
    once = once_of(asked.idempotency_key, "POST", PATH, body)
    now = context.clock.now()
    submission = await accept(
        context.store, context.rules, by, asked, now, once, requested_origin(request)
    )
    if isinstance(submission, AnsweredBefore):
        return _made_before(submission.answer)
    view = new_view(submission, now, context.handlers.warnings(submission))
    bare = answer(202, msgspec.structs.replace(view, payload=NULL))
    receipt = await context.batcher.submit(NewTask(submission, once, kept(bare)))
    return receipt.task_id if receipt.replay is None else _made_before(receipt.replay)


def _made_before(text: bytes) -> UUID:
    return msgspec.json.decode(replayed(text).body, type=TaskReceipt).task_id


def _wrong(error: GnomonError) -> dict[str, list[str]]:
    """What is wrong, by the field that it is about; "" for the whole form."""
    if not isinstance(error, InvalidTask):
        return {"": [described(error)[0].detail]}
    found: dict[str, list[str]] = {}
    for pointer, detail in error.mistakes:
        field = task_form.field_of(pointer)
        within = pointer.removeprefix("/payload") if field == "payload" else ""
        at = f"at {within}: " if within else "" if field else f"{pointer.strip('/')} "
        found.setdefault(field, []).append(at + detail)
    return found


async def _like(request: Request, text: str) -> dict[str, str]:
    """The form for another task like this one. Raises TaskNotFound, RoleMissing."""
    by = principal_of(request)
    if not by.may(Role.READ):
        raise RoleMissing(Role.READ, by.roles)
    try:
        task_id = UUID(text)
    except ValueError as error:
        raise TaskNotFound(text) from error
    task = await context_of(request).store.get(TaskKey(by.tenant_id, task_id))
    return task_form.of_task(task) | {"kept": "" if task.payload_kept else "no"}


async def _form(
    request: Request,
    form: dict[str, str],
    status: int = 200,
    wrong: Mapping[str, list[str]] | None = None,
    made: UUID | None = None,
) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    tenant_id, task_type = by.tenant_id, form["task_type"].strip()
    reads = by.may(Role.READ)
    schema = context.directory.schema(tenant_id, task_type) if reads else None
    defaults = context.directory.defaults(tenant_id, task_type) if reads else BUILT_IN
    example = None if schema is None else example_of(schema)
    if example is not None and not form["payload"].strip() and not wrong:
        form = form | {"payload": example}
    fragment = request.query_params.get("fragment") == "1"
    return page(
        request,
        "submit_type.html" if fragment else "submit.html",
        status,
        form=form | {"form_key": form["form_key"] or f"form-{new_id(context.clock.now())}"},
        wrong=wrong or {},
        made=made,
        schema=None if schema is None else _shown_schema(schema),
        example=example,
        defaults=_defaults_in_words(defaults),
        handled=_handled(request, task_type),
        types=await _known_types(request, by),
        zones=zone_names(),
        units=task_form.UNITS,
        folded=task_form.folded(form, wrong or {}),
        most_bytes=context.rules.max_payload_bytes,
    )


async def _known_types(request: Request, by: Principal) -> list[str]:
    """Types to complete: those with a live handler, and those that have an entry."""
    context = context_of(request)
    known: set[str] = set(context.handlers.handled(by.tenant_id) or ())
    if by.may(Role.READ):
        known |= {each.name for each in await context.task_types.list(by.tenant_id)}
    if by.task_types is not None:
        known &= by.task_types
    return sorted(known)[:MOST_SUGGESTED]


def _handled(request: Request, task_type: str) -> bool:
    """Whether the type may have a live handler; True where nobody knows."""
    handled = context_of(request).handlers.handled(principal_of(request).tenant_id)
    return not task_type or handled is None or task_type in handled


def _shown_schema(schema: bytes) -> str:
    text = schema.decode("utf-8", "replace")
    cut = len(text) > MOST_SCHEMA_SHOWN
    return text[:MOST_SCHEMA_SHOWN] + ("…" if cut else "")


def _defaults_in_words(defaults: TypeDefaults) -> dict[str, str]:
    """What a field is where it is left out, by the name of the field."""
    policy = defaults.retry_policy_for(defaults.delivery)
    expires = defaults.expires_after_seconds
    found: dict[str, Any] = {
        "priority": defaults.priority.lower(),
        "delivery": defaults.delivery.replace("_", " "),
        "queue": defaults.queue or "none",
        "tags": _listed(defaults.tags),
        "timeout_seconds": f"{defaults.timeout_seconds:g}",
        "keep_payload": defaults.keep_payload,
        "preemptible": "yes" if defaults.preemptible else "no",
        "max_retries": policy.max_retries,
        "backoff": policy.backoff,
        "base_seconds": f"{policy.base_seconds:g}",
        "max_seconds": f"{policy.max_seconds:g}",
        "jitter": "yes" if policy.jitter else "no",
        "retry_client_errors": "yes" if policy.retry_client_errors else "no",
        "jitter_seconds": f"{defaults.jitter_seconds or 0:g}",
        "sla_seconds": _seconds_or_none(defaults.sla_seconds),
        "warn_after_seconds": _seconds_or_none(defaults.warn_after_seconds),
        "expires_at": "never" if expires is None else f"{expires:g} s after it is due",
    }
    return {name: str(value) for name, value in found.items()}


def _seconds_or_none(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds:g}"


def _listed(tags: Iterable[str]) -> str:
    return ", ".join(tags) or "none"


ROUTES = (show_form, submit_form)

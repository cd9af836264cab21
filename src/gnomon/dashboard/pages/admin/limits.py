"""Limits: how much of each is in use, what waits for it, and changing it. And open breakers, which
hold tasks up, too."""

from collections.abc import Mapping

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.admin.limiters import PutLimiter
from gnomon.api.context import Request, context_of, principal_of, tenant_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.reading import decoded, read_form
from gnomon.dashboard.forms.values import Refusal, line, number, refusal_of
from gnomon.dashboard.rendering import page, redirect
from gnomon.dashboard.text.words import span
from gnomon.limits.limiter import Limiter
from gnomon.model.errors import GnomonError
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.admin import breakers, limiters

_FIELDS = ("name", "concurrency", "rate", "per_seconds", "task_type", "queue", "key")
_EMPTY = dict.fromkeys(_FIELDS, "") | {"per_seconds": "1"}
_FINE = Refusal(200, {})


@PageRoute("GET", "/limits", role=Role.READ)
async def show_limits(request: Request) -> ASGIResponse:
    return await _all(request, _EMPTY, _FINE)


@PageRoute("GET", "/limits/{name:str}", role=Role.READ)
async def show_limit(request: Request) -> ASGIResponse:
    return await _one(request, None, _FINE)


@PageRoute("POST", "/limits", role=Role.ADMIN)
async def create(request: Request) -> ASGIResponse:
    """Creates a limit; one of this name is replaced on its own page only."""
    form = _EMPTY | await read_form(request, OVERHEAD_BYTES)
    try:
        name = form["name"].strip()
        await _put(request, name, form, new=True)
    except GnomonError as error:
        return await _all(request, form, refusal_of(error))
    return redirect(f"/limits/{name}?done=limit_created")


@PageRoute("POST", "/limits/{name:str}", role=Role.ADMIN)
async def change(request: Request) -> ASGIResponse:
    form = _EMPTY | await read_form(request, OVERHEAD_BYTES)
    name: str = request.path_params["name"]
    try:
        await _put(request, name, form, new=False)
    except GnomonError as error:
        return await _one(request, form, refusal_of(error))
    return redirect(f"/limits/{name}?done=limit_changed")


@PageRoute("POST", "/limits/{name:str}/delete", role=Role.ADMIN)
async def delete(request: Request) -> ASGIResponse:
    by, name = principal_of(request), request.path_params["name"]
    await read_form(request, OVERHEAD_BYTES)
    await limiters.delete(context_of(request).limiters, by, name)
    return redirect("/limits?done=limit_deleted")


async def _put(request: Request, name: str, form: Mapping[str, str], *, new: bool) -> None:
    context, by = context_of(request), principal_of(request)
    values = {
        "concurrency": number(form["concurrency"]),
        "rate": number(form["rate"]),
        "per_seconds": number(form["per_seconds"]) or 1.0,
        "task_type": line(form["task_type"]),
        "queue": line(form["queue"]),
        "key": line(form["key"]),
    }
    asked = decoded(msgspec.json.encode(values), PutLimiter)
    limiter = Limiter(tenant_id=by.tenant_id, name=name, **msgspec.structs.asdict(asked))
    if new:
        await limiters.check_free(context.limiters, by, name)
    else:
        await limiters.get(context.limiters, context.store, by, name)
    await limiters.put(context.limiters, by, limiter)


async def _all(request: Request, form: Mapping[str, str], refusal: Refusal) -> ASGIResponse:
    context, tenant = context_of(request), tenant_of(request)
    found = await limiters.list_with_keys(context.limiters, context.store, tenant)
    return page(
        request,
        "limits.html",
        refusal.status,
        limits=[(use, _scope(use.limiter)) for use in found],
        breakers=await breakers.list_open(context.store, tenant, context.clock.now()),
        form=form,
        reasons=refusal.reasons,
    )


async def _one(request: Request, form: Mapping[str, str] | None, refusal: Refusal) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    use = await limiters.get(context.limiters, context.store, by, request.path_params["name"])
    return page(
        request,
        "limit.html",
        refusal.status,
        use=use,
        sentence=sentence(use.limiter),
        form=_written(use.limiter) if form is None else form,
        reasons=refusal.reasons,
    )


def _written(limiter: Limiter) -> dict[str, str]:
    """The limit as its form has it."""
    values = {name: getattr(limiter, name) for name in _FIELDS}
    values["per_seconds"] = f"{limiter.per_seconds:g}"
    return {name: "" if value is None else str(value) for name, value in values.items()}


def sentence(limiter: Limiter) -> str:
    """What it says, in words."""
    parts = []
    if limiter.concurrency is not None:
        runs = "runs" if limiter.concurrency == 1 else "run"
        parts.append(f"at most {limiter.concurrency} {runs} at once")
    if limiter.rate is not None:
        parts.append(f"at most {limiter.rate} start in any {span(limiter.per_seconds)}")
    each = (
        ""
        if limiter.key is None
        else f", separately for each value of {limiter.key} in the payload"
    )
    return f"Of {_scope(limiter)}, {' and '.join(parts)}{each}."


def _scope(limiter: Limiter) -> str:
    parts = []
    if limiter.task_type is not None:
        parts.append(f"type {limiter.task_type}")
    if limiter.queue is not None:
        parts.append(f"queue {limiter.queue}")
    return f"tasks of {' in '.join(parts)}" if parts else "all tasks"


ROUTES = (show_limits, show_limit, create, change, delete)

"""Task types with a payload schema or defaults: all of them, and one to be changed."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.admin.task_types import PutTaskType, defaults_of
from gnomon.api.context import Request, context_of, principal_of, tenant_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.reading import decoded, read_form
from gnomon.dashboard.forms.values import Refusal, refusal_of
from gnomon.dashboard.rendering import page, redirect
from gnomon.dashboard.text.json_tree import shown_json
from gnomon.model.errors import GnomonError, InvalidTask
from gnomon.payload_schemas.schema import MOST_BYTES
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.work.task_types import ANY_PAYLOAD, TaskType
from gnomon.usecases.admin import task_types

_EMPTY = {"name": "", "schema": "", "defaults": ""}
_FINE = Refusal(200, {})
# A form doubles or triples what is not a letter or digit.
_MOST_FORM_BYTES = 3 * MOST_BYTES + OVERHEAD_BYTES


@PageRoute("GET", "/task-types", role=Role.READ)
async def show_task_types(request: Request) -> ASGIResponse:
    return await _all(request, _EMPTY, _FINE)


@PageRoute("GET", "/task-types/{name:str}", role=Role.READ)
async def show_task_type(request: Request) -> ASGIResponse:
    return await _one(request, None, _FINE)


@PageRoute("POST", "/task-types", role=Role.ADMIN, grows=True)
async def create(request: Request) -> ASGIResponse:
    form = _EMPTY | await read_form(request, _MOST_FORM_BYTES)
    name = form["name"].strip()
    try:
        if not name:
            raise InvalidTask("must be the name of a type", "/name")
        await _put(request, name, form)
    except GnomonError as error:
        return await _all(request, form, refusal_of(error))
    return redirect(f"/task-types/{quote(name, safe='')}?done=type_changed")


@PageRoute("POST", "/task-types/{name:str}", role=Role.ADMIN, grows=True)
async def change(request: Request) -> ASGIResponse:
    form = _EMPTY | await read_form(request, _MOST_FORM_BYTES)
    name: str = request.path_params["name"]
    await task_types.get(context_of(request).task_types, principal_of(request), name)
    try:
        await _put(request, name, form)
    except GnomonError as error:
        return await _one(request, form, refusal_of(error))
    return redirect(f"/task-types/{quote(name, safe='')}?done=type_changed")


@PageRoute("POST", "/task-types/{name:str}/delete", role=Role.ADMIN)
async def delete(request: Request) -> ASGIResponse:
    by, name = principal_of(request), request.path_params["name"]
    await read_form(request, OVERHEAD_BYTES)
    await task_types.delete(context_of(request).task_types, by, name)
    return redirect("/task-types?done=type_deleted")


async def _put(request: Request, name: str, form: Mapping[str, str]) -> None:
    context, by = context_of(request), principal_of(request)
    values = {
        "schema": _json(form["schema"], ANY_PAYLOAD, "/schema"),
        "defaults": _json(form["defaults"], b"{}", "/defaults"),
    }
    asked = decoded(msgspec.json.encode(values), PutTaskType)
    schema = ANY_PAYLOAD if asked.schema is msgspec.UNSET else bytes(asked.schema)
    await task_types.put(context.task_types, by, name, schema, asked.defaults)
    await context.directory.look_again()  # for the requests that follow this one here


def _json(text: str, otherwise: bytes, pointer: str) -> msgspec.Raw:
    """Raises InvalidTask, with the place."""
    content = text.strip().encode("utf-8", "replace") or otherwise
    try:
        msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidTask(f"is not JSON: {error}", pointer) from error
    return msgspec.Raw(content)


async def _all(request: Request, form: Mapping[str, str], refusal: Refusal) -> ASGIResponse:
    found = await context_of(request).task_types.list(tenant_of(request))
    return page(
        request,
        "task_types.html",
        refusal.status,
        types=[(each, _written(each.defaults)) for each in found],
        form=form,
        reasons=refusal.reasons,
    )


async def _one(request: Request, form: Mapping[str, str] | None, refusal: Refusal) -> ASGIResponse:
    by, name = principal_of(request), request.path_params["name"]
    found = await task_types.get(context_of(request).task_types, by, name)
    return page(
        request,
        "task_type.html",
        refusal.status,
        type=found,
        any_payload=found.schema == ANY_PAYLOAD,
        schema=shown_json(found.schema),
        defaults=_written(found.defaults),
        form=_typed(found) if form is None else form,
        reasons=refusal.reasons,
    )


def _typed(found: TaskType) -> dict[str, str]:
    schema = "" if found.schema == ANY_PAYLOAD else found.schema.decode("utf-8", "replace")
    defaults = msgspec.json.encode(defaults_of(found.defaults))
    shown = "" if defaults == b"{}" else msgspec.json.format(defaults, indent=2).decode()
    return {"schema": schema, "defaults": shown}


def _written(defaults: bytes | str | None) -> list[tuple[str, str]]:
    """Defaults by name, each as JSON."""
    values: dict[str, Any] = msgspec.to_builtins(defaults_of(defaults))
    return [(name, msgspec.json.encode(value).decode()) for name, value in values.items()]


ROUTES = (show_task_types, show_task_type, create, change, delete)

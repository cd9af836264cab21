"""Webhook secrets: which sign the calls of the tenant, for its administrators."""

from collections.abc import Mapping
from datetime import datetime

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.access.webhook_secret import Scheme, WebhookSecret
from gnomon.api.admin.webhook_secrets import (
    CreateWebhookSecret,
    RotateWebhookSecret,
    secret_id_of,
)
from gnomon.api.context import Request, context_of, principal_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.reading import decoded, read_form
from gnomon.dashboard.forms.values import Refusal, line, number, refusal_of
from gnomon.dashboard.rendering import page, redirect
from gnomon.model.errors import GnomonError
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.tenancy.secrets import ShownSecret
from gnomon.usecases.admin import webhook_secrets
from gnomon.usecases.admin.webhook_secrets import WantedSecret

_PATH = "/webhook-secrets"
_TITLE = "Webhook secrets"
_EMPTY = {"host": "", "scheme": str(Scheme.V1), "secret": "", "overlap_hours": "24"}
_FINE = Refusal(200, {})


@PageRoute("GET", _PATH, role=Role.ADMIN)
async def show_secrets(request: Request) -> ASGIResponse:
    if context_of(request).authenticator is None:
        return page(request, "keys_off.html", title=_TITLE)
    return await _list(request, _EMPTY, _FINE)


@PageRoute("POST", _PATH, role=Role.ADMIN, needs_authentication=True)
async def create(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    form = _EMPTY | await read_form(request, OVERHEAD_BYTES)
    values = {
        "host": line(form["host"]),
        "scheme": form["scheme"],
        "secret": line(form["secret"]),
    } | _overlap(form)
    try:
        asked = decoded(msgspec.json.encode(values), CreateWebhookSecret)
        wanted = WantedSecret(
            host=asked.host,
            scheme=asked.scheme,
            value=asked.secret,
            overlap_seconds=asked.overlap_seconds,
        )
        made = await webhook_secrets.create(context.secrets, context.clock, by, wanted)
    except GnomonError as error:
        # A secret that was typed is not written into a page.
        return await _list(request, form | {"secret": ""}, refusal_of(error))
    return _shown(request, made, 201)


@PageRoute("POST", f"{_PATH}/{{secret_id:str}}/show", role=Role.ADMIN, needs_authentication=True)
async def show_secret(request: Request) -> ASGIResponse:
    """By a form: an address that shows a secret would be opened by mistake."""
    context, by, secret_id = context_of(request), principal_of(request), secret_id_of(request)
    await read_form(request, OVERHEAD_BYTES)
    return _shown(request, await webhook_secrets.show(context.secrets, by, secret_id), 200)


@PageRoute("POST", f"{_PATH}/{{secret_id:str}}/rotate", role=Role.ADMIN, needs_authentication=True)
async def rotate(request: Request) -> ASGIResponse:
    context, by, secret_id = context_of(request), principal_of(request), secret_id_of(request)
    form = await read_form(request, OVERHEAD_BYTES)
    asked = decoded(msgspec.json.encode(_overlap(form)), RotateWebhookSecret)
    made = await webhook_secrets.rotate(
        context.secrets, context.clock, by, secret_id, None, asked.overlap_seconds
    )
    return _shown(request, made, 201)


@PageRoute("POST", f"{_PATH}/{{secret_id:str}}/revoke", role=Role.ADMIN, needs_authentication=True)
async def revoke(request: Request) -> ASGIResponse:
    context, by, secret_id = context_of(request), principal_of(request), secret_id_of(request)
    await read_form(request, OVERHEAD_BYTES)
    await webhook_secrets.revoke(context.secrets, by, secret_id)
    return redirect(f"{_PATH}?done=secret_revoked")


def _overlap(form: Mapping[str, str]) -> dict[str, float | str]:
    hours = number(form.get("overlap_hours", ""))
    if hours is None:
        return {}
    return {"overlap_seconds": hours if isinstance(hours, str) else hours * 3600}


async def _list(request: Request, form: Mapping[str, str], refusal: Refusal) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    found = await webhook_secrets.list_all(context.secrets, by)
    now = context.clock.now()
    return page(
        request,
        "webhook_secrets.html",
        refusal.status,
        secrets=[(each, _is_live(each, now)) for each in found],
        schemes=[(str(Scheme.V1), "v1: a shared secret"), (str(Scheme.V1A), "v1a: a key pair")],
        form=form,
        reasons=refusal.reasons,
    )


def _is_live(secret: WebhookSecret, now: datetime) -> bool:
    ended = secret.expires_at is not None and secret.expires_at <= now
    return secret.revoked_at is None and not ended


def _shown(request: Request, secret: ShownSecret, status: int) -> ASGIResponse:
    of = secret.known.host or "all hosts without one of their own"
    return page(
        request,
        "secret_made.html",
        status,
        back=_PATH,
        back_title=_TITLE,
        title=f"The secret of {of}",
        secret=secret.value or secret.known.public_key,
        ends=secret.known.expires_at,
        note="Receivers check the signature of each call with it."
        if secret.value
        else "The public key, which receivers check signatures with. The private one never leaves.",
    )


ROUTES = (show_secrets, create, show_secret, rotate, revoke)

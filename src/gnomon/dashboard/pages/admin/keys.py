"""API keys: of a tenant for its administrators, of operators for operators.

A new key is in the answer to the form that made it, which no cache may keep, and nowhere else.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from gnomon.access.api_key import ApiKey
from gnomon.access.principal import Operator, Requester, Role
from gnomon.api.admin.key_documents import (
    CreateKey,
    CreateOperatorKey,
    RotateKey,
    key_id_of,
    wanted_key,
    wanted_operator_key,
)
from gnomon.api.context import Request, context_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.cursors import cursor_of, cursor_view
from gnomon.api.http.requests.reading import decoded, read_form
from gnomon.dashboard.forms.values import Refusal, lines, number, refusal_of
from gnomon.dashboard.pages.tasks.tasks import ROWS
from gnomon.dashboard.rendering import page, redirect
from gnomon.model.errors import GnomonError
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.admin import keys
from gnomon.usecases.admin.keys import CreatedKey, WantedKey

_ROLES = {
    Role.READ: "see everything",
    Role.SUBMIT: "create tasks and recurring jobs",
    Role.OPERATE: "change what exists: cancel, pause, retry, resolve",
    Role.WORK: "run tasks, as a remote worker",
    Role.ADMIN: "all of these, and keys, limits, task types and usage",
}
_FIELDS = ("name", "task_types", "queues", "functions", "hosts", "expires_at")
_EMPTY = dict.fromkeys((*_FIELDS, *(f"role_{role}" for role in _ROLES)), "")
_FINE = Refusal(200, {})
_ONLY_NOW = "Keep it where secrets are kept: only its hash is stored, so it is never shown again."


class KeyPages(msgspec.Struct, frozen=True):
    """The pages of one kind of keys."""

    path: str
    role: Role
    title: str

    def routes(self) -> tuple[HTTPRouteHandler, ...]:
        """Its list, and what can be done on it."""

        @PageRoute("GET", self.path, role=self.role)
        async def show(request: Request) -> ASGIResponse:
            if context_of(request).authenticator is None:
                return page(request, "keys_off.html", title=self.title)
            return await self._list(request, _EMPTY, _FINE)

        @PageRoute("POST", self.path, role=self.role, needs_authentication=True)
        async def create(request: Request) -> ASGIResponse:
            context, by = context_of(request), _requester(request)
            form = _EMPTY | await read_form(request, OVERHEAD_BYTES)
            try:
                made = await keys.create(context.keys, context.clock, by, _wanted(by, form))
            except GnomonError as error:
                return await self._list(request, form, refusal_of(error))
            return self._made(request, made)

        @PageRoute(
            "POST", f"{self.path}/{{key_id:str}}/rotate", role=self.role, needs_authentication=True
        )
        async def rotate(request: Request) -> ASGIResponse:
            context, by, key_id = context_of(request), _requester(request), key_id_of(request)
            form = await read_form(request, OVERHEAD_BYTES)
            hours = number(form.get("overlap_hours", ""))
            seconds = hours * 3600 if isinstance(hours, int | float) else hours
            values = {} if seconds is None else {"overlap_seconds": seconds}
            asked = decoded(msgspec.json.encode(values), RotateKey)
            made = await keys.rotate(context.keys, context.clock, by, key_id, asked.overlap_seconds)
            return self._made(request, made)

        @PageRoute(
            "POST", f"{self.path}/{{key_id:str}}/revoke", role=self.role, needs_authentication=True
        )
        async def revoke(request: Request) -> ASGIResponse:
            by, key_id = _requester(request), key_id_of(request)
            form = await read_form(request, OVERHEAD_BYTES)
            cascade = form.get("cascade") == "yes"
            await keys.revoke(context_of(request).keys, by, key_id, cascade=cascade)
            return redirect(f"{self.path}?done=key_revoked")

        return show, create, rotate, revoke

    async def _list(
        self, request: Request, form: Mapping[str, str], refusal: Refusal
    ) -> ASGIResponse:
        context, by = context_of(request), _requester(request)
        cursor = cursor_of(request.query_params.get("cursor") or None)
        found = await keys.list_covered(context.keys, by, cursor, ROWS)
        after, now = cursor_view(found.next_cursor), context.clock.now()
        return page(
            request,
            "keys.html",
            refusal.status,
            path=self.path,
            title=self.title,
            keys=[(key, state_of(key, now)) for key in found.keys],
            own=by.key_id,
            roles=[]
            if isinstance(by, Operator)
            else [each for each in _ROLES.items() if by.may(each[0])],
            of_tenant=not isinstance(by, Operator),
            first=cursor is None,
            more=None if after is None else f"{self.path}?" + urlencode({"cursor": after}),
            form=form,
            reasons=refusal.reasons,
        )

    def _made(self, request: Request, made: CreatedKey) -> ASGIResponse:
        return page(
            request,
            "secret_made.html",
            201,
            back=self.path,
            back_title=self.title,
            title=f"The key {made.key.name}",
            secret=made.secret,
            ends=made.key.expires_at,
            note=_ONLY_NOW,
        )


def state_of(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "live"


def _requester(request: Request) -> Requester:
    requester: Requester = request.scope["auth"]
    return requester


def _wanted(by: Requester, form: Mapping[str, str]) -> WantedKey:
    """Raises InvalidTask, with the place."""
    values: dict[str, Any] = {
        "name": form["name"].strip(),
        "expires_at": _moment(form["expires_at"]),
    }
    if isinstance(by, Operator):
        return wanted_operator_key(decoded(msgspec.json.encode(values), CreateOperatorKey))
    values["roles"] = [role for role in _ROLES if form[f"role_{role}"]]
    for name in ("task_types", "queues", "functions", "hosts"):
        values[name] = lines(form[name])
    return wanted_key(decoded(msgspec.json.encode(values), CreateKey))


def _moment(text: str) -> str | None:
    """A time of UTC, as the field of a browser writes it, as the API takes it."""
    text = text.strip()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return text or None  # refused where times are checked
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()


ROUTES = (
    *KeyPages("/keys", Role.ADMIN, "Keys").routes(),
    *KeyPages("/operator-keys", Role.OPERATOR, "Operator keys").routes(),
)

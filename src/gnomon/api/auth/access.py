"""The one place where it is decided who may do what: every request comes through here, before its
body is read."""

from collections.abc import Iterator

from litestar import Litestar
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.routes import HTTPRoute

from gnomon.access.principal import ALL_ROLES, Principal, Role
from gnomon.api.context import Request, context_of, header_of
from gnomon.api.http.connections import client_of
from gnomon.api.http.operation import operation_of
from gnomon.api.http.problems import RequestError, RestartNeeded
from gnomon.api.http.web_pages import refusal
from gnomon.model.errors import RoleMissing, Unauthenticated
from gnomon.model.room import DatabaseFull
from gnomon.model.task import DEFAULT_TENANT

OPEN = {"open": True}  # the `opt` of what is served to all and is no operation
_WITHOUT_AUTHENTICATION = Principal(tenant_id=DEFAULT_TENANT, name=None, roles=ALL_ROLES)
_NEEDS_AUTHENTICATION = (
    "keys and webhook secrets are managed over HTTP only where authentication is on; `gnomon keys` "
    "and `gnomon secrets`, on the machine of the database, work without it"
)


async def admit(request: Request) -> None:
    """Find out who asks, and whether they may. What runs before every handler."""
    await _admit(request)
    _check_room(request)


def _check_room(request: Request) -> None:
    operation = operation_of(request.scope["route_handler"])
    if operation is not None and operation.grows and context_of(request).directory.is_full():
        raise DatabaseFull


async def _admit(request: Request) -> None:
    context = context_of(request)
    if context.authenticator is None:
        _admit_unauthenticated(request, turned_on=context.directory.authentication)
        return
    authenticator = context.authenticator
    role = _role(request.scope["route_handler"])
    if role is None:
        return
    try:
        principal = await authenticator.principal(header_of(request, b"authorization"))
    except Unauthenticated:
        context.limits.failed(request.scope)
        await _refuse(request)
        raise
    context.limits.succeeded(request.scope)
    if not principal.may(role):
        raise RoleMissing(role, principal.roles)
    if not context.directory.knows(principal.tenant_id):
        # It was made a moment ago, and one that is not known has neither quotas nor allow-lists.
        await context.directory.look_again()
    request.scope["auth"] = principal


def _admit_unauthenticated(request: Request, *, turned_on: bool) -> None:
    """Whoever is on this machine may do everything, except for web pages, and except for what would
    still hold once authentication is on. Once it is, nobody may."""
    if turned_on and _role(request.scope["route_handler"]) is not None:
        raise RestartNeeded
    detail = refusal(
        header_of(request, b"host"),
        header_of(request, b"origin"),
        header_of(request, b"sec-fetch-site"),
        request.scope["http_version"],
    )
    if detail is not None:
        raise RequestError(403, detail)
    operation = operation_of(request.scope["route_handler"])
    if operation is not None and operation.needs_authentication:
        raise RequestError(403, _NEEDS_AUTHENTICATION)
    request.scope["auth"] = _WITHOUT_AUTHENTICATION


async def _refuse(request: Request) -> None:
    """Whoever waits for a refusal takes nobody's place: the connection may be closed."""
    context = context_of(request)
    context.under_way.discard(client_of(request.scope))
    await context.refusals.wait()


def check(app: Litestar) -> None:
    """Nothing is served past the door, and everything says which role it takes."""
    for path, handler in _handlers(app):
        _role(handler)
        # Litestar calls the innermost one only.
        if handler.resolve_before_request() is not admit:
            raise TypeError(f"{path}: a before_request of its own would leave the door open")


def _role(handler: BaseRouteHandler) -> Role | None:
    operation = operation_of(handler)
    if operation is not None:
        return operation.role
    if handler.opt.get("open") is not True:
        raise TypeError(f"{handler}: says neither which role it takes, nor that it takes none")
    return None


def _handlers(app: Litestar) -> Iterator[tuple[str, HTTPRouteHandler]]:
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                if handler.http_methods != {"OPTIONS"}:  # Litestar's own: the methods of a path
                    yield route.path, handler

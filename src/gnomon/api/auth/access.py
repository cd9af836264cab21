"""Access control: every request passes here before its body is read."""

from collections.abc import Iterator

from litestar import Litestar
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.routes import HTTPRoute

from gnomon.access.grant_errors import OperatorNeeded, TenantNeeded
from gnomon.access.principal import TENANT_ROLES, Operator, Principal, Requester, Role
from gnomon.api.auth.authentication import Authenticator, TrustedCaller
from gnomon.api.auth.sessions import cookie_in
from gnomon.api.context import Request, context_of, header_of
from gnomon.api.http.answers.problems import RequestError, RestartNeeded
from gnomon.api.http.bounds.connections import client_of
from gnomon.api.http.bounds.web_pages import refusal, refusal_of_session
from gnomon.api.http.document.operation import Operation, PageRoute, operation_of, page_of
from gnomon.api.http.requests.paths import read_names
from gnomon.model.errors import RoleMissing, Unauthenticated
from gnomon.model.fleet.room import DatabaseFull
from gnomon.model.tasks.task import DEFAULT_TENANT

OPEN = {"open": True}  # the `opt` of what is served to all and is no operation
# Without authentication, whoever is on this machine is both.
_LOCAL = Principal(tenant_id=DEFAULT_TENANT, name=None, roles=TENANT_ROLES)
_LOCAL_OPERATOR = Operator(name=None)
_NEEDS_AUTHENTICATION = (
    "keys and webhook secrets are managed over HTTP only where authentication is on; until then, "
    "`gnomon keys create` and `gnomon secrets`, without a key, work on the database itself"
)


async def admit(request: Request) -> None:
    """Authenticate the requester, and check their role. Runs before every handler."""
    read_names(request.scope)  # type: ignore[arg-type]
    context, handler = context_of(request), request.scope["route_handler"]
    asked = operation_of(handler) or page_of(handler)
    if context.authenticator is None:
        _admit_unauthenticated(request, asked, turned_on=context.directory.authentication)
    else:
        await _admit(request, context.authenticator)
    if asked is not None and asked.grows and context.directory.is_full():
        raise DatabaseFull


async def _admit(request: Request, authenticator: Authenticator | TrustedCaller) -> None:
    context = context_of(request)
    role = _role(request.scope["route_handler"])
    if role is None:
        return
    try:
        authorization = await _authorization(request)
        requester = await authenticator.requester(authorization)
    except Unauthenticated:
        context.limits.failed(request.scope)
        await _refuse(request)
        raise
    _note_success(request, authorization)
    request.scope["auth"] = requester  # so that a refusal can say what it may
    _check_role(requester, role)
    if isinstance(requester, Principal) and not context.directory.knows(requester.tenant_id):
        # It was created a moment ago; until it is known here, it has no quotas and no allow-lists.
        await context.directory.look_again()


def _note_success(request: Request, authorization: str | None) -> None:
    limits, session = context_of(request).limits, None
    if page_of(request.scope["route_handler"]) is not None:
        session = session_in(request)
    if session is None:
        limits.succeeded(request.scope)
    else:
        limits.succeeded_by_session(request.scope, session, authorization)


async def _authorization(request: Request) -> str | None:
    """The credentials of a request. A session counts for pages only: no page of another site can
    use the API by it. Raises RequestError where another site may have made the request."""
    if page_of(request.scope["route_handler"]) is None:
        return header_of(request, b"authorization")
    if request.method not in ("GET", "HEAD"):
        check_own_page(request)
    return await context_of(request).sessions.authorization(session_in(request))


def check_own_page(request: Request) -> None:
    """Raises RequestError where a page of another origin may have made the request."""
    detail = refusal_of_session(
        header_of(request, b"host"),
        header_of(request, b"origin"),
        header_of(request, b"sec-fetch-site"),
    )
    if detail is not None:
        raise RequestError(403, detail)


def session_in(request: Request) -> str | None:
    """The session that a browser sends."""
    return cookie_in(header_of(request, b"cookie"))


async def admit_again(request: Request) -> None:
    """Checks the requester of a request that has waited. Raises as `admit` does."""
    context, role = context_of(request), _role(request.scope["route_handler"])
    if context.authenticator is not None and role is not None:
        credentials = await _authorization(request)
        _check_role(await context.authenticator.requester(credentials), role)


def _check_role(requester: Requester, role: Role) -> None:
    if requester.may(role):
        return
    if role is Role.OPERATOR:
        raise OperatorNeeded(requester.roles)
    if isinstance(requester, Operator):
        raise TenantNeeded(role)
    raise RoleMissing(role, requester.roles)


def _admit_unauthenticated(
    request: Request, asked: Operation | PageRoute | None, *, turned_on: bool
) -> None:
    """Whoever is on this machine may do everything, except for web pages, and except for what would
    still hold once authentication is on. Once it is, nobody may."""
    role = _role(request.scope["route_handler"]) if asked is None else asked.role
    if turned_on and role is not None:
        raise RestartNeeded
    detail = refusal(
        header_of(request, b"host"),
        header_of(request, b"origin"),
        header_of(request, b"sec-fetch-site"),
        request.scope["http_version"],
    )
    if detail is not None:
        raise RequestError(403, detail)
    if asked is not None and asked.needs_authentication:
        raise RequestError(403, _NEEDS_AUTHENTICATION)
    request.scope["auth"] = _LOCAL_OPERATOR if role is Role.OPERATOR else _LOCAL


async def _refuse(request: Request) -> None:
    """A request that waits for its refusal occupies no place: its connection may be closed."""
    context = context_of(request)
    context.under_way.discard(client_of(request.scope))
    await context.refusals.wait()


def check(app: Litestar) -> None:
    """Raises TypeError where a handler bypasses access control, or declares no role."""
    for path, handler in _handlers(app):
        _role(handler)
        # Litestar calls the innermost one only.
        if handler.resolve_before_request() is not admit:
            raise TypeError(f"{path}: a before_request of its own would bypass access control")


def _role(handler: BaseRouteHandler) -> Role | None:
    asked = operation_of(handler) or page_of(handler)
    if asked is not None:
        return asked.role
    if handler.opt.get("open") is not True:
        raise TypeError(
            f"{handler}: declares neither the role that it needs, nor that it is open to all"
        )
    return None


def _handlers(app: Litestar) -> Iterator[tuple[str, HTTPRouteHandler]]:
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                if handler.http_methods != {"OPTIONS"}:  # Litestar's own: the methods of a path
                    yield route.path, handler

"""A route and everything that is known about it: who may use it, what it takes, what it answers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import msgspec
from litestar import HttpMethod
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.http.answers.page_reads import shown

JSON = "application/json"
CSV = "text/csv"
READ = (HttpMethod.GET, HttpMethod.HEAD)

_OPT = "operation"
_PAGE = "page"


class Endpoint(msgspec.Struct, frozen=True):
    """The method and path of a request. Paths may be relative to a router's; GET includes HEAD."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str


class Operation(Endpoint, frozen=True, kw_only=True):
    """Decorates a handler: `@Operation("GET", "/{task_id:str}", name="get_task", ...)`.

    Access is checked against it, and the OpenAPI document is made from it.
    """

    name: str  # `operationId`: clients are generated from it
    role: Role | None  # required of the caller; None: open to all
    summary: str
    answers: Mapping[int, type | None]
    receipt: type | None = None  # the answer to callers who may not read
    echoes: bool = False  # the answer repeats the request: only a replay may tell more than that
    body: type | None = None
    body_required: bool = False
    query: type | None = None
    errors: tuple[int, ...] = ()  # beyond those that follow from the other fields
    keyed: bool = False  # takes an Idempotency-Key
    secret: str | None = None  # the header that proves more than a key does
    needs_authentication: bool = False  # refused while authentication is off
    paced: bool = False  # counts towards a tenant's submissions a second
    grows: bool = False  # refused while there is no room for new work
    media_type: str = JSON
    also: str | None = None  # another media type that can be asked for

    def __call__(self, handler: Callable[..., Awaitable[ASGIResponse]]) -> HTTPRouteHandler:
        """The handler as a route."""
        methods = READ if self.method == "GET" else HttpMethod(self.method)
        # Handlers answer with a status of their own. Litestar only insists that one that returns
        # anything does not declare 204.
        status = min(self.answers)
        declared = 200 if status == 204 else status
        return HTTPRouteHandler(
            self.path, http_method=methods, status_code=declared, opt={_OPT: self}
        )(handler)

    @property
    def statuses(self) -> list[int]:
        """The statuses of errors that a caller has to expect."""
        errors = {*self.errors, 500}
        if self.role is not None:
            errors |= {401, 403, 429, 503}
        if self.body is not None:
            errors |= {400, 408, 413, 415, 422, 503}
        if self.query is not None:
            errors |= {422}
        if self.grows:
            errors |= {507}
        if self.keyed:
            errors |= {409, 422}
        return sorted(errors - set(self.answers))


def operation_of(handler: BaseRouteHandler) -> Operation | None:
    """The operation that a handler was decorated with."""
    found: Operation | None = handler.opt.get(_OPT)
    return found


def for_operators(handler: HTTPRouteHandler) -> HTTPRouteHandler:
    """The same route about what is of the installation, for operators: `put_subscription` is
    `put_installation_subscription` then."""
    declared = operation_of(handler)
    assert declared is not None, "only operations of the API are for operators, too"
    verb, _, noun = declared.name.partition("_")
    return msgspec.structs.replace(
        declared,
        name=f"{verb}_installation_{noun}",
        role=Role.OPERATOR,
        summary=declared.summary.replace("of the tenant", "of the installation"),
        receipt=None,  # an operator may read all of it
    )(handler.fn)


class PageRoute(Endpoint, frozen=True, kw_only=True):
    """Decorates the handler of a page for people: `@PageRoute("GET", "/tasks", role=Role.READ)`.

    Who may see it is known by a session. No document describes it.
    """

    role: Role
    streams: bool = False  # the answer is of one reader, and has no end
    grows: bool = False  # refused while there is no room for new work
    needs_authentication: bool = False  # refused while authentication is off

    def __call__(self, handler: Callable[..., Awaitable[ASGIResponse]]) -> HTTPRouteHandler:
        """The handler as a route."""
        reads = self.method == "GET"
        methods = READ if reads else HttpMethod(self.method)
        return HTTPRouteHandler(self.path, http_method=methods, status_code=200, opt={_PAGE: self})(
            shown(handler) if reads and not self.streams else handler
        )


def page_of(handler: BaseRouteHandler) -> PageRoute | None:
    """The page that a handler was decorated with."""
    found: PageRoute | None = handler.opt.get(_PAGE)
    return found

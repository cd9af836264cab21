"""Nothing is served that does not say which role it takes, and nothing past the access."""

import pytest
from litestar import Litestar, Router, get
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from gnomon.access.principal import TENANT_ROLES, Operator, Principal, Role
from gnomon.api.auth import access
from gnomon.api.context import Request
from gnomon.api.http.document.operation import Operation

read = Operation("GET", "/", name="x", role=Role.READ, summary="", answers={200: None})


async def _nothing() -> None:
    """Of no interest."""


async def _answering() -> ASGIResponse:
    return ASGIResponse()


async def _own(request: Request) -> None:
    """A way in of its own."""


def app(handler: HTTPRouteHandler) -> Litestar:
    return Litestar([handler], before_request=access.admit, openapi_config=None)


def test_what_says_its_role_or_that_it_has_none_is_served() -> None:
    access.check(app(read(_answering)))
    access.check(app(get("/", opt=access.OPEN)(_nothing)))


def test_what_says_nothing_is_not_served() -> None:
    with pytest.raises(TypeError, match="role"):
        access.check(app(get("/")(_nothing)))


def test_an_operation_cannot_leave_its_role_out() -> None:
    with pytest.raises(TypeError, match="role"):
        Operation("GET", "/", name="x", summary="", answers={200: None})  # type: ignore[call-arg]


def test_nobody_has_a_door_of_their_own() -> None:
    handler = get("/", opt=access.OPEN, before_request=_own)(_nothing)
    with pytest.raises(TypeError, match="bypass"):
        access.check(app(handler))
    router = Router("/x", route_handlers=[read(_answering)], before_request=_own)
    with pytest.raises(TypeError, match="bypass"):
        access.check(Litestar([router], before_request=access.admit, openapi_config=None))


def test_an_administrator_may_do_everything_within_the_tenant() -> None:
    admin = Principal(tenant_id="t", name=None, roles=frozenset({Role.ADMIN}))
    assert {role for role in Role if admin.may(role)} == TENANT_ROLES
    reader = Principal(tenant_id="t", name=None, roles=frozenset({Role.READ}))
    assert [role for role in Role if reader.may(role)] == [Role.READ]


def test_an_operator_has_no_right_within_a_tenant() -> None:
    assert [role for role in Role if Operator(name=None).may(role)] == [Role.OPERATOR]

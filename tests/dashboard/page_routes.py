"""Every page and action of the dashboard, found from its routes."""

import re
from collections.abc import Mapping

from litestar.routes import HTTPRoute

from gnomon.access.principal import Role
from gnomon.api.http.operation import page_of
from gnomon.dashboard import routes

PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


def found(method: str) -> dict[str, Role]:
    """The paths that take this method, each with the role that it needs."""
    (router,) = routes.ROUTES
    made: dict[str, Role] = {}
    for route in router.routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                declared = page_of(handler)
                if declared is not None and declared.method == method:
                    made[PARAMETER.sub(r"{\1}", route.path)] = declared.role
    return made


def about(path: str, things: Mapping[str, str]) -> str:
    """The path of a page about one of these things."""
    for name in PARAMETER.findall(path):
        for known in (path, name):
            if known in things:
                path = path.replace(f"{{{name}}}", things[known])
                break
        else:
            raise AssertionError(
                f"{path}: `seeded` in tests/dashboard/seeding.py gives nothing for {name!r}"
            )
    return path


PAGES = found("GET")
ACTIONS = found("POST")

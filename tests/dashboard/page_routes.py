"""Every page and action of the dashboard, found from its routes."""

import re
from collections.abc import Mapping
from urllib.parse import quote

from litestar.routes import HTTPRoute

from gnomon.access.principal import Role
from gnomon.api.http.document.operation import page_of
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
    """The address of a page about one of these things: `{name}` below `/limits` is about what
    is there for `limits/name`, or for `name`. Some are there for a whole path."""
    if path in things:
        return things[path]
    for name in PARAMETER.findall(path):
        known = things.get(f"{path.split('/')[1]}/{name}") or things.get(name)
        assert known, f"{path}: `seeded` in tests/dashboard/seeding.py gives nothing for {name!r}"
        path = path.replace(f"{{{name}}}", quote(known, safe=""))
    return path


# Routes that are no pages: streams of events, parts that pages ask for, and data.
PARTS = frozenset(
    {
        "/live",
        "/live/installation",
        "/cron/preview",
        "/tasks/{task_id}/payload",
        "/tasks/{task_id}/result",
    }
)
ROUTES = found("GET")
PAGES = {path: role for path, role in ROUTES.items() if path not in PARTS}
ACTIONS = found("POST")

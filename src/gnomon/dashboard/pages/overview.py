"""The overview: what waits and runs, and what went wrong."""

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.operation import PageRoute
from gnomon.dashboard.rendering import page
from gnomon.model.lifecycle import Status
from gnomon.store.ports.events import EventFilter
from gnomon.store.ports.tasks import TaskFilter
from gnomon.usecases.admin import nodes

_EVENTS = 8
_TYPES = 10
_SHOWN = (
    Status.READY,
    Status.RUNNING,
    Status.SCHEDULED,
    Status.FAILED,
    Status.DEAD_LETTERED,
    Status.PAUSED,
    Status.BLOCKED,
)


@PageRoute("GET", "/", role=Role.READ)
async def show_overview(request: Request) -> ASGIResponse:
    context, tenant = context_of(request), tenant_of(request)
    stats = await context.store.stats(tenant, TaskFilter())
    dead = await context.store.list_dead(tenant, TaskFilter(), None, 5)
    events = await context.events.list(tenant, EventFilter(), None, _EVENTS)
    seen = None if context.authenticator is not None else await nodes.overview(context.nodes)
    types = sorted(
        stats.task_types.items(), key=lambda each: -each[1].ready.count - each[1].running.count
    )
    return page(
        request,
        "overview.html",
        tiles=[(status, stats.statuses[status]) for status in _SHOWN if status in stats.statuses],
        lanes=[(lane.name, load) for lane, load in stats.lanes.items()],
        types=types[:_TYPES],
        dead=dead.tasks,
        events=events.events,
        nodes=None if seen is None else [node for node in seen.nodes if not node.dead],
    )


ROUTES = (show_overview,)

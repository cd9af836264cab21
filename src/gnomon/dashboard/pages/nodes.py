"""Nodes: who is there, how busy, how late, and which shards each serves."""

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of
from gnomon.api.http.operation import PageRoute
from gnomon.dashboard.drawing import letter
from gnomon.dashboard.rendering import page
from gnomon.usecases.admin import nodes


@PageRoute("GET", "/nodes", role=Role.OPERATOR)
async def show_nodes(request: Request) -> ASGIResponse:
    seen = await nodes.overview(context_of(request).nodes)
    # By age, so that a node keeps its letter while others come.
    serving = sorted(
        (node for node in seen.nodes if not node.dead),
        key=lambda node: (node.started_at, node.incarnation),
    )
    dead = [node for node in seen.nodes if node.dead]
    return page(
        request,
        "nodes.html",
        nodes=[(letter(place), place % 8, node) for place, node in enumerate(serving)],
        dead=dead[:50],
        due=seen.due,
        order=[(node.incarnation, node.name) for node in serving],
        owned=seen.owned,
    )


ROUTES = (show_nodes,)

"""Nodes: who is there, how busy, how late, and which shards each serves."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.dashboard.drawing.shard_map import letter
from gnomon.dashboard.rendering import page
from gnomon.usecases.admin import nodes
from gnomon.usecases.admin.nodes import NodeStatus

_SHOWN_DEAD = 20
_SHOWN_SESSIONS = 200
# So long the letter of a dead node is nobody else's: letters would change with every death.
_REMEMBERED = timedelta(minutes=15)
_COLOURS = 8


class MarkedNode(msgspec.Struct, frozen=True):
    """A node, and how it is marked on the map."""

    letter: str
    colour: int
    node: NodeStatus
    uptime: float  # seconds


@PageRoute("GET", "/nodes", role=Role.OPERATOR)
async def show_nodes(request: Request) -> ASGIResponse:
    context = context_of(request)
    seen = await nodes.overview(context.nodes, with_sessions=context.authenticator is None)
    serve = [node for node in seen.nodes if node.kind != "session"]
    sessions = [node for node in seen.nodes if node.kind == "session" and not node.dead]
    marked = _marked(serve, context.clock.now())
    dead = [node for node in serve if node.dead]
    serving = [each for each in marked if not each.node.dead]
    return page(
        request,
        "nodes.html",
        nodes=serving,
        busy=sum(each.node.running for each in serving),
        slots=sum(each.node.slots for each in serving),
        versions={each.node.version for each in serving},
        marks={each.node.incarnation: each for each in marked},
        dead=sorted(dead, key=lambda node: node.alive_until, reverse=True)[:_SHOWN_DEAD],
        dead_count=len(dead),
        due=seen.due,
        sessions=sessions[:_SHOWN_SESSIONS],
        session_count=len(sessions),
        order=[(each.node.incarnation, each.node.name) for each in marked],
        owned=seen.owned,
        shards=len(frozenset().union(*seen.owned.values())),
    )


def _marked(found: Sequence[NodeStatus], now: datetime) -> list[MarkedNode]:
    """By age, so that a node keeps its letter while others come and go."""
    kept = [node for node in found if not node.dead or node.alive_until > now - _REMEMBERED]
    kept.sort(key=lambda node: (node.started_at, node.incarnation))
    return [
        MarkedNode(letter(place), place % _COLOURS, node, (now - node.started_at).total_seconds())
        for place, node in enumerate(kept)
    ]


ROUTES = (show_nodes,)

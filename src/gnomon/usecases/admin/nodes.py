"""The nodes of the installation: state, shards, load and lag of each."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from gnomon.model.fleet.pool import Pool, shards_by_node
from gnomon.store.ports.insight.nodes import ListedNode, ShardBacklog
from gnomon.store.ports.roster import NodeKind
from gnomon.store.postgres.dispatch.node_reader import PostgresNodeReader

MOST_NODES = 1_000
_KINDS = ("webhooks", "handlers")
COUNTED = 100  # waiting tasks of a shard: so the cost has a bound, whatever the backlog


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node. `lag_seconds` is the age of the oldest due task in its shards that it serves."""

    name: str
    kind: str  # node; gateway: a node for remote workers; session: one of those workers
    incarnation: UUID
    version: str
    state: str  # alive; silent: its lease has run out, and no peer has declared it dead; dead
    alive: bool
    dead: bool
    started_at: datetime
    alive_until: datetime
    lease_seconds: float  # left of its lease; negative where it has run out
    serves: dict[str, list[str]]  # its pool: work that is in all of these; empty: everything
    shards: int
    slots: int
    running: int
    lag_seconds: float | None
    tenant_id: str | None = None  # of a session
    gateway: str | None = None  # the name of that which has the session
    sessions: int | None = None  # of a gateway


class DueWork(msgspec.Struct, frozen=True):
    """Due tasks that wait, in all shards."""

    tasks: int
    at_least: bool  # there are more than were counted
    lag_seconds: float | None


class Overview(NamedTuple):
    """The nodes, and what waits for them."""

    nodes: list[NodeStatus]
    due: DueWork
    owned: dict[UUID, frozenset[int]]  # the shards of each node that is not dead


async def overview(reader: PostgresNodeReader, *, with_sessions: bool) -> Overview:
    """All nodes, living ones first. `with_sessions`: those of remote workers, too, and what they
    handle. That is their tenants', and not for an operator who is of none."""
    nodes = await reader.nodes(MOST_NODES)
    pools = {pool for node in nodes if _serves_shards(node) for pool in node.pool.each}
    backlog = await reader.backlog(COUNTED, pools)
    # In a thread: with many nodes it takes a while, and other requests wait for the loop.
    seen = await asyncio.to_thread(_overview, nodes, backlog)
    if with_sessions:
        return seen
    shown = [_without_names(node) for node in seen.nodes if node.kind != NodeKind.SESSION.label]
    return seen._replace(nodes=shown)


def _without_names(node: NodeStatus) -> NodeStatus:
    """Of what a gateway serves, only whose it is."""
    if node.kind != NodeKind.GATEWAY.label:
        return node
    serves = {name: of for name, of in node.serves.items() if name in ("runs", "tenants")}
    return msgspec.structs.replace(node, serves=serves)


def _overview(nodes: Sequence[ListedNode], backlog: Sequence[ShardBacklog]) -> Overview:
    # As the nodes see it: a silent one keeps its shards until it is declared dead.
    owned = shards_by_node({n.incarnation: n.pool for n in nodes if _serves_shards(n)})
    lags: dict[Pool, dict[int, float]] = {n.pool: {} for n in nodes if _serves_shards(n)}
    for pool, by_shard in lags.items():
        for each in backlog:
            if pool.accepts(each.work):
                by_shard[each.shard] = max(each.lag_seconds, by_shard.get(each.shard, 0.0))
    none: frozenset[int] = frozenset()
    names = {node.incarnation: node.name for node in nodes if node.kind is NodeKind.GATEWAY}
    sessions = Counter(node.gateway for node in nodes if not node.dead)
    return Overview(
        [
            msgspec.structs.replace(
                _status(node, owned.get(node.incarnation, none), lags.get(node.pool, {}), names),
                sessions=sessions[node.incarnation] if node.incarnation in names else None,
            )
            for node in nodes
        ],
        _due(backlog),
        owned,
    )


def _serves_shards(node: ListedNode) -> bool:
    return not node.dead and node.kind is not NodeKind.SESSION


def _status(
    node: ListedNode,
    owned: frozenset[int],
    lags: Mapping[int, float],
    gateways: Mapping[UUID, str],
) -> NodeStatus:
    alive = not node.dead and node.lease_seconds > 0
    return NodeStatus(
        name=node.name,
        kind=node.kind.label,
        tenant_id=node.tenant_id,
        gateway=None if node.gateway is None else gateways.get(node.gateway),
        incarnation=node.incarnation,
        version=node.version,
        state="dead" if node.dead else "alive" if alive else "silent",
        alive=alive,
        dead=node.dead,
        started_at=node.started_at,
        alive_until=node.alive_until,
        lease_seconds=node.lease_seconds,
        serves=_serves(node.pool),
        shards=len(owned),
        slots=node.slots,
        running=node.running,
        lag_seconds=max((lag for shard, lag in lags.items() if shard in owned), default=None),
    )


def _serves(pool: Pool) -> dict[str, list[str]]:
    runs = [kind for kind, served in zip(_KINDS, pool.kinds, strict=True) if served]
    lists = {
        "runs": [] if pool.webhooks and pool.handlers is None else runs,
        "handlers": sorted(pool.handlers or ()),
        "tenants": sorted(pool.tenants),
        "types": sorted(pool.types),
        "queues": sorted(pool.queues),
        "lanes": [lane.name for lane in sorted(pool.lanes)],
    }
    return {name: of for name, of in lists.items() if of}


def _due(backlog: Sequence[ShardBacklog]) -> DueWork:
    counts: Counter[int] = Counter()
    for each in backlog:
        counts[each.shard] += each.due
    longest = max((each.lag_seconds for each in backlog), default=None)
    return DueWork(counts.total(), COUNTED in counts.values(), longest)

"""The nodes of the installation: state, shards, load and lag of each."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from gnomon.model.pool import Pool, shards_by_node
from gnomon.store.ports.nodes import ListedNode, ShardBacklog
from gnomon.store.postgres.dispatch.node_reader import PostgresNodeReader

MOST_NODES = 1_000
_KINDS = ("webhooks", "handlers")
COUNTED = 100  # waiting tasks of a shard: so the cost has a bound, whatever the backlog


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node. `lag_seconds` is the age of the oldest due task in its shards that it serves."""

    name: str
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


async def overview(reader: PostgresNodeReader) -> Overview:
    """All nodes, living ones first."""
    nodes = await reader.nodes(MOST_NODES)
    backlog = await reader.backlog(COUNTED, {node.pool for node in nodes if not node.dead})
    # In a thread: with many nodes it takes a while, and other requests wait for the loop.
    return await asyncio.to_thread(_overview, nodes, backlog)


def _overview(nodes: Sequence[ListedNode], backlog: Sequence[ShardBacklog]) -> Overview:
    # As the nodes see it: a silent one keeps its shards until it is declared dead.
    owned = shards_by_node({node.incarnation: node.pool for node in nodes if not node.dead})
    lags: dict[Pool, dict[int, float]] = {node.pool: {} for node in nodes if not node.dead}
    for pool, by_shard in lags.items():
        for each in backlog:
            if pool.accepts(each.work):
                by_shard[each.shard] = max(each.lag_seconds, by_shard.get(each.shard, 0.0))
    none: frozenset[int] = frozenset()
    return Overview(
        [
            _status(node, owned.get(node.incarnation, none), lags.get(node.pool, {}))
            for node in nodes
        ],
        _due(backlog),
        owned,
    )


def _status(node: ListedNode, owned: frozenset[int], lags: Mapping[int, float]) -> NodeStatus:
    alive = not node.dead and node.lease_seconds > 0
    return NodeStatus(
        name=node.name,
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

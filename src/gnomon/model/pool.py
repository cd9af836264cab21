"""Worker pools: what a node serves, and who serves what where pools differ.

A node may be there for certain tenants, task types, queues or lanes only. The owner of a task is
the node that bids highest for its shard (see gnomon.model.shard) among those whose pool accepts it.
So nodes with the same pool share its work as if they were alone, and where nobody has a pool,
shards are all there is to it.
"""

from collections.abc import Mapping
from uuid import UUID

import msgspec

from gnomon.model.priority import Lane
from gnomon.model.shard import SHARDS, outbidders, owned_shards, rankings


class Work(msgspec.Struct, frozen=True):
    """The fields of a task that pools choose by. A type of None: type and queue are not known."""

    tenant_id: str
    lane: Lane
    task_type: str | None = None
    queue: str | None = None

    def __str__(self) -> str:
        queue = "" if self.queue is None else f", queue {self.queue}"
        return f"tenant {self.tenant_id}, lane {self.lane.name}, type {self.task_type}{queue}"


class Pool(msgspec.Struct, frozen=True):
    """The tasks that a node serves: those in every list; an empty list has all."""

    tenants: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    lanes: frozenset[Lane] = frozenset()

    @property
    def asks_for_type(self) -> bool:
        return bool(self.types or self.queues)

    def accepts(self, work: Work) -> bool:
        """Whether it serves this. Whoever asks by type or queue serves no unknown one."""
        return (
            (not self.tenants or work.tenant_id in self.tenants)
            and (not self.lanes or work.lane in self.lanes)
            and (not self.types or work.task_type in self.types)
            and (not self.queues or work.queue in self.queues)
        )

    def may_accept(self, work: Work) -> bool:
        """Whether it serves this, or some type of it."""
        if work.task_type is not None:
            return self.accepts(work)
        return (not self.tenants or work.tenant_id in self.tenants) and (
            not self.lanes or work.lane in self.lanes
        )

    def covers(self, other: "Pool") -> bool:
        """Whether it serves all that the other serves."""
        return all(not mine or (theirs and theirs <= mine) for mine, theirs in _pairs(self, other))

    def overlaps(self, other: "Pool") -> bool:
        """Whether something may be served by both."""
        return all(not mine or not theirs or mine & theirs for mine, theirs in _pairs(self, other))

    def __str__(self) -> str:
        named = (
            ("tenant", sorted(self.tenants)),
            ("type", sorted(self.types)),
            ("queue", sorted(self.queues)),
            ("lane", [lane.name for lane in sorted(self.lanes)]),
        )
        return "; ".join(f"{name} {', '.join(of)}" for name, of in named if of) or "everything"


EVERYTHING = Pool()


class Territory(msgspec.Struct, frozen=True):
    """The work that one node owns: in these shards, all that its pool accepts, but for what is
    accepted by the pools of nodes that go before it there."""

    shards: frozenset[int] = frozenset()
    pool: Pool = EVERYTHING
    others: Mapping[int, frozenset[Pool]] = {}  # by shard, where there are any
    jobs: frozenset[int] = frozenset()  # the shards whose cron jobs it plans: any node can

    @property
    def is_whole(self) -> bool:
        """Whether its shards are all there is to it."""
        return self.pool == EVERYTHING and not self.others

    def may_own(self, shard: int, work: Work) -> bool:
        """Whether this is its own, as far as can be told where the type is not known."""
        return (
            shard in self.shards
            and self.pool.may_accept(work)
            and not any(pool.accepts(work) for pool in self.others.get(shard, ()))
        )

    def shards_of(self, work: Work) -> frozenset[int]:
        """The shards in which this is its own."""
        if self.is_whole:
            return self.shards
        if not self.pool.accepts(work):
            return frozenset()
        others = {s for s, pools in self.others.items() if any(p.accepts(work) for p in pools)}
        return self.shards - others if others else self.shards


WHOLE = Territory()  # as a filter: whatever is there


def everything_in(shards: frozenset[int]) -> Territory:
    """The territory of a node where no node has a pool."""
    return Territory(shards, jobs=shards)


def territory(me: UUID, roster: Mapping[UUID, Pool]) -> Territory:
    """The territory of `me`: empty while it is not in `roster`."""
    jobs = owned_shards(me, roster.keys())
    mine = roster.get(me, EVERYTHING)
    if all(pool == mine for pool in roster.values()):
        return msgspec.structs.replace(everything_in(jobs), pool=mine)
    if me not in roster:
        return Territory()
    rivals = {node: pool for node, pool in roster.items() if pool.overlaps(mine)}
    shards, others = set(), {}
    for shard in range(SHARDS):
        before = frozenset(rivals[node] for node in outbidders(me, shard, rivals.keys()))
        if any(pool.covers(mine) for pool in before):
            continue
        shards.add(shard)
        if before:
            others[shard] = before
    return Territory(frozenset(shards), mine, others, jobs)


def shards_by_node(roster: Mapping[UUID, Pool]) -> dict[UUID, frozenset[int]]:
    """The shards of everybody's territory, for much less than asking `territory` for each."""
    pools = {pool: 1 << index for index, pool in enumerate(dict.fromkeys(roster.values()))}
    covering = {
        pool: sum(bit for other, bit in pools.items() if other.covers(pool)) for pool in pools
    }
    owned: dict[UUID, set[int]] = {node: set() for node in roster}
    for shard, ranking in enumerate(rankings(roster)):
        before = 0  # the pools of those who outbid the node
        for node in ranking:
            pool = roster[node]
            if not before & covering[pool]:
                owned[node].add(shard)
            before |= pools[pool]
    return {node: frozenset(shards) for node, shards in owned.items()}


def _pairs(one: Pool, two: Pool) -> tuple[tuple[frozenset[object], frozenset[object]], ...]:
    return tuple((getattr(one, field), getattr(two, field)) for field in one.__struct_fields__)

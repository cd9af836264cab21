"""Worker pools: what a node serves, and who serves what where pools differ.

A node calls webhooks, runs the handlers of its app, or both; and it may be there for certain
tenants, task types, queues or lanes only. The owner of a task is the node that bids highest for its
shard (see gnomon.model.fleet.shard) among those whose pool accepts it. So nodes with the same pool
share its work as if they were alone, and what no pool accepts waits.

A handler is known by its task type. All tasks of a flow are webhooks, or none is, since a flow has
one host: so a flow is in a pool, or it is not.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import msgspec

from gnomon.model.fleet.shard import SHARDS, outbidders, owned_shards, rankings
from gnomon.model.tasks.priority import Lane

_MOST_NAMED = 8  # of a list, where a pool is told in words

_Listed = frozenset[Any] | None  # None: all


class Work(msgspec.Struct, frozen=True):
    """The fields of a task that pools choose by. A type of None: type and queue are not known."""

    tenant_id: str
    lane: Lane
    task_type: str | None = None
    queue: str | None = None
    by_handler: bool = False  # a handler runs it; else it is a webhook

    def __str__(self) -> str:
        queue = "" if self.queue is None else f", queue {self.queue}"
        kind = "handler" if self.by_handler else "type"
        return f"tenant {self.tenant_id}, lane {self.lane.name}, {kind} {self.task_type}{queue}"


class Pool(msgspec.Struct, frozen=True):
    """The tasks that a node serves: those in every list; an empty list has all. Of these, webhooks
    if it calls any, and what its handlers run."""

    tenants: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    lanes: frozenset[Lane] = frozenset()
    webhooks: bool = True
    handlers: frozenset[str] | None = None  # task types; None: whatever they are
    # Of a gateway whose sessions differ: it serves what one of these has, and the lists above are
    # the bounds of all of them.
    any_of: frozenset["Pool"] = frozenset()

    @property
    def each(self) -> frozenset["Pool"]:
        """Pools without `any_of` that have the same together."""
        return self.any_of or frozenset({self})

    @property
    def is_empty(self) -> bool:
        return all(_parts(pool) == (None, None) for pool in self.each)

    @property
    def has_lists(self) -> bool:
        return bool(self.tenants or self.types or self.queues or self.lanes)

    @property
    def kinds(self) -> tuple[bool, bool]:
        """Whether it serves any webhook, and whether it serves anything by a handler."""
        webhooks, handled = _parts(self)
        return webhooks is not None, handled is not None

    def asks_for_type(self, *, by_handler: bool) -> bool:
        """Whether it must know type and queue, to tell if it serves something."""
        return bool(self.types or self.queues or (by_handler and self.handlers is not None))

    def accepts(self, work: Work) -> bool:
        """Whether it serves this. Whoever asks by type or queue serves no unknown one."""
        if self.any_of:
            return any(pool.accepts(work) for pool in self.any_of)
        return (
            (self._handles(work.task_type) if work.by_handler else self.webhooks)
            and (not self.tenants or work.tenant_id in self.tenants)
            and (not self.lanes or work.lane in self.lanes)
            and (not self.types or work.task_type in self.types)
            and (not self.queues or work.queue in self.queues)
        )

    def may_accept(self, work: Work) -> bool:
        """Whether it serves this, or some type of it."""
        if work.task_type is not None:
            return self.accepts(work)
        if self.any_of:
            return any(pool.may_accept(work) for pool in self.any_of)
        return (
            _parts(self)[work.by_handler] is not None
            and (not self.tenants or work.tenant_id in self.tenants)
            and (not self.lanes or work.lane in self.lanes)
        )

    def covers(self, other: "Pool") -> bool:
        """Whether it serves all that the other serves."""
        if self.any_of or other.any_of:
            return all(any(one.covers(their) for one in self.each) for their in other.each)
        return all(
            theirs is None or (mine is not None and all(map(_holds, mine, theirs)))
            for mine, theirs in zip(_parts(self), _parts(other), strict=True)
        )

    def overlaps(self, other: "Pool") -> bool:
        """Whether something may be served by both."""
        if self.any_of or other.any_of:
            return any(one.overlaps(their) for one in self.each for their in other.each)
        return any(
            mine is not None and theirs is not None and all(map(_meets, mine, theirs))
            for mine, theirs in zip(_parts(self), _parts(other), strict=True)
        )

    def _handles(self, task_type: str | None) -> bool:
        return self.handlers is None or task_type in self.handlers

    def __str__(self) -> str:
        named = (
            ("handler", self.handlers),
            ("tenant", self.tenants),
            ("type", self.types),
            ("queue", self.queues),
            ("lane", [lane.name for lane in self.lanes]),
        )
        kinds = ["webhooks"] if self.webhooks and self.handlers is not None else []
        if not self.webhooks and self.handlers is None:
            kinds = ["handlers"]
        lists = [f"{name} {in_few_words(of)}" for name, of in named if of]
        return "; ".join(kinds + lists) or ("everything" if self.webhooks else "nothing")


EVERYTHING = Pool()
WEBHOOKS = Pool(handlers=frozenset())  # of a node without an app
NOTHING = Pool(webhooks=False, handlers=frozenset())


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

    @property
    def is_by_kind(self) -> bool:
        """Whether its shards are all there is to it, but for which kinds it serves."""
        pool = self.pool
        return not self.others and not pool.has_lists and not pool.handlers

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
    mine = roster.get(me)
    if mine is None:
        return Territory()
    jobs = owned_shards(me, roster.keys())
    if mine.is_empty:
        return Territory(pool=mine, jobs=jobs)
    if all(pool == mine for pool in roster.values()):
        return Territory(jobs, mine, jobs=jobs)
    rivals = {node: pool for node, pool in roster.items() if pool.overlaps(mine)}
    covering = {pool for pool in set(rivals.values()) if pool.covers(mine)}
    shards, others = set(), {}
    for shard in range(SHARDS):
        before = frozenset(rivals[node] for node in outbidders(me, shard, rivals.keys()))
        if not before.isdisjoint(covering):
            continue
        shards.add(shard)
        if before:
            others[shard] = frozenset(part for pool in before for part in pool.each)
    return Territory(frozenset(shards), mine, others, jobs)


def union(pools: Iterable[Pool]) -> Pool:
    """The pool that has what any of these has, which are all of handlers."""
    merged: dict[tuple[frozenset[str], frozenset[str]], frozenset[str]] = {}
    for pool in pools:
        place = (pool.tenants, pool.queues)
        merged[place] = merged.get(place, frozenset()) | (pool.handlers or frozenset())
    if not merged:
        return NOTHING
    each = [
        Pool(tenants=tenants, queues=queues, webhooks=False, handlers=handlers)
        for (tenants, queues), handlers in merged.items()
    ]
    if len(each) == 1:
        return each[0]
    every_queue = any(not pool.queues for pool in each)
    return Pool(
        tenants=frozenset().union(*(pool.tenants for pool in each)),
        queues=frozenset() if every_queue else frozenset().union(*(p.queues for p in each)),
        webhooks=False,
        handlers=frozenset().union(*(pool.handlers or frozenset() for pool in each)),
        any_of=frozenset(each),
    )


def handled_for(tenant_id: str, pools: Iterable[Pool]) -> frozenset[str] | None:
    """The task types of a tenant that some handler runs; None: any."""
    handled: set[str] = set()
    for pool in (part for each in pools for part in each.each):
        if not pool.tenants or tenant_id in pool.tenants:
            if pool.handlers is None:
                return None
            handled |= pool.handlers
    return frozenset(handled)


def in_few_words(names: Iterable[str]) -> str:
    """Some of them by name, and how many more."""
    known = sorted(names)
    more = len(known) - _MOST_NAMED
    return ", ".join(known[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


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
            if not before & covering[pool] and not pool.is_empty:
                owned[node].add(shard)
            before |= pools[pool]
    return {node: frozenset(shards) for node, shards in owned.items()}


_Part = tuple[_Listed, ...]


def _parts(pool: Pool) -> tuple[_Part | None, _Part | None]:
    """What it serves of webhooks, and by handlers: lists that must all hold; None for nothing."""
    types, handled = pool.types or None, pool.handlers
    if types is not None:
        handled = types if handled is None else types & handled
    shared = (pool.tenants or None, pool.queues or None, pool.lanes or None)
    return (
        (*shared, types) if pool.webhooks else None,
        (*shared, handled) if handled is None or handled else None,
    )


def _holds(mine: _Listed, theirs: _Listed) -> bool:
    return mine is None or (theirs is not None and theirs <= mine)


def _meets(mine: _Listed, theirs: _Listed) -> bool:
    return mine is None or theirs is None or not mine.isdisjoint(theirs)

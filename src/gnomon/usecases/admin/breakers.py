"""Breakers that are open: what is not called, why, until when, and what waits for it."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from gnomon.model.insight.circumstances import OpenBreaker
from gnomon.store.ports.insight.stats import CappedCount, DueFlows
from gnomon.store.postgres.tasks.task_store import PostgresTasks


class BreakerState(StrEnum):
    """Of a breaker that is not closed."""

    OPEN = "open"
    HALF_OPEN = "half_open"  # the next task is called, and decides


class BreakerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The breaker of a host, or of all that the tenant runs, over the nodes where it is open."""

    host: str | None  # None: all that the tenant runs
    state: BreakerState
    opened_at: datetime | None  # on the first of these nodes; None: not known
    next_try_at: datetime  # on the first of them
    calls: int | None  # of the minute before it opened, on all of them
    failures: int | None
    error: str | None  # of the call that failed last
    nodes: tuple[str, ...]
    waiting: CappedCount  # due tasks


async def list_open(store: PostgresTasks, tenant_id: str, now: datetime) -> list[BreakerStatus]:
    """Those of a tenant, with the one of all that it runs first."""
    found = await store.open_breakers(tenant_id)
    if not found:
        return []
    due = await store.due_flows(tenant_id)
    by_host: dict[str | None, list[OpenBreaker]] = {}
    for each in found:
        by_host.setdefault(each.host, []).append(each)
    hosts = sorted(by_host, key=lambda host: host or "")
    return [_status(host, by_host[host], due, now) for host in hosts]


def _status(
    host: str | None, nodes: Sequence[OpenBreaker], due: DueFlows, now: datetime
) -> BreakerStatus:
    next_try_at = min(each.until for each in nodes)
    return BreakerStatus(
        host=host,
        state=BreakerState.OPEN if now < next_try_at else BreakerState.HALF_OPEN,
        opened_at=min((each.opened_at for each in nodes if each.opened_at), default=None),
        next_try_at=next_try_at,
        calls=_sum(each.calls for each in nodes),
        failures=_sum(each.failures for each in nodes),
        # Whose next try is the latest has failed last.
        error=max(nodes, key=lambda each: each.until).error,
        nodes=tuple(sorted(each.node for each in nodes)),
        waiting=due.waiting(lambda flow: host is None or flow.host == host),
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None

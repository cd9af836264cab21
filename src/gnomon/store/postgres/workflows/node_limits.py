"""Bounds of the tasks that runs make while they go on: elements of mapped nodes, spawned ones."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

import msgspec

from gnomon.store.postgres.limits.limit_keys import LimitersOf, no_limiters
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.tasks.admitting import QuotasOf, no_quotas
from gnomon.workflow.graph import MOST_RUN_NODES, check_run_nodes

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection


# A check of payloads of a tenant's task type, if it has a schema. It raises InvalidTask, and gives
# the steps that it took at most.
PayloadCheck: TypeAlias = Callable[[bytes | None], int]
PayloadCheckOf: TypeAlias = Callable[[str, str], PayloadCheck | None]


def no_check(_tenant_id: str, _task_type: str) -> PayloadCheck | None:
    return None


class TenantLimits(msgspec.Struct, frozen=True):
    """What holds for new tasks of a tenant."""

    most_bytes: int = 1 << 20  # of a payload
    quotas_of: QuotasOf = no_quotas
    limiters_of: LimitersOf = no_limiters
    most_nodes: int = MOST_RUN_NODES  # of a run, with elements and spawned ones
    check_of: PayloadCheckOf = no_check


async def add_nodes(
    connection: "Connection", tenant_id: str, run_id: UUID, number: int, limits: TenantLimits
) -> None:
    """Count more nodes of a run. Raises QuotaExceeded: roll back."""
    nodes: int = await connection.fetchval(query("add_nodes"), tenant_id, run_id, number)
    quota = limits.quotas_of(tenant_id).nodes_per_run
    check_run_nodes(nodes - number, number, limits.most_nodes, quota)

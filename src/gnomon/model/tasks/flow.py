"""Flows: tasks that the same limits and breakers hold up.

All tasks of one flow have the same tenant, type, queue, limit keys and host. So whatever keeps one
of them from starting, a limit that is reached or a host that is down, keeps all of them; and the
rest of the tenant's tasks can pass. A flow is told by a number that the store makes of its columns.
"""

import msgspec

UNKNOWN_FLOW = 0  # of an entry that does not say; a task that has it is one of a normal flow


class Flow(msgspec.Struct, frozen=True):
    """The fields that all tasks of a flow have in common."""

    tenant_id: str
    task_type: str
    queue: str | None = None
    limit_keys: str | None = None  # see gnomon.limits.limiter
    host: str | None = None  # with the port, as in the URL; None for what is not a webhook

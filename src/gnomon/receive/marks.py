"""Marks of tasks that a receiver has worked on, in a table of its own database.

A mark is written in the transaction of the receiver's own writes, so that both are there or none.
Each function is a generator that yields statements and is sent the first row of each: pure of any
driver. `gnomon.sdk.submitting.drivers` carries them out.
"""

from typing import Any

from gnomon.model.duration import Duration, seconds_of
from gnomon.receive.errors import Repeated, Stale
from gnomon.receive.webhooks import Received
from gnomon.sdk.submitting.drivers import Statement, Statements

DDL = """\
CREATE TABLE IF NOT EXISTS gnomon_received (
    tenant text NOT NULL,
    task_id uuid NOT NULL,
    fence bigint NOT NULL,            -- the highest that has arrived
    done boolean NOT NULL,            -- the work is committed
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, task_id)
)"""

# Both wait for a transaction that holds the row. READ COMMITTED then looks at the row as that one
# has left it, so that of two calls at once one works, and the other sees that it is done.
_ONCE = """\
INSERT INTO gnomon_received AS held (tenant, task_id, fence, done)
VALUES (:tenant, CAST(:task_id AS uuid), :fence, true)
ON CONFLICT (tenant, task_id) DO UPDATE SET fence = excluded.fence, done = true, received_at = now()
WHERE NOT held.done AND held.fence <= excluded.fence
RETURNING fence"""
_ADMIT = """\
INSERT INTO gnomon_received AS held (tenant, task_id, fence, done)
VALUES (:tenant, CAST(:task_id AS uuid), :fence, false)
ON CONFLICT (tenant, task_id) DO UPDATE SET fence = excluded.fence, received_at = now()
WHERE NOT held.done AND held.fence <= excluded.fence
RETURNING fence"""
_LOOK = """\
SELECT fence, done FROM gnomon_received
WHERE tenant = :tenant AND task_id = CAST(:task_id AS uuid)"""
_PRUNE = """\
WITH pruned AS (
    DELETE FROM gnomon_received
    WHERE received_at < now() - :seconds * interval '1 second'
    RETURNING 1
)
SELECT count(*) FROM pruned"""


def once(received: Received[Any]) -> Statements:
    """Mark the task as done. Raises Repeated and Stale."""
    return _written(_ONCE, received)


def admit(received: Received[Any]) -> Statements:
    """Note that this execution has arrived: earlier ones are stale from now on. Raises Repeated and
    Stale."""
    return _written(_ADMIT, received)


def prune(older_than: Duration) -> Statements:
    """Remove marks that are older. Returns how many."""
    row = yield Statement(_PRUNE, {"seconds": seconds_of(older_than)})
    assert row is not None
    return int(row[0])


def _written(text: str, received: Received[Any]) -> Statements:
    values = {
        "tenant": received.tenant,
        "task_id": str(received.task_id),
        "fence": received.fence,
    }
    key = {name: values[name] for name in ("tenant", "task_id")}
    while (yield Statement(text, values)) is None:
        row = yield Statement(_LOOK, key)
        if row is None:
            continue  # it was pruned between the two
        if row[1]:
            raise Repeated(received.task_id)
        raise Stale(received.task_id, received.fence, row[0])

"""Checks of the work in the database: partitions, retention, nodes, what is late."""

from typing import TYPE_CHECKING

from gnomon.cli.admin.checks.check import Check

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

DAYS_AHEAD = 2
OVERDUE_SECONDS = 60.0
FEED_SECONDS = 60.0
RETENTION_SECONDS = 600.0
WAITING_SECONDS = 3600.0
_SHOWN = 3  # examples of work that no node serves


async def partitions_ahead(connection: "Connection") -> Check:
    from gnomon.store.postgres.retention import partitions

    today = (await connection.fetchval("SELECT gnomon.now()")).date()
    days = await partitions.days_ahead(connection, today)
    detail = f"made for {days} days from today"
    remedy = "run `gnomon migrate`; a running node makes them by itself"
    if days >= DAYS_AHEAD and (waiting := await partitions.waiting(connection)):
        return await _waiting(connection, waiting)
    return Check("partitions", days >= DAYS_AHEAD, detail, remedy)


async def _waiting(connection: "Connection", partitions: list[str]) -> Check:
    """Partitions past retention, which are dropped once no transaction can still read them."""
    oldest = await connection.fetchrow(
        """
        SELECT pid, application_name,
            extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds
        FROM pg_stat_activity
        WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
        ORDER BY xact_start
        LIMIT 1
        """
    )
    seconds = 0.0 if oldest is None else oldest["seconds"]
    detail = f"{', '.join(partitions[:_SHOWN])} wait to be dropped"
    if oldest is not None:
        who = f"{oldest['pid']} ({oldest['application_name'] or 'unnamed'})"
        detail += f"; the oldest transaction is of session {who}, open for {seconds:.0f} s"
    remedy = "end that session: SELECT pg_terminate_backend(PID)"
    return Check("partitions", seconds < WAITING_SECONDS, detail, remedy)


async def crowding(connection: "Connection") -> Check:
    """Lanes for which new tasks are refused because too many wait."""
    from gnomon.store.postgres.crowding.crowding import crowds_of
    from gnomon.store.postgres.queries import query

    row = await connection.fetchrow(query("revision"))
    assert row is not None, "the table has one row"
    if row["crowded_at"] is None:
        return Check("depth", True, "no lane has too many waiting tasks")
    crowds = crowds_of(await connection.fetch(query("crowded_lanes")))
    shown = [
        f"{key.lane.name} of tenant {key.tenant_id} ({crowd.ready} wait, {crowd.most} may)"
        for key, crowd in list(crowds.items())[:_SHOWN]
    ]
    more = ", and others" if len(crowds) > _SHOWN else ""
    remedy = (
        "add nodes or slots; look for a target that is slow or away; or raise the quota "
        "ready_tasks or sharing.max_ready_tasks"
    )
    return Check("depth", False, f"new tasks are refused: {', '.join(shown)}{more}", remedy)


async def feeds(connection: "Connection") -> Check:
    """Feeds whose outcomes wait for a broker."""
    from gnomon.store.postgres.queries import query

    rows = await connection.fetch(query("look_feeds"), FEED_SECONDS, _SHOWN + 1)
    if not rows:
        return Check("feeds", True, "no outcome waits for a feed")
    shown = [
        f"{row['name']} of tenant {row['tenant_id']}"
        + (" has a gap" if row["gap_since"] is not None else " is behind")
        + (f" ({row['last_error']})" if row["last_error"] is not None else "")
        for row in rows[:_SHOWN]
    ]
    more = ", and others" if len(rows) > _SHOWN else ""
    remedy = (
        "see that the broker answers, and that a node has the connection in targets.queues; "
        "`gnomon feeds show NAME` tells what waits"
    )
    return Check("feeds", False, f"{', '.join(shown)}{more}", remedy)


async def retention(connection: "Connection") -> Check:
    """Expired rows that still exist. Idempotency keys come fastest: where they wait, others do."""
    seconds = await connection.fetchval(
        """
        SELECT extract(epoch FROM gnomon.now() - (
            SELECT expires_at FROM gnomon.idempotency ORDER BY expires_at LIMIT 1
        ))::float8
        """
    )
    late = max(seconds or 0.0, 0.0)
    detail = "nothing is past its time"
    if late >= 1:
        detail = f"the oldest idempotency key is {late:.0f} s past its time"
    remedy = "look for `does not keep pace` in the log of the nodes, and for long transactions"
    return Check("retention", late < RETENTION_SECONDS, detail, remedy)


async def nodes(connection: "Connection") -> Check:
    alive = await connection.fetchval(
        "SELECT count(*) FROM gnomon.node WHERE NOT dead AND alive_until > gnomon.now()"
    )
    return Check("nodes", alive > 0, f"{alive} alive", "start `gnomon up` or `gnomon scheduler`")


async def handlers(connection: "Connection") -> Check:
    from gnomon.store.postgres.dispatch.pools import unhandled

    waiting = await unhandled(connection)
    if not waiting:
        return Check("handlers", True, "every task type that waits for a handler has one")
    named = "; ".join(map(str, waiting[:_SHOWN])) + ("; …" if len(waiting) > _SHOWN else "")
    remedy = (
        "start a worker that handles them (`gnomon worker`); if a handler was renamed, give it "
        f'aliases=["{waiting[0].task_type}"]'
    )
    return Check("handlers", False, f"no live worker handles {named}", remedy)


async def pools(connection: "Connection") -> Check:
    from gnomon.store.postgres.dispatch.pools import unhandled, unserved

    told = {(each.tenant_id, each.task_type) for each in await unhandled(connection)}
    waiting = [
        work
        for work in await unserved(connection)
        if not work.by_handler or (work.tenant_id, work.task_type) not in told
    ]
    if not waiting:
        return Check("pools", True, "every waiting task has a node that serves it")
    named = "; ".join(map(str, waiting[:_SHOWN])) + ("; …" if len(waiting) > _SHOWN else "")
    remedy = "start a node without a pool, or one that serves them (`gnomon scheduler --serve-…`)"
    return Check("pools", False, f"no node serves {named}", remedy)


async def due_tasks(connection: "Connection") -> Check:
    # One look into the index for each shard, however large the backlog.
    seconds = await connection.fetchval(
        """
        SELECT extract(epoch FROM gnomon.now() - min(head.due_at))::float8
        FROM generate_series(0, 255) AS shard
        CROSS JOIN LATERAL (
            SELECT due_at FROM gnomon.task t
            WHERE t.state = 0 AND t.shard = shard.shard
            ORDER BY t.due_at LIMIT 1
        ) AS head
        """
    )
    late = max(seconds or 0.0, 0.0)
    detail = f"the oldest waiting task is {late:.0f} s late" if late >= 1 else "nothing is late"
    remedy = "add a node or slots (`gnomon scheduler --slots N`), or look at `gnomon nodes`"
    return Check("due tasks", late < OVERDUE_SECONDS, detail, remedy)

"""What limits the fleet now: slots, the database, a limiter, a breaker, a missing node."""

from collections import Counter
from typing import TYPE_CHECKING

from gnomon.cli.admin.checks.check import Check

if TYPE_CHECKING:
    import asyncpg

    from gnomon.model.insight.explanation import Explanation
    from gnomon.model.tasks.task import TaskKey
    from gnomon.store.postgres.database import Database

    Connection = asyncpg.Connection[asyncpg.Record]

LATE_SECONDS = 5.0
BUSY = 0.9  # of slots, or of the server's connections
LOCK_WAITS = 5  # sessions that wait for a lock
_FLOWS = 2_000  # whose first task is looked at
_EXAMINED = 20  # of them: the reasons are read for each
_SHOWN = 3


async def database_load(connection: "Connection") -> Check:
    """Whether the server itself keeps work waiting."""
    row = await connection.fetchrow(
        """
        SELECT count(*) FILTER (WHERE backend_type = 'client backend') AS sessions,
            current_setting('max_connections')::int AS most,
            count(*) FILTER (WHERE wait_event_type = 'Lock') AS locked
        FROM pg_stat_activity
        """
    )
    assert row is not None, "a count is always there"
    detail = f"{row['sessions']} of {row['most']} connections, {row['locked']} wait for a lock"
    if row["sessions"] >= BUSY * row["most"]:
        remedy = "raise max_connections, lower database.connections, or put a pooler between"
        return Check("database load", False, detail, remedy)
    remedy = "look for long transactions: SELECT pid, xact_start, query FROM pg_stat_activity"
    return Check("database load", row["locked"] < LOCK_WAITS, detail, remedy)


async def fleet(database: "Database") -> Check:
    """What keeps due tasks from starting, by the reasons that `gnomon tasks explain` gives."""
    from gnomon.store.ports.roster import NodeKind
    from gnomon.store.postgres.dispatch.node_reader import PostgresNodeReader
    from gnomon.store.postgres.levels.stuck_store import FlowPlace, PostgresStuck

    late, _ = await PostgresStuck(database).waiting(FlowPlace(), LATE_SECONDS, _FLOWS)
    if not late:
        return Check("fleet", True, f"nothing waits for more than {LATE_SECONDS:.0f} s")
    found = await PostgresNodeReader(database).nodes(1_000)
    # The slots of a session are counted at its gateway.
    live = [n for n in found if not n.dead and n.kind is not NodeKind.SESSION]
    slots, running = sum(n.slots for n in live), sum(n.running for n in live)
    if not live:
        remedy = "start `gnomon up` or `gnomon scheduler`"
        return Check("fleet", False, f"{_kinds(len(late))} wait, and no node is alive", remedy)
    reasons = Counter[tuple[str, str]]()
    for head in late[:_EXAMINED]:
        reasons[await _reason(database, head.key, busy=running >= BUSY * slots)] += 1
    examined = sum(reasons.values())
    told = [f"{why} ({count} of {examined})" for (why, _), count in reasons.most_common(_SHOWN)]
    detail = f"{_kinds(len(late))} wait; {'; '.join(told)}; {running} of {slots} slots are busy"
    remedies = dict.fromkeys(helps for (_, helps), _ in reasons.most_common(_SHOWN) if helps)
    return Check("fleet", False, detail, "; ".join(remedies))


async def _reason(database: "Database", key: "TaskKey", *, busy: bool) -> tuple[str, str]:
    """Why the first task of a flow waits, and what would help."""
    from gnomon.model.errors import TaskNotFound
    from gnomon.model.insight.explanation import explain
    from gnomon.store.postgres.tasks import reading

    try:
        task = await reading.get(database, key)
    except TaskNotFound:
        return "started meanwhile", ""
    around = await reading.circumstances(database, key)
    found = explain(task, around)
    if around.server is None:
        return f"no node serves {task.task_type!r}", "start a node or worker that serves it"
    if found.held_by:
        return _held(found)
    if busy:
        return "all slots are busy", "add nodes, or slots (`gnomon scheduler --slots N`)"
    if around.failing:
        return "a chore of a node fails", "look at the checks of chores above, and at the logs"
    if around.ahead:
        return "others are due before them", "add nodes or slots, or raise their priority"
    return (
        "nothing known holds them up",
        "look at `gnomon tasks explain` and the logs",
    )


def _held(found: "Explanation") -> tuple[str, str]:
    hold = found.held_by[0]
    remedy = next((each for each in found.remedies if hold.name and hold.name in each), "")
    return f"{hold.kind} {hold.name!r}", remedy or found.remedies[-1]


def _kinds(count: int) -> str:
    return f"{count} kind{'' if count == 1 else 's'} of tasks"

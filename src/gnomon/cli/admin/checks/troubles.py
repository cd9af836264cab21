"""Checks of background work that fails, and of cron jobs that it has paused."""

from typing import TYPE_CHECKING

from gnomon.cli.admin.checks.check import Check
from gnomon.store.ports.planning import UNPLANNABLE

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

_MOST_SHOWN = 20


async def chores(connection: "Connection") -> list[Check]:
    """A check for each trouble of a living process; those that affect all tenants come first."""
    rows = await connection.fetch(
        """
        SELECT name, chore, tenant_id, subject, error, remedy, since, count
        FROM gnomon.trouble
        WHERE known_until > gnomon.now()
        ORDER BY tenant_id <> '', last DESC
        LIMIT $1
        """,
        _MOST_SHOWN + 1,
    )
    if not rows:
        return [Check("chores", True, "none fails")]
    checks = [_trouble(row) for row in rows[:_MOST_SHOWN]]
    if len(rows) > _MOST_SHOWN:
        more = "there are more: see the table gnomon.trouble"
        checks.append(Check("chores", False, more, "put those above right first"))
    return checks


def _trouble(row: "asyncpg.Record") -> Check:
    whom = f"tenant {row['tenant_id']}" if row["tenant_id"] else ""
    about = ", ".join(filter(None, (row["subject"], whom)))
    since = f"{row['since']:%Y-%m-%dT%H:%M:%SZ}"
    detail = f"{about + ': ' if about else ''}{row['error']} (on {row['name']}, "
    detail += f"{row['count']} times since {since})"
    return Check(f"chore {row['chore']}", False, detail, row["remedy"])


async def parked_jobs(connection: "Connection") -> list[Check]:
    """A check for each cron job that was paused because it cannot be planned."""
    rows = await connection.fetch(
        """
        SELECT tenant_id, name, pause_reason FROM gnomon.cron_job
        WHERE paused_at IS NOT NULL AND starts_with(pause_reason, $1)
        ORDER BY paused_at
        LIMIT $2
        """,
        UNPLANNABLE,
        _MOST_SHOWN,
    )
    return [
        Check(
            "cron job",
            False,
            f"{row['name']} of tenant {row['tenant_id']} is paused: {row['pause_reason']}",
            f"correct it, then `gnomon cron resume {row['name']}`",
        )
        for row in rows
    ]

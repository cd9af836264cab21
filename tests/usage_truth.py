"""What was used, twice: as the meter has it, and as the rows of the tasks tell it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import asyncpg
import pytest

Fetch = Callable[[str], Awaitable[Sequence[asyncpg.Record]]]

METERED = """
    SELECT tenant_id, sum(submissions)::bigint, sum(executions)::bigint,
        sum(compute_seconds), sum(stored_bytes)::bigint
    FROM gnomon.usage GROUP BY tenant_id
"""
TOLD = """
    WITH task AS (
        SELECT tenant_id, id, payload FROM gnomon.task
        UNION ALL
        SELECT tenant_id, id, payload FROM gnomon.task_archive
    ), submitted AS (
        SELECT t.tenant_id, count(*) AS submissions,
            coalesce(sum(octet_length(coalesce(t.payload, p.payload)::text)), 0) AS bytes
        FROM task t
        LEFT JOIN gnomon.task_payload p ON p.tenant_id = t.tenant_id AND p.task_id = t.id
        GROUP BY t.tenant_id
    ), tried AS (
        SELECT tenant_id, count(*) AS executions,
            coalesce(sum(extract(epoch FROM finished_at - started_at)), 0)::float8 AS seconds,
            coalesce(sum(octet_length(response_body)), 0)
                + coalesce(sum(octet_length(result::text)), 0) AS bytes
        FROM gnomon.all_executions WHERE finished_at IS NOT NULL GROUP BY tenant_id
    )
    SELECT s.tenant_id, s.submissions, coalesce(t.executions, 0) AS executions,
        coalesce(t.seconds, 0) AS compute_seconds, s.bytes + coalesce(t.bytes, 0) AS stored_bytes
    FROM submitted s LEFT JOIN tried t USING (tenant_id)
"""


class Used(NamedTuple):
    """By a tenant, on all days."""

    submissions: int
    executions: int
    compute_seconds: Any
    stored_bytes: int


async def metered(fetch: Fetch) -> dict[str, Used]:
    return _used(await fetch(METERED))


async def told(fetch: Fetch) -> dict[str, Used]:
    """From the rows; seconds are equal where they are so but for the rounding of floats."""
    found = _used(await fetch(TOLD))
    return {
        tenant: used._replace(compute_seconds=pytest.approx(used.compute_seconds, rel=1e-9))
        for tenant, used in found.items()
    }


def _used(rows: Sequence[asyncpg.Record]) -> dict[str, Used]:
    return {tenant: Used(*rest) for tenant, *rest in rows}

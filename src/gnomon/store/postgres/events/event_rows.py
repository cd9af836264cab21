"""Rows of events as records."""

import asyncpg

from gnomon.store.ports.insight.events import EventRecord


def event_of(row: asyncpg.Record) -> EventRecord:
    return EventRecord(
        tenant_id=row["tenant_id"],
        id=row["id"],
        kind=row["kind"],
        at=row["at"],
        cron_job_id=row["cron_job_id"],
        task_id=row["task_id"],
        detail=row["detail"].encode(),
        number=row["number"],
        acknowledged_at=row["acknowledged_at"],
        acknowledged_by=row["acknowledged_by"],
        note=row["note"],
    )

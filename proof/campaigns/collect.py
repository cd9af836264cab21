"""Reads, at the end of a campaign, what is left of it: in files, and in PostgreSQL."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import asyncpg
import msgspec
from proof.campaigns.history import Call, Changed, Effect, Final, Submitted, read

_FINALS = """
    SELECT (payload->>'n')::bigint AS n, id::text AS task_id, state, fence, attempt, last_error
    FROM gnomon.task
    UNION ALL
    SELECT (payload->>'n')::bigint, id::text, state, fence, attempt, last_error
    FROM gnomon.task_archive
"""


class Recorded(Protocol):
    """What a load keeps of what it asked and was answered."""

    @property
    def submitted(self) -> Iterable[Submitted]: ...

    @property
    def changed(self) -> Iterable[Changed]: ...


class Collected(msgspec.Struct, frozen=True):
    """What others than the load have noted."""

    calls: list[Call]
    effects: list[Effect]
    finals: list[Final]


async def collect(dsn: str, folder: Path) -> Collected:
    effects = [e for file in sorted(folder.glob("effects-*.jsonl")) for e in read(file, Effect)]
    connection = await asyncpg.connect(dsn, timeout=60)
    try:
        rows = await connection.fetch("SELECT n, run_id, fence, at FROM proof.effect ORDER BY at")
        finals = await connection.fetch(_FINALS)
    finally:
        await connection.close()
    return Collected(
        calls=merged(c for file in sorted(folder.glob("calls-*.jsonl")) for c in read(file, Call)),
        effects=effects + [Effect(**row) for row in rows],
        finals=[Final(**row) for row in finals],
    )


def merged(lines: Iterable[Call]) -> list[Call]:
    """A call is noted when it begins and again when it ends: once each, in the order of time."""
    calls: dict[tuple[int, int, int, float], Call] = {}
    for call in lines:
        key = (call.n, call.fence, call.attempt, call.began_at)
        if key not in calls or call.ended_at is not None:
            calls[key] = call
    return sorted(calls.values(), key=lambda call: call.began_at)

"""Idempotency keys: taken in the transaction of the change that they guard, so both happen or
neither does."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg
import msgspec

from gnomon.model.errors import IdempotencyPending
from gnomon.store.ports.work.tasks import Once
from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

# How long a request waits for the first one with its key. Where many share a transaction all of
# them wait, so there it is short, and whoever gave up is tried again on its own.
ALONE_SECONDS = 3.0
TOGETHER_SECONDS = 0.25

UNANSWERED = b"null"


class Wanted(msgspec.Struct, frozen=True):
    """A key to be taken, and what to remember with it."""

    tenant_id: str
    once: Once
    task_id: UUID | None
    answer: bytes


class Used(msgspec.Struct, frozen=True):
    """A key that was used before: its fingerprint, task and answer."""

    fingerprint: bytes
    task_id: UUID | None
    answer: bytes


async def claim(
    connection: "Connection", wanted: Sequence[Wanted], keep_seconds: float
) -> list[Used | None]:
    """Take the keys; for each, None where it is ours now, or what it was used for before.

    Of equal keys in one call the first takes it, and the others find it used.
    """
    first: dict[tuple[str, str], Wanted] = {}
    for each in wanted:
        first.setdefault((each.tenant_id, each.once.key), each)
    taken = await _take(connection, list(first.values()), keep_seconds)
    used = await _read(connection, [key for key in first if key not in taken])
    found: list[Used | None] = []
    for each in wanted:
        key = (each.tenant_id, each.once.key)
        if key in used:
            found.append(used[key])
        elif first[key] is each:
            found.append(None)
        else:
            mate = first[key]
            found.append(Used(mate.once.fingerprint, mate.task_id, mate.answer))
    return found


async def answer(connection: "Connection", tenant_id: str, key: str, text: bytes) -> None:
    """Keep the answer with a key that was claimed before there was one."""
    await connection.execute(query("answer_key"), tenant_id, key, text.decode())


async def answered(
    connection: "Connection", tenant_id: str, requests: Sequence[Once]
) -> dict[Once, bytes]:
    """The first answers to those of the requests that were made before."""
    rows = await connection.fetch(
        query("answered_keys"),
        tenant_id,
        [once.key for once in requests],
        [once.fingerprint for once in requests],
    )
    return {Once(row["key"], row["fingerprint"]): row["answer"].encode() for row in rows}


async def free(connection: "Connection", taken: Sequence[tuple[str, str]]) -> None:
    """Give back keys that were claimed in this transaction."""
    await connection.execute(
        query("free_keys"), [tenant_id for tenant_id, _ in taken], [key for _, key in taken]
    )


async def _take(
    connection: "Connection", wanted: Sequence[Wanted], keep_seconds: float
) -> set[tuple[str, str]]:
    try:
        rows = await connection.fetch(
            query("claim_keys"),
            [each.tenant_id for each in wanted],
            [each.once.key for each in wanted],
            [each.once.fingerprint for each in wanted],
            [each.task_id for each in wanted],
            [each.answer.decode() for each in wanted],
            keep_seconds,
        )
    except asyncpg.LockNotAvailableError as error:
        raise IdempotencyPending(wanted[0].once.key) from error
    return {(row["tenant_id"], row["key"]) for row in rows}


async def _read(
    connection: "Connection", used: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], Used]:
    if not used:
        return {}
    rows = await connection.fetch(
        query("read_keys"), [tenant_id for tenant_id, _ in used], [key for _, key in used]
    )
    return {
        (row["tenant_id"], row["key"]): Used(
            row["fingerprint"], row["task_id"], row["answer"].encode()
        )
        for row in rows
    }

"""Worker pools as PostgreSQL stores them, and as parameters of statements."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from gnomon.model.pool import EVERYTHING, NOTHING, Pool, Territory, Work
from gnomon.store.ports.dispatch import Cursor
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import UNREADABLE, lane_of

if TYPE_CHECKING:
    import asyncpg

    from gnomon.store.postgres.database import Connection

_MOST_FLOWS = 2000  # that are looked at for what nobody serves
_LOWEST_FLOW = -(1 << 63)
_encoder = msgspec.json.Encoder(order="sorted")


def serves_of(pool: Pool) -> str | None:
    """A pool as the roster stores it."""
    return None if pool == EVERYTHING else _encoder.encode(_lists(pool)).decode()


def pool_of(serves: str | None) -> Pool:
    """One that cannot be read serves nothing, so that the others serve all of it."""
    try:
        return EVERYTHING if serves is None else msgspec.json.decode(serves, type=Pool)
    except UNREADABLE:
        return NOTHING


def pool_columns(pool: Pool) -> tuple[object, ...]:
    """Whether it is less than everything; tenants, lanes, types and queues, None for all; whether
    it has webhooks; handlers, None for any."""
    return (
        pool != EVERYTHING,
        list(pool.tenants) or None,
        list(pool.lanes) or None,
        list(pool.types) or None,
        list(pool.queues) or None,
        pool.webhooks,
        None if pool.handlers is None else list(pool.handlers),
    )


def territory_columns(within: Territory, cursors: Sequence[Cursor]) -> tuple[object, ...]:
    """The pool, and the pools of others in the shards of the cursors."""
    _, *pool = pool_columns(within.pool)
    others = [_others(within, cursor.shard) for cursor in cursors] if within.others else []
    return (not within.is_whole, *pool, others)


async def unserved(
    connection: "Connection | asyncpg.Connection[asyncpg.Record]",
) -> list[Work]:
    """Waiting work that no node in the roster serves, of the first flows. None where the roster is
    empty: then pools are not the reason."""
    pools = {pool_of(row["serves"]) for row in await connection.fetch(query("roster"))}
    if not pools or EVERYTHING in pools:
        return []
    known: list[list[object]] = [[]] * 4
    rows = await connection.fetch(query("flows"), "", 0, _LOWEST_FLOW, _MOST_FLOWS, *known)
    waiting = {
        Work(r["tenant_id"], lane_of(r["lane"]), r["task_type"], r["queue"], r["by_handler"])
        for r in rows
    }
    return sorted((w for w in waiting if not any(p.accepts(w) for p in pools)), key=str)


def _others(within: Territory, shard: int) -> str | None:
    pools = within.others.get(shard)
    return None if pools is None else _encoder.encode(list(map(_lists, pools))).decode()


def _lists(pool: Pool) -> dict[str, object]:
    """The fields that leave anything out."""
    fields = msgspec.structs.asdict(pool).items()
    return {name: of for name, of in fields if of != getattr(EVERYTHING, name)}

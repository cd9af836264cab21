"""Worker pools as PostgreSQL stores them, and as parameters of statements."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from gnomon.model.fleet.pool import EVERYTHING, NOTHING, Pool, Territory, Work, handled_for
from gnomon.store.ports.dispatch import Cursor
from gnomon.store.ports.roster import AppVersion, NodeKind, Unhandled
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import UNREADABLE, lane_of

if TYPE_CHECKING:
    import asyncpg

    from gnomon.store.postgres.database import Connection

_MOST_FLOWS = 2000  # that are looked at for what nobody serves
_LOWEST_FLOW = -(1 << 63)
_MOST_COUNTED = 1000  # tasks of one flow
_encoder = msgspec.json.Encoder(order="sorted")


def serves_of(pool: Pool, app: AppVersion | None = None) -> str | None:
    """A pool as the roster stores it, with the app that it is for."""
    serves = _lists(pool) | ({} if app is None else {"app": app})
    return _encoder.encode(serves).decode() if serves else None


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


def pools_of(pool: Pool) -> str | None:
    """The pool alone, for gnomon.in_a_pool; None for everything."""
    return None if pool == EVERYTHING else _encoder.encode([_lists(pool)]).decode()


def territory_columns(within: Territory, cursors: Sequence[Cursor]) -> tuple[object, ...]:
    """The pool, and the pools of others in the shards of the cursors."""
    _, *pool = pool_columns(within.pool)
    others = [_others(within, cursor.shard) for cursor in cursors] if within.others else []
    return (not within.is_whole, *pool, others)


async def unhandled(
    connection: "Connection | asyncpg.Connection[asyncpg.Record]", tenant_id: str | None = None
) -> list[Unhandled]:
    """Task types that wait, and that no node in the roster handles; of all tenants, or of one. Of
    the first flows, and counted up to a bound."""
    pools = await _pools(connection)
    rows = await _flows(connection, tenant_id or "")
    lacking = [
        row
        for row in rows
        if row["by_handler"]
        and tenant_id in (None, row["tenant_id"])
        and (known := handled_for(row["tenant_id"], pools)) is not None
        and row["task_type"] not in known
    ]
    if not lacking:
        return []
    columns = ([row[name] for row in lacking] for name in ("tenant_id", "lane", "flow"))
    counts = await connection.fetch(query("count_unhandled"), *columns, _MOST_COUNTED)
    found: dict[tuple[str, str], list[int]] = {}
    for row, counted in zip(lacking, counts, strict=True):
        found.setdefault((row["tenant_id"], row["task_type"]), []).append(counted["count"])
    return [
        Unhandled(tenant, kind, sum(of), at_least=_MOST_COUNTED in of)
        for (tenant, kind), of in sorted(found.items())
    ]


async def _pools(
    connection: "Connection | asyncpg.Connection[asyncpg.Record]",
) -> list[Pool]:
    """Of the nodes in the roster. A session's is part of its gateway's."""
    rows = await connection.fetch(query("roster"))
    return [pool_of(row["serves"]) for row in rows if row["kind"] != NodeKind.SESSION]


async def _flows(
    connection: "Connection | asyncpg.Connection[asyncpg.Record]", tenant_id: str = ""
) -> "list[asyncpg.Record]":
    known: list[list[object]] = [[]] * 4
    return await connection.fetch(
        query("flows"), tenant_id, 0 if not tenant_id else -1, _LOWEST_FLOW, _MOST_FLOWS, *known
    )


async def unserved(
    connection: "Connection | asyncpg.Connection[asyncpg.Record]",
) -> list[Work]:
    """Waiting work that no node in the roster serves, of the first flows. None where the roster is
    empty: then pools are not the reason."""
    pools = set(await _pools(connection))
    if not pools or EVERYTHING in pools:
        return []
    rows = await _flows(connection)
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
    lists = {name: of for name, of in fields if of != getattr(EVERYTHING, name)}
    if pool.any_of:  # in one order, so that a pool that has not changed is the same text
        parts = sorted(_encoder.encode(_lists(part)) for part in pool.any_of)
        lists["any_of"] = [*map(msgspec.Raw, parts)]
    return lists

"""`gnomon nodes`: who is in the roster, what each serves and runs, and how far behind it is."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import typer

from gnomon import loop
from gnomon.cli.shared import database, output, values
from gnomon.cli.shared.options import AsJson, settings_of
from gnomon.cli.shared.output import CommandFailed
from gnomon.model.pool import Pool, territory
from gnomon.model.shard import SHARDS

_COUNTED = 100  # waiting tasks a shard, so that the cost has a bound, whatever the backlog
_COLUMNS = [
    "name", "incarnation", "state", "lease", "serves", "shards", "slots", "running", "lag",
    "started", "version",
]  # fmt: skip


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the roster. `lag_seconds` is the age of the oldest due task in its shards."""

    name: str
    incarnation: UUID
    version: str
    state: str
    alive: bool
    dead: bool
    started_at: datetime
    alive_until: datetime
    lease_seconds: float  # that it is still good; negative where it has run out
    serves: dict[str, list[str]]  # its pool: what is in all of these; empty: everything
    shards: int
    slots: int
    running: int
    lag_seconds: float | None


class DueView(msgspec.Struct, frozen=True):
    """What is due and waits, in all shards."""

    tasks: int
    at_least: bool  # there are more than were counted
    lag_seconds: float | None


def nodes(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the scheduler nodes that the database knows.

    Each with how long its lease is still good, what it serves (its pool), how many of the 256
    shards it serves that in, how many tasks it runs in how many slots, and its lag: how long the
    oldest due task in its shards has been waiting. A silent node's lease has run out, but no peer
    has declared it dead: it may still come back.

    \b
    gnomon nodes
    gnomon nodes --json
    """
    rows, shards = loop.run(_read(database.existing_dsn(settings_of(ctx))))
    seen, due = _views(rows, shards), _due(shards)
    if as_json:
        output.document({"nodes": seen, "due": due})
        return
    if not seen:
        output.note("no node has joined yet; start one with `gnomon up` or `gnomon scheduler`")
        return
    output.table(_COLUMNS, [_line(node) for node in seen])
    output.line(_due_line(due))


def _line(node: NodeView) -> tuple[str, ...]:
    return (
        node.name,
        str(node.incarnation)[:8],
        node.state,
        _lease(node),
        "; ".join(f"{name} {', '.join(of)}" for name, of in node.serves.items()) or "everything",
        "-" if node.dead else f"{node.shards} of {SHARDS}",
        str(node.slots),
        str(node.running),
        _seconds(node.lag_seconds),
        output.moment(values.rfc3339(node.started_at)),
        node.version,
    )


def _lease(node: NodeView) -> str:
    if node.dead:
        return "-"
    text = _seconds(abs(node.lease_seconds))
    return text if node.alive else f"overdue by {text}"


def _due_line(due: DueView) -> str:
    if not due.tasks:
        return "no task is due and waiting"
    count = f"{'at least ' if due.at_least else ''}{due.tasks}"
    return f"due and waiting: {count}, the oldest for {_seconds(due.lag_seconds)}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _views(rows: Sequence[Any], shards: Mapping[int, Any]) -> list[NodeView]:
    from gnomon.store.postgres.dispatch.pools import pool_of

    # As the nodes see it themselves: who is silent keeps its shards until it is declared dead.
    pools = {row["incarnation"]: pool_of(row["serves"]) for row in rows}
    living = {row["incarnation"]: pools[row["incarnation"]] for row in rows if not row["dead"]}
    return [
        _view(
            {**row, "serves": _serves(pools[row["incarnation"]])},
            territory(row["incarnation"], living).shards,
            shards,
        )
        for row in rows
    ]


def _serves(pool: Pool) -> dict[str, list[str]]:
    lists = {
        "tenants": sorted(pool.tenants),
        "types": sorted(pool.types),
        "queues": sorted(pool.queues),
        "lanes": [lane.name for lane in sorted(pool.lanes)],
    }
    return {name: of for name, of in lists.items() if of}


def _view(row: Mapping[str, Any], owned: frozenset[int], shards: Mapping[int, Any]) -> NodeView:
    alive = not row["dead"] and row["lease_seconds"] > 0
    return NodeView(
        **row,
        alive=alive,
        state="dead" if row["dead"] else "alive" if alive else "silent",
        shards=len(owned),
        lag_seconds=_longest(shards[shard] for shard in owned if shard in shards),
    )


def _due(shards: Mapping[int, Any]) -> DueView:
    counts = [row["due"] for row in shards.values()]
    return DueView(sum(counts), _COUNTED in counts, _longest(shards.values()))


def _longest(shards: Iterable[Any]) -> float | None:
    return max((row["lag_seconds"] for row in shards), default=None)


async def _read(dsn: str) -> tuple[Sequence[Any], Mapping[int, Any]]:
    """The nodes, and the shards where something waits."""
    import asyncpg

    from gnomon.store.postgres.queries import query

    async with database.connection(dsn) as connection:
        try:
            rows = await connection.fetch(query("nodes"))
            due = await connection.fetch(query("due_by_shard"), _COUNTED)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError) as error:
            raise CommandFailed("the schema is not there yet; run `gnomon migrate`") from error
    return rows, {row["shard"]: row for row in due}

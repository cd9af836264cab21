"""`gnomon nodes`: who is in the roster."""

from datetime import datetime
from uuid import UUID

import msgspec
import typer

from gnomon.cli import database, loop, output, values
from gnomon.cli.options import AsJson, settings_of
from gnomon.cli.output import CommandFailed


class NodeRow(msgspec.Struct, frozen=True):
    """A line of the roster."""

    name: str
    incarnation: UUID
    version: str
    slots: int
    started_at: datetime
    alive_until: datetime
    dead: bool
    alive: bool

    @property
    def state(self) -> str:
        if self.dead:
            return "dead"
        return "alive" if self.alive else "silent"


def nodes(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the scheduler nodes that the database knows.

    A silent node's lease has run out, but no peer has declared it dead: it may still come back.

    \b
    gnomon nodes
    gnomon nodes --json
    """
    rows = loop.run(_read(database.existing_dsn(settings_of(ctx))))
    if as_json:
        output.document({"nodes": rows})
        return
    if not rows:
        output.note("no node has joined yet; start one with `gnomon up` or `gnomon scheduler`")
        return
    output.table(
        ["name", "incarnation", "state", "started", "alive until", "slots", "version"],
        [
            (
                row.name,
                str(row.incarnation)[:8],
                row.state,
                output.moment(values.rfc3339(row.started_at)),
                output.moment(values.rfc3339(row.alive_until)),
                str(row.slots),
                row.version,
            )
            for row in rows
        ],
    )


async def _read(dsn: str) -> list[NodeRow]:
    import asyncpg

    async with database.connection(dsn) as connection:
        try:
            rows = await connection.fetch(
                """
                SELECT name, incarnation, version, slots, started_at, alive_until, dead,
                       NOT dead AND alive_until > gnomon.now() AS alive
                FROM gnomon.node
                ORDER BY dead, started_at
                """
            )
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError) as error:
            raise CommandFailed("the schema is not there yet; run `gnomon migrate`") from error
    return [NodeRow(**row) for row in rows]

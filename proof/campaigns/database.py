"""What a campaign has in the database besides Gnomon's, and asks of it."""

import asyncpg
from proof.campaigns.cluster import Server
from tests.conftest import migrated

_SCHEMA = """
    CREATE SCHEMA proof;
    CREATE TABLE proof.effect (n bigint, run_id text, fence bigint, at double precision);
    GRANT USAGE ON SCHEMA proof TO proof_handler;
    GRANT INSERT ON proof.effect TO proof_handler;
    SELECT gnomon.grant_role('proof_handler', 'default');
"""


async def prepare(server: Server) -> None:
    await migrated(server.dsn)
    connection = await asyncpg.connect(server.dsn)
    try:
        await server.make_handler_role()
        await connection.execute(_SCHEMA)
    finally:
        await connection.close()


async def unsettled(dsn: str, seconds: float) -> int:
    """How many tasks still have something to do; `seconds`: for connecting."""
    connection = await asyncpg.connect(dsn, timeout=seconds)
    try:
        left = "SELECT count(*) FROM gnomon.task WHERE state IN (0, 1, 3)"
        return int(await connection.fetchval(left))
    finally:
        await connection.close()

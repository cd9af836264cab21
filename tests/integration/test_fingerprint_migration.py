"""Dead letters from before there were fingerprints: what the migration does with them."""

from collections.abc import AsyncIterator

import pytest
from tests.conftest import connected
from tests.integration.support import Connection

from gnomon.store.postgres import migrate

BEFORE, HERE = 26, 27
RESOLVED = 12_000  # more than a batch examines

_ID = """
    (lpad(to_hex((extract(epoch FROM gnomon.now()) * 1000)::bigint - n), 12, '0')
     || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 5, 15))::uuid
"""
_ARCHIVED = f"""
    INSERT INTO gnomon.task_archive_old (
        tenant_id, id, lane, state, delivery, execute_at, finished_at, fence, attempt,
        timeout_seconds, task_type, target, resolution
    )
    SELECT CASE WHEN n % 2 = 0 THEN 'b' ELSE 'a' END, {_ID}, 0,
        CASE WHEN n % 3 = 0 THEN 13 ELSE 10 END, 0, gnomon.now(), gnomon.now(), 1, 1, 30, 't',
        '{{}}', CASE WHEN n % 3 = 0 THEN 'archived' END
    FROM generate_series(1, {RESOLVED}) AS n
"""


@pytest.fixture
async def empty(empty_dsn: str) -> AsyncIterator[Connection]:
    connection = await connected(empty_dsn)
    yield connection
    await connection.close()


async def test_resolved_ones_are_listed_and_nothing_is_lost_on_the_way_back(
    empty: Connection,
) -> None:
    await migrate.up(empty, BEFORE)
    await empty.execute(
        "ALTER TABLE gnomon.task_archive DETACH PARTITION gnomon.task_archive_old;"
        "ALTER TABLE gnomon.task_archive ATTACH PARTITION gnomon.task_archive_old"
        " FOR VALUES FROM (MINVALUE) TO (MAXVALUE)"
    )
    await empty.execute(_ARCHIVED)
    await migrate.up(empty, HERE)
    found = await empty.fetchrow(
        "SELECT count(*) AS number, count(a.id) AS archived, count(r.resolved_by) AS by,"
        " bool_and(r.resolved_at = a.finished_at) AS same FROM gnomon.resolution AS r"
        " LEFT JOIN gnomon.task_archive AS a ON a.tenant_id = r.tenant_id AND a.id = r.task_id"
        " AND a.state = 13"
    )
    assert found is not None
    assert tuple(found) == (RESOLVED // 3, RESOLVED // 3, 0, True)
    await migrate.down(empty, BEFORE)
    resolved = await empty.fetchval("SELECT count(*) FROM gnomon.task_archive WHERE state = 13")
    assert resolved == RESOLVED // 3

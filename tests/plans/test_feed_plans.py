"""Plans of statements that publish feeds: notes, and what is kept of their tasks, by their keys."""

from typing import Any

from tests.integration.support import Connection, database_now
from tests.plans.test_hot_plans import plans

from gnomon.clock import new_id
from gnomon.model.tasks.task import DEFAULT_TENANT


async def test_notes_are_read_and_confirmed_by_their_key(connection: Connection) -> None:
    now = await database_now(connection)
    feeds = [new_id(now) for _ in range(20)]
    url = "queue://orders/results"
    await connection.execute(
        "INSERT INTO gnomon.feed (tenant_id, id, name, url, states, created_at, updated_at)"
        " SELECT $1, id, id::text, $3, '{10,4}', $4, $4 FROM unnest($2::uuid[]) AS id",
        DEFAULT_TENANT, feeds, url, now,
    )  # fmt: skip
    await connection.execute(
        "INSERT INTO gnomon.feed_note (tenant_id, feed_id, task_id, task_type, state, at)"
        " SELECT $1, id, id, 't', CASE WHEN n % 2 = 0 THEN 10 ELSE 4 END, $3"
        " FROM unnest($2::uuid[]) AS id, generate_series(1, 1000) AS n",
        DEFAULT_TENANT, feeds, now,
    )  # fmt: skip
    await connection.execute("ANALYZE gnomon.feed, gnomon.feed_note")
    asked: list[tuple[str, list[Any]]] = [
        ("waiting_feeds", ["queue://orders/"]),
        ("feed_notes", [DEFAULT_TENANT, feeds[0], url, 500]),
        ("close_gap", [DEFAULT_TENANT, feeds[0]]),
        ("bound_feeds", [100]),
        ("confirm_notes", [DEFAULT_TENANT, feeds[0], list(range(500)), None]),
    ]
    for name, arguments in asked:
        for used in await plans(connection, name, *arguments):
            assert not used.scanned & {"feed_note", "task", "task_archive"}, name

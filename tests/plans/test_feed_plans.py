"""Plans of statements that read what waits for feeds: by the index of a feed, whatever waits."""

from typing import Any

from tests.integration.feeding import feed, put
from tests.integration.support import Connection
from tests.plans.test_hot_plans import plans

from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.postgres.database import Database


async def test_notes_are_read_by_their_feed(database: Database, connection: Connection) -> None:
    ids = [await put(database, feed(f"f{number}")) for number in range(10)]
    await connection.execute(
        "INSERT INTO gnomon.feed_note (tenant_id, feed_id, task_id, state, at)"
        " SELECT $1, f.id, gen_random_uuid(), 10, gnomon.now()"
        " FROM unnest($2::uuid[]) AS f (id), generate_series(1, 2000)",
        DEFAULT_TENANT, ids,
    )  # fmt: skip
    await connection.execute("ANALYZE gnomon.feed, gnomon.feed_note")
    asked: list[tuple[str, list[Any]]] = [
        ("list_feeds", [DEFAULT_TENANT, None, 10_000]),
        ("feed_notes", [ids[0], 500]),
        ("waiting_feeds", ["queue://orders/"]),
        ("look_feeds", [60.0, 500]),
        ("overview_feeds", [10_000]),
        ("close_gap", [DEFAULT_TENANT, ids[0]]),
        ("bound_feeds", [1_000_000]),
        ("remove_feeds", []),
    ]
    for name, arguments in asked:
        for used in await plans(connection, name, *arguments):
            assert not used.scanned & {"feed_note", "task_archive"}, name

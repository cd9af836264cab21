"""Plans of statements that read and count batches: by a key, or by an index of the few."""

from typing import Any

from tests.integration.support import Connection, database_now
from tests.plans.test_hot_plans import plans

from gnomon.clock import new_id
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.ports.work.tasks import HIGHEST_ID, LOWEST_ID
from gnomon.store.postgres.retention.expired_rows import BY_INDEX


async def test_reads_go_by_indexes(connection: Connection) -> None:
    now = await database_now(connection)
    ids = [new_id(now) for _ in range(5000)]
    await connection.execute(
        "INSERT INTO gnomon.batch (tenant_id, id, deadline, created_at, state, finished_at)"
        " SELECT $1, unnest($2::uuid[]), $3, $3, 1, $3",
        DEFAULT_TENANT, ids, now,
    )  # fmt: skip
    await connection.execute(
        "INSERT INTO gnomon.batch_note (tenant_id, batch_id, added)"
        " SELECT tenant_id, id, 1 FROM gnomon.batch"
    )
    await connection.execute("ANALYZE")
    batch = ids[0]
    asked: list[tuple[str, list[Any]]] = [
        ("get_batch", [DEFAULT_TENANT, batch]),
        ("list_batches", [DEFAULT_TENANT, HIGHEST_ID, [1], False, None, 51]),
        ("last_batch_examined", [DEFAULT_TENANT, HIGHEST_ID]),
        ("batch_span", [DEFAULT_TENANT, batch]),
        ("batch_of_callback", [DEFAULT_TENANT, batch]),
        ("unended_batches", [[DEFAULT_TENANT], [batch]]),
        ("hold_batches", [[DEFAULT_TENANT], [batch]]),
        ("lock_batch", [DEFAULT_TENANT, batch]),
        ("stepped_batches", ["", LOWEST_ID, 20]),
        ("unended_members", [DEFAULT_TENANT, batch, 500]),
        ("blocked_callbacks", [DEFAULT_TENANT, [batch]]),
        ("expire_batches", [500]),
        ("settle_batch", [DEFAULT_TENANT, batch]),
        ("overview_batches", [1000]),
    ]
    for name, arguments in asked:
        for used in await plans(connection, name, *arguments):
            assert not used.scanned & {"batch", "batch_note", "task", "task_archive"}, name
    async with connection.transaction():
        await connection.execute(BY_INDEX)
        for used in await plans(connection, "remove_batches", now, 100):
            assert not used.scanned & {"batch"}

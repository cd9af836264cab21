"""A limited task on a node whose slots are all taken, by others that have more waiting."""

from tests.integration.support import Connection, database_now, joined, store, submission
from tests.integration.test_doubtful_claims import Stage

from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.pipe.envelope import Report
from gnomon.store.postgres.database import Database

SLOTS = 10
SUCCEEDED = Outcome(OutcomeKind.SUCCEEDED)


async def test_it_gets_its_permit_before_there_is_room(
    database: Database, connection: Connection
) -> None:
    """Others take the room as soon as there is any: whoever asks only then never gets one."""
    await connection.execute("INSERT INTO gnomon.tenant (id, plan) VALUES ('busy', 'unlimited')")
    await connection.execute(
        "INSERT INTO gnomon.limiter (tenant_id, name, concurrency) VALUES ('default', 'one', 1)"
    )
    now = await database_now(connection)
    limited = submission(now)
    await store(database, limited, *(submission(now, tenant_id="busy") for _ in range(SLOTS * 6)))
    stage = Stage(database, await joined(database))
    await stage.directory.load()
    await stage.scanner.forward()
    await stage.scanner.repair()
    stage.advance()
    assert (await stage.dispatcher.run_once()).claimed == SLOTS
    for _ in range(3):
        for delivery in stage.pipe.unsent():
            done = [Report(delivery, SUCCEEDED, 0.0, 1.0)]
            stage.pipe.report(done[0])
            stage.claims.settled(done)
            stage.pipe.settled(done)
            if delivery.key.id == limited.id:
                return
            await stage.dispatcher.run_once()
            await stage.keeper.run_once()
    raise AssertionError("others had all the slots that became free")

"""Every field of a task template is stored, changed, archived and handed on to runs."""

import asyncpg
from tests.integration.cron_support import Unheard, created, job_named, planned, runs_of
from tests.integration.support import database_now, joined, settlement, store, submission
from tests.template_sample import EVERY_FIELD, UNCHANGEABLE

from gnomon.model.tasks.task import (
    DEFAULT_TENANT,
    TaskKey,
    TaskPatch,
    template_fields,
)
from gnomon.store.ports.work.tasks import TaskFilter
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.tasks.task_store import PostgresTasks


async def test_fields_are_stored_and_archived(
    database: Database, connection: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    tasks = PostgresTasks(database, Unheard(), 60.0)
    dispatch = PostgresDispatch(database, 10.0)
    now = await database_now(connection)
    done, cancelled = await store(
        database, submission(now, **EVERY_FIELD), submission(now, **EVERY_FIELD)
    )
    for key in (done, cancelled):
        assert template_fields(await tasks.get(key)) == EVERY_FIELD
    (delivery,) = (await dispatch.claim(await joined(database), [done])).deliveries
    await dispatch.settle([settlement(delivery, worker="w")])
    async with tasks.change(DEFAULT_TENANT) as change:
        await change.cancel(cancelled.id, interrupt=False)
    for key in (done, cancelled):
        assert template_fields(await tasks.get(key)) == EVERY_FIELD
    page = await tasks.list(DEFAULT_TENANT, TaskFilter(), None, 10)
    assert [template_fields(task) for task in page.tasks] == [EVERY_FIELD, EVERY_FIELD]


async def test_a_cron_job_hands_its_fields_on_to_its_runs(
    database: Database, connection: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await created(database, **EVERY_FIELD)
    job = await job_named(database)
    assert template_fields(job.definition) == EVERY_FIELD
    await planned(database, job)
    run = (await runs_of(connection, job))[0]
    key = TaskKey(job.tenant_id, run["id"])
    assert template_fields(await PostgresTasks(database, Unheard(), 60.0).get(key)) == EVERY_FIELD


async def test_a_patch_changes_every_field_that_can_be(
    database: Database, connection: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    tasks = PostgresTasks(database, Unheard(), 60.0)
    changes = {name: value for name, value in EVERY_FIELD.items() if name not in UNCHANGEABLE}
    kept = {name: EVERY_FIELD[name] for name in UNCHANGEABLE}
    (key,) = await store(database, submission(await database_now(connection), **kept))
    async with tasks.change(DEFAULT_TENANT) as change:
        await change.patch(key.id, TaskPatch(**changes))
    assert template_fields(await tasks.get(key)) == EVERY_FIELD

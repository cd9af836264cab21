"""What a worker makes known of its app: task types, and cron jobs, which it alone changes."""

from typing import Any

import msgspec
import pytest
from tests.integration.support import Connection
from tests.settings import settings_with

from gnomon import publish
from gnomon.clock import SystemClock, new_incarnation
from gnomon.cron.job import Definition
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.sdk.app import Gnomon
from gnomon.settings.queues import QueueConnection
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.postgres.tasks.task_store import PostgresTasks, unheard
from gnomon.store.tenant_cache import TenantCache
from gnomon.wiring.worker import AppRegistrar, _NoHints

PATH = "shop:app"


def declaring(*jobs: str, hour: int = 9, retries: int = 2) -> Gnomon:
    app = Gnomon()

    async def greet(user: str, times: int = 1) -> None: ...

    app.task(retries=retries, timeout="5s", queue="mail")(greet)

    for name in jobs:

        async def report() -> None: ...

        report.__name__ = name
        app.cron(f"0 {hour} * * *", name=name)(report)
    return app


class Worker:
    """An entry in the roster, and what registers for it."""

    def __init__(self, database: Database, app: Gnomon) -> None:
        self._database = database
        self._app = app
        self.incarnation = new_incarnation()

    async def start(self, **settings_of: Any) -> "Worker":
        clock = SystemClock()
        tenants = PostgresTenantReader(self._database)
        directory = TenantCache(tenants, clock, {})
        await directory.load()
        settings = settings_with(node_app=PATH, **settings_of)
        self.registrar = AppRegistrar(
            self._app, settings, self._database, directory, clock, unheard
        )
        roster = PostgresRoster(self._database)
        await roster.join(self.incarnation, "w", 1, 60.0, app=self.registrar.version)
        await self.registrar.run_once()
        return self

    async def leave(self) -> None:
        await PostgresRoster(self._database).leave(self.incarnation)


async def jobs(connection: Connection) -> dict[str, Any]:
    rows = await connection.fetch("SELECT name, source, definition FROM gnomon.cron_job")
    return {
        row["name"]: msgspec.json.decode(row["definition"])["cron_expression"]
        for row in rows
        if row["source"] == f"app:{PATH}"
    }


@pytest.fixture
def tasks(database: Database) -> PostgresTasks:
    return PostgresTasks(database, _NoHints(), 3600.0)


async def test_task_types_are_registered_with_schema_and_defaults(
    database: Database, connection: Connection
) -> None:
    await Worker(database, declaring()).start()
    row = await connection.fetchrow("SELECT * FROM gnomon.task_type")
    assert row is not None
    assert (row["tenant_id"], row["name"]) == (DEFAULT_TENANT, "greet")
    schema = msgspec.json.decode(row["schema"])
    assert schema["required"] == ["user"]
    defaults = msgspec.json.decode(row["defaults"])
    assert (defaults["queue"], defaults["timeout_seconds"]) == ("mail", 5.0)
    assert defaults["retry_policy"]["max_retries"] == 2
    await Worker(database, declaring()).start()
    again = await connection.fetchrow("SELECT * FROM gnomon.task_type")
    assert again == row, "the same again writes nothing"
    await Worker(database, declaring(retries=4)).start()
    defaults = msgspec.json.decode(
        await connection.fetchval("SELECT defaults FROM gnomon.task_type")
    )
    assert defaults["retry_policy"]["max_retries"] == 4


async def test_jobs_are_synchronised_and_those_of_others_left_alone(
    database: Database, connection: Connection, tasks: PostgresTasks
) -> None:
    async with tasks.change(DEFAULT_TENANT) as change:
        for name in ("theirs", "taken"):
            await change.cron.create(
                Definition(
                    name=name, task_type="x", target=PythonTarget("x"), cron_expression="1 1 * * *"
                )
            )
    first = await Worker(database, declaring("a", "b", "taken")).start()
    assert await jobs(connection) == {"a": "0 9 * * *", "b": "0 9 * * *"}
    await first.leave()
    await Worker(database, declaring("b", "c", hour=7)).start()
    assert await jobs(connection) == {"b": "0 7 * * *", "c": "0 7 * * *"}
    assert await connection.fetchval("SELECT count(*) FROM gnomon.cron_job") == 4


async def test_versions_of_a_rolling_deployment_do_not_fight(
    database: Database, connection: Connection
) -> None:
    old = await Worker(database, declaring("a")).start()
    new = await Worker(database, declaring("b")).start()
    assert set(await jobs(connection)) == {"b"}, "a new version decides at once"
    await old.registrar.run_once()
    restarted = await Worker(database, declaring("a")).start()
    assert set(await jobs(connection)) == {"b"}, "an old one that is restarted does not"
    await old.leave()
    await new.leave()
    await restarted.registrar.run_once()
    assert set(await jobs(connection)) == {"a"}, "a rollback is complete when the new one has left"
    await connection.execute("DELETE FROM gnomon.cron_job")
    await restarted.registrar.run_once()
    assert await jobs(connection) == {}, "what people change afterwards is theirs"


async def test_a_workflow_whose_message_no_connection_takes_is_not_registered(
    database: Database, connection: Connection
) -> None:
    app = Gnomon()

    @app.workflow
    def paid() -> None:
        publish("tell", "queue://orders/paid", {"n": 1})

    @app.workflow
    def lost() -> None:
        publish("tell", "queue://elsewhere/paid", {"n": 1})

    queues = {"orders": QueueConnection(url="redis://127.0.0.1:6379")}
    await Worker(database, app).start(targets_queues=queues)
    rows = await connection.fetch("SELECT DISTINCT name FROM gnomon.workflow")
    assert [row["name"] for row in rows] == ["paid"]

"""The pages about own transactions, run as they stand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import django
import pytest
from django.conf import settings as django_settings
from tests.conftest import serving
from tests.integration.nodes import running_node
from tests.integration.own_roles import as_role, grant, login_role
from tests.integration.receiving import django_connection, url_of
from tests.integration.support import Connection, database_now, end_of, key_of, store, submission
from tests.page_code import DOCS, module_of

from gnomon import Client, outbox
from gnomon.clock import SystemClock
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DeliveryMode
from gnomon.relay.outbox_reader import OutboxReader
from gnomon.relay.relay import Relay
from gnomon.store.postgres.database import Database

if not django_settings.configured:
    django_settings.configure(DATABASES={}, USE_TZ=True)
    django.setup()

SUBMITTING = "how-to/submit-in-your-transaction.md"
ORDERS = "CREATE TABLE public.orders (id bigint)"


@pytest.fixture
async def role(superuser: Connection, connection: Connection) -> AsyncIterator[str]:
    async with login_role(superuser) as found:
        await grant(connection, found)
        yield found


@contextmanager
def _as_default(dsn: str) -> Any:
    """Django's own connection, on this database."""
    from django.db import connections

    with django_connection(dsn) as connection:
        before = getattr(connections._connections, "default", None)
        settings = connections.settings["default"]
        connections.settings["default"] = connection.settings_dict
        connections._connections.default = connection
        alias, connection.alias = connection.alias, "default"
        try:
            yield
        finally:
            connection.alias = alias
            connections.settings["default"] = settings
            if before is None:
                del connections._connections.default
            else:
                connections._connections.default = before


async def test_every_driver_of_the_page(
    database_dsn: str, superuser: Connection, role: str
) -> None:
    await superuser.execute(ORDERS)
    await superuser.execute(f"GRANT INSERT ON public.orders TO {role}")
    dsn = as_role(database_dsn, role)

    def by_django(order: int) -> None:
        with _as_default(dsn):
            page.order_by_django(order)

    with module_of(SUBMITTING, "own_transactions_of_the_page") as page:
        await page.order_by_asyncpg(dsn, 1)
        await asyncio.to_thread(page.order_by_psycopg, dsn, 2)
        await page.order_by_async_psycopg(dsn, 3)
        await asyncio.to_thread(page.order_by_psycopg2, dsn, 4)
        await asyncio.to_thread(page.order_by_session, url_of(dsn, "psycopg"), 5)
        await page.order_by_async_session(url_of(dsn, "asyncpg"), 6)
        await asyncio.to_thread(by_django, 7)
    app = await asyncpg.connect(dsn)
    await app.execute("INSERT INTO orders (id) VALUES (8)")
    text = (DOCS / SUBMITTING).read_text()
    statement = next(line for line in text.splitlines() if line.startswith("SELECT gnomon.submit("))
    await app.execute(statement.replace('"order": 7', '"order": 8'))
    await app.close()
    tasks = await superuser.fetch("SELECT payload ->> 'order' AS id FROM gnomon.task")
    orders = await superuser.fetch("SELECT id FROM public.orders")
    assert sorted(int(row["id"]) for row in tasks) == sorted(row["id"] for row in orders)
    assert len(orders) == 8


async def test_a_booking_and_the_end_of_its_task_are_one(
    database: Database, database_dsn: str, connection: Connection, role: str
) -> None:
    await connection.execute("CREATE TABLE public.booking (order_id bigint)")
    await connection.execute(f"GRANT INSERT ON public.booking TO {role}")
    with module_of("how-to/exactly-once.md", "bookings_of_the_page") as page:
        page.app.database = as_role(database_dsn, role)
        async with running_node(database_dsn, node_app="bookings_of_the_page:app"):
            task = submission(
                await database_now(connection),
                task_type="book",
                target=PythonTarget("book"),
                payload=b'{"order":7}',
                delivery=DeliveryMode.EXACTLY_ONCE,
            )
            await store(database, task)
            row = await end_of(connection, key_of(task))
    assert (row["state"], row["result"]) == (State.COMPLETED, '{"booked":7}')
    assert await connection.fetchval("SELECT count(*) FROM booking WHERE order_id = 7") == 1


async def test_the_outbox_of_the_page(
    database_dsn: str, empty_dsn: str, connection: Connection
) -> None:
    shop = await asyncpg.connect(empty_dsn)
    await shop.execute(f"{outbox.ddl()}; CREATE TABLE orders (id bigint)")
    with module_of("how-to/use-an-outbox.md", "outbox_of_the_page") as page:
        await asyncio.to_thread(page.place, empty_dsn, 6)
    text = (DOCS / "how-to/use-an-outbox.md").read_text()
    await shop.execute(next(line for line in text.splitlines() if line.startswith("INSERT INTO")))
    await shop.close()
    reader = OutboxReader(empty_dsn)
    async with serving(database_dsn) as api, Client(str(api._base_url)) as client:
        assert await Relay(reader, client, SystemClock()).run_once() == 2
    await reader.close()
    rows = await connection.fetch("SELECT payload ->> 'order' AS id FROM gnomon.task")
    assert sorted(row["id"] for row in rows) == ["6", "7"]
    assert urlsplit(empty_dsn).path != urlsplit(database_dsn).path

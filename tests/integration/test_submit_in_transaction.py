"""Tasks that are submitted with a program's connection: there when its transaction committed."""

import asyncio
import sys
from collections.abc import AsyncIterator

import asyncpg
import django
import msgspec
import psycopg
import pytest
from django.conf import settings as django_settings
from sqlalchemy.orm import Session
from tests.integration.own_roles import as_role, grant, login_role
from tests.integration.receiving import engine_on
from tests.integration.submitting import DRIVERS, RolledBack, app, charge, go_on, roll_back
from tests.integration.support import Connection

from gnomon import Conflict, Forbidden, InvalidOption, InvalidRequest, NoTransaction, QuotaReached

if not django_settings.configured:
    django_settings.configure(DATABASES={}, USE_TZ=True)
    django.setup()


@pytest.fixture
async def role(superuser: Connection) -> AsyncIterator[str]:
    async with login_role(superuser) as found:
        yield found


@pytest.fixture
async def dsn(database_dsn: str, connection: Connection, superuser: Connection, role: str) -> str:
    """Of a role that may write its own table, and submit for the tenant `default`."""
    await superuser.execute("CREATE TABLE public.effect (who text)")
    await superuser.execute(f"GRANT INSERT, SELECT ON public.effect TO {role}")
    await grant(connection, role)
    return as_role(database_dsn, role)


async def submitted(connection: Connection) -> list[str]:
    rows = await connection.fetch("SELECT payload ->> 'order' AS who FROM gnomon.task")
    return [row["who"] for row in rows]


async def test_a_task_is_there_exactly_when_its_transaction_committed(
    dsn: str, superuser: Connection
) -> None:
    """Committed, rolled back, and in a program that dies before its commit, with each driver; each
    with a savepoint that is rolled back."""
    programs = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integration.submitting", dsn
    )
    assert await programs.wait() == 0
    for driver in DRIVERS.values():
        with pytest.raises(RolledBack):
            await asyncio.to_thread(driver.work, dsn, "rolled back", roll_back)
    assert await submitted(superuser) == []
    for name, driver in DRIVERS.items():
        await asyncio.to_thread(driver.work, dsn, name, go_on)
    assert sorted(await submitted(superuser)) == sorted(DRIVERS)
    written = await superuser.fetch("SELECT who FROM public.effect")
    assert sorted(row["who"] for row in written) == sorted(DRIVERS)


async def test_refusals_are_those_of_the_api(dsn: str, superuser: Connection, role: str) -> None:
    with psycopg.connect(dsn) as connection:
        with connection.transaction():
            charge.options(connection=connection, key="k").submit_sync("a")
        with pytest.raises(Conflict, match="used before"), connection.transaction():
            charge.options(connection=connection, key="k").submit_sync("b")
        with pytest.raises(InvalidRequest) as invalid, connection.transaction():
            charge.options(connection=connection, name="a\nb").submit_sync("b")
        assert invalid.value.errors[0].pointer == "/name"
        await grant(superuser, role, task_types=["other"])
        with pytest.raises(Forbidden, match="is only for: other"), connection.transaction():
            charge.options(connection=connection).submit_sync("b")
        await grant(superuser, role)
        await superuser.execute("""UPDATE gnomon.tenant SET quotas = '{"scheduled_tasks": 1}'""")
        with pytest.raises(QuotaReached, match="scheduled_tasks"), connection.transaction():
            charge.options(connection=connection).submit_sync("b")


async def test_errors_of_frameworks_are_told_alike(dsn: str, role: str) -> None:
    from django.db import transaction
    from tests.integration.receiving import django_connection

    with (
        engine_on(dsn) as engine,
        pytest.raises(InvalidRequest),
        Session(engine) as session,
        session.begin(),
    ):
        charge.options(connection=session, name="a\nb").submit_sync("b")

    def with_django() -> None:
        with (
            django_connection(dsn) as connection,
            pytest.raises(InvalidRequest),
            transaction.atomic(using=connection.alias),
        ):
            charge.options(connection=connection, name="a\nb").submit_sync("b")

    await asyncio.to_thread(with_django)


async def test_a_connection_must_fit_the_call(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        with pytest.raises(InvalidOption, match="of asyncio; use submit"):
            charge.options(connection=connection).submit_sync("a")
        with pytest.raises(NoTransaction):
            await charge.options(connection=connection).submit("a")
        with pytest.raises(InvalidOption, match="submit_many"):
            await app.submit_many([charge.options(connection=connection).prepare("a")])
    finally:
        await connection.close()
    with psycopg.connect(dsn) as blocking, pytest.raises(InvalidOption, match="use submit_sync"):
        await charge.options(connection=blocking).submit("a")
    with pytest.raises(InvalidOption, match="is needed"):
        charge.options(connection=object()).submit_sync("a")  # type: ignore[arg-type]


async def test_a_registered_schema_is_checked(dsn: str, superuser: Connection) -> None:
    """That of the handler itself by its types; another one as the API does."""
    own = msgspec.json.encode(charge.arguments.schema()).decode()
    put = """
    INSERT INTO gnomon.task_type (tenant_id, name, schema) VALUES ('default', 'charge', $1)
    ON CONFLICT (tenant_id, name) DO UPDATE SET schema = excluded.schema
    """
    with psycopg.connect(dsn) as connection:
        await superuser.execute(put, own)
        with connection.transaction():
            charge.options(connection=connection).submit_sync("a")
        await superuser.execute(put, '{"properties": {"order": {"maxLength": 3}}}')
        with connection.transaction():
            charge.options(connection=connection).submit_sync("abc")
        with pytest.raises(InvalidRequest) as refused, connection.transaction():
            charge.options(connection=connection).submit_sync("abcd")
        assert refused.value.errors[0].pointer == "/payload/order"
    assert await submitted(superuser) == ["a", "abc"]


@pytest.mark.parametrize("driver", ["session", "async session", "django"])
async def test_frameworks_with_a_hook_tell_nodes_after_the_commit(
    driver: str, dsn: str, connection: Connection
) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    await connection.add_listener("gnomon_due", lambda *about: heard.put_nowait(str(about[3])))
    with pytest.raises(RolledBack):
        await asyncio.to_thread(DRIVERS[driver].work, dsn, "rolled back", roll_back)
    await asyncio.to_thread(DRIVERS[driver].work, dsn, "kept", go_on)
    entry = (await asyncio.wait_for(heard.get(), 30)).split("\t")
    task = await connection.fetchrow("SELECT * FROM gnomon.task")
    assert task is not None
    assert entry[:2] == ["default", task["id"].hex]
    assert (int(entry[5]), entry[6]) == (task["flow"], "1")
    assert heard.empty()

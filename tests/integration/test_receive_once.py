"""A task is worked on once, in the transaction of the receiver: every driver, at the same time."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import asyncpg
import django
import psycopg
import psycopg2
import pytest
from django.conf import settings as django_settings
from sqlalchemy.ext.asyncio import create_async_engine
from tests.integration.receiving import (
    WORKS,
    Failed,
    Step,
    Work,
    django_connection,
    engine_on,
    received,
    url_of,
)
from tests.waiting import eventually_sync

from gnomon import receive
from gnomon.receive import NoTransaction, Repeated, Stale

if not django_settings.configured:
    django_settings.configure(DATABASES={}, USE_TZ=True)
    django.setup()

every_driver = pytest.mark.parametrize("work", WORKS.values(), ids=WORKS.keys())


@pytest.fixture
async def dsn(empty_dsn: str) -> str:
    """A receiver's own database: it knows nothing of Gnomon but the one table."""
    connection = await asyncpg.connect(empty_dsn)
    await connection.execute(receive.ddl())
    await connection.execute(receive.ddl())
    await connection.execute("CREATE TABLE effect (fence bigint)")
    await connection.close()
    return empty_dsn


def fences(dsn: str) -> list[int]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT fence FROM effect ORDER BY fence").fetchall()
    return [row[0] for row in rows]


def nothing() -> None: ...


def fail() -> None:
    raise Failed


@every_driver
def test_a_task_whose_work_is_committed_is_not_worked_on_again(dsn: str, work: Work) -> None:
    with pytest.raises(Failed):
        work(dsn, received(fence=1), fail)
    assert fences(dsn) == []
    work(dsn, received(fence=3), nothing)
    for fence in (3, 1, 7):
        with pytest.raises(Repeated):
            work(dsn, received(fence=fence), nothing)
    work(dsn, received(fence=1, task=2), nothing)
    assert fences(dsn) == [1, 3]


@every_driver
@pytest.mark.parametrize("fails", [False, True], ids=["commits", "rolls back"])
def test_calls_at_once_wait_for_the_first(dsn: str, work: Work, fails: bool) -> None:
    first = Step(fails=fails)
    with ThreadPoolExecutor(6) as threads:
        leading = threads.submit(work, dsn, received(fence=1), first)
        assert first.marked.wait(60)
        others = [threads.submit(work, dsn, received(fence=f), nothing) for f in (1, 3, 3, 5)]
        eventually_sync(lambda: waiting_for_locks(dsn) >= len(others))
        assert not any(each.done() for each in others)
        first.goes_on.set()
        ends = [outcome(each) for each in (leading, *others)]
    assert len(fences(dsn)) == 1
    if fails:
        assert ends[0] is Failed
        assert ends[1:].count(None) == 1
    else:
        assert ends == [None, *[Repeated] * len(others)]


def waiting_for_locks(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def outcome(call: "Future[None]") -> type[BaseException] | None:
    error = call.exception(60)
    return None if error is None else type(error)


def test_many_calls_for_many_tasks_at_once(dsn: str) -> None:
    calls = [received(fence=f, task=t) for f in (1, 3) for t in range(20) for _ in range(2)]
    with ThreadPoolExecutor(8) as threads:
        ends = [threads.submit(WORKS["psycopg"], dsn, each, nothing) for each in calls]
        outcomes = [outcome(each) for each in ends]
    assert len(fences(dsn)) == 20
    assert outcomes.count(None) == 20
    assert set(outcomes) == {None, Repeated}


def test_an_execution_that_was_overtaken_is_stale_even_if_the_later_one_failed(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        receive.admit(connection, received(fence=5))
        with pytest.raises(Failed):
            WORKS["psycopg"](dsn, received(fence=5), fail)
        with pytest.raises(Stale) as stale:
            receive.admit(connection, received(fence=3))
        assert (stale.value.fence, stale.value.latest) == (3, 5)
    with pytest.raises(Stale):
        WORKS["asyncpg"](dsn, received(fence=3), nothing)
    WORKS["asyncpg"](dsn, received(fence=7), nothing)
    with pytest.raises(Repeated), psycopg.connect(dsn, autocommit=True) as connection:
        receive.admit(connection, received(fence=9))
    assert fences(dsn) == [7]


async def test_without_a_transaction_nothing_is_marked(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    with pytest.raises(NoTransaction):
        await receive.once(connection, received())
    await connection.close()
    with psycopg.connect(dsn, autocommit=True) as blocking, pytest.raises(NoTransaction):
        receive.once(blocking, received())
    old = psycopg2.connect(dsn)
    old.autocommit = True
    with pytest.raises(NoTransaction):
        receive.once(old, received())
    old.close()
    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"}
    for driver in ("psycopg", "psycopg2"):
        with (
            engine_on(dsn, driver, **options) as engine,
            engine.connect() as opened,
            pytest.raises(NoTransaction),
        ):
            receive.once(opened, received())
    async_engine = create_async_engine(url_of(dsn, "asyncpg"), **options)
    async with async_engine.connect() as opened_async:
        with pytest.raises(NoTransaction):
            await receive.once(opened_async, received())
    await async_engine.dispose()
    WORKS["psycopg"](dsn, received(), nothing)


def test_django_without_a_transaction_marks_nothing(dsn: str) -> None:
    with django_connection(dsn) as connection, pytest.raises(NoTransaction):
        receive.once(connection, received())
    WORKS["django"](dsn, received(), nothing)


def test_what_is_no_connection_is_refused_with_what_would_be_one() -> None:
    with pytest.raises(TypeError, match="asyncpg, psycopg"):
        receive.once(object(), received())  # type: ignore[call-overload]


async def test_old_marks_are_pruned(dsn: str) -> None:
    WORKS["psycopg"](dsn, received(task=1), nothing)
    WORKS["psycopg"](dsn, received(task=2), nothing)
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "UPDATE gnomon_received SET received_at = now() - interval '31 days' WHERE task_id = $1",
        received(task=1).task_id,
    )
    assert await receive.prune(connection, "30d") == 1
    assert await receive.prune(connection, "30d") == 0
    await connection.close()
    with engine_on(dsn) as engine, engine.begin() as opened:
        assert receive.prune(opened, 0) == 1

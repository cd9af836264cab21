"""Batches of an app, through the real engine on a virtual clock."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from tests.conftest import PostgresServer, fresh_database

from gnomon import Conflict, Gnomon, InvalidOption
from gnomon.testing import NothingRuns, VirtualGnomon, virtual_gnomon

app = Gnomon()
broken = {"below": 0}
told: list[tuple[str, int]] = []


@app.task(retries=0)
async def resize(number: int) -> int:
    if number < broken["below"]:
        raise ValueError(f"{number} is too small")
    return number


@app.task
async def tell(text: str, number: int) -> None:
    told.append((text, number))


@pytest.fixture
async def g(postgres: PostgresServer) -> AsyncIterator[VirtualGnomon]:
    told.clear()
    async with (
        fresh_database(postgres) as dsn,
        virtual_gnomon(app, database_url=dsn) as found,
    ):
        yield found


async def test_a_block_opens_and_closes_it(
    g: VirtualGnomon, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app.batch(
        name="pictures",
        on_success=tell.prepare("all", 3),
        on_complete=tell.prepare("ended", 3),
    ) as batch:
        await resize.options(batch=batch).submit(1)
        await app.submit_many(resize.options(batch=batch.id).prepare(n) for n in (2, 3))
        assert (await batch.info()).status == "OPEN"
    done = await batch.wait()
    assert (done.status, done.progress.succeeded, done.name) == ("SUCCEEDED", 3, "pictures")
    await g.drain()
    assert sorted(told) == [("all", 3), ("ended", 3)]
    with pytest.raises(Conflict, match="is CLOSED and cannot be added to"):
        await resize.options(batch=batch).submit(4)

    def blocking() -> UUID:
        with app.batch(on_success=tell.prepare("mended", 1), close_within="1h") as made:
            resize.options(batch=made).submit_sync(1)
        return made.id

    monkeypatch.setitem(broken, "below", 2)
    again = app.opened_batch(await asyncio.to_thread(blocking))
    assert (await again.wait()).status == "FAILED"
    monkeypatch.setitem(broken, "below", 0)
    (dead,) = [each async for each in g.client.list_dead_letters(batch_id=again.id)]
    await g.client.retry_dead_letter(dead.task_id)
    await g.drain()
    assert (await again.info()).status == "SUCCEEDED"
    assert told[-1] == ("mended", 1)


async def test_each_of_many_is_followed_by_its_own(g: VirtualGnomon) -> None:
    broken["below"] = 2
    await app.submit_many(
        resize.options(
            on_success=tell.prepare("resized", n), on_failure=tell.prepare("kept", n)
        ).prepare(n)
        for n in (1, 2, 3)
    )
    await g.drain()
    assert sorted(told) == [("kept", 1), ("resized", 2), ("resized", 3)]
    with pytest.raises(InvalidOption, match="callbacks are submitted by the API"):
        resize.options(on_success=tell.prepare("x", 1), connection=object())  # type: ignore[arg-type]


async def test_a_block_that_raises_cancels_it(g: VirtualGnomon) -> None:
    batch = app.batch(on_complete=tell.prepare("never", 0))
    with pytest.raises(InvalidOption, match="not open yet"):
        resize.options(batch=batch)

    async def broken_off() -> None:
        async with batch:
            await resize.options(batch=batch, delay="1h").submit(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await broken_off()

    def ended_first() -> None:
        with app.batch() as ended:
            ended.close_sync()
            raise ZeroDivisionError

    async def ended_first_as_well() -> None:
        async with app.batch() as ended:
            await ended.close()
            raise ZeroDivisionError

    # Its own error is not hidden by that of cancelling, such as with a key that may only submit.
    with pytest.raises(ZeroDivisionError) as raised:
        await asyncio.to_thread(ended_first)
    assert "could not be cancelled" in raised.value.__notes__[0]
    with pytest.raises(ZeroDivisionError):
        await ended_first_as_well()
    await g.drain()
    found = await batch.info()
    assert (found.status, found.progress.cancelled) == ("CANCELLED", 1)
    assert told == []
    with pytest.raises(NothingRuns, match="is OPEN"):
        async with app.batch() as empty:
            await empty.wait()
    with pytest.raises(InvalidOption, match="opened before"):
        await batch.__aenter__()
    for wrong in ({"on_success": "tell"}, {"close_within": "soon"}):
        with pytest.raises(InvalidOption, match=next(iter(wrong))):
            app.batch(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="batch="):
        resize.options(batch=7)  # type: ignore[arg-type]

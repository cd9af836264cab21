"""The memory of keys: trusted for half a second from the start of the question, and no longer."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import cast
from uuid import UUID

import pytest

from gnomon.access.api_key import RANDOM_BYTES, ApiKey, hash_of, key_from
from gnomon.access.principal import Requester, Role
from gnomon.api.auth import key_cache
from gnomon.api.auth.key_cache import AHEAD_SECONDS, TRUST_SECONDS, KeyRing
from gnomon.clock import SystemClock
from gnomon.model.errors import Overloaded, StoreUnavailable
from gnomon.store.postgres.identity.api_keys import PostgresKeys


def key(number: int) -> str:
    return key_from(number.to_bytes(RANDOM_BYTES))


def known(number: int) -> ApiKey:
    return ApiKey(
        id=UUID(int=number),
        tenant_id="acme",
        name=f"key {number}",
        hint="",
        roles=frozenset({Role.READ}),
        task_types=None,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        created_by=None,
        expires_at=None,
        revoked_at=None,
        last_used_at=None,
    )


class Hand:
    """Time that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Lookup:
    """Keys in memory; a question can be held back, or fail."""

    def __init__(self) -> None:
        self.live = {hash_of(key(n)): known(n) for n in (1, 2)}
        self.questions: list[set[bytes]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.away = False
        self.noted: list[UUID] = []

    async def find(self, hashes: Sequence[bytes], _within: float) -> dict[bytes, ApiKey]:
        self.questions.append(set(hashes))
        found = {each: self.live[each] for each in hashes if each in self.live}
        await self.open.wait()
        if self.away:
            raise StoreUnavailable("gone")
        return found

    async def any(self) -> bool:
        return True

    async def note_use(self, ids: Sequence[UUID]) -> None:
        self.noted += ids


class Setting:
    """A ring with its surroundings."""

    def __init__(self) -> None:
        self.hand = Hand()
        self.lookup = Lookup()
        self.ring = KeyRing(cast("PostgresKeys", self.lookup), SystemClock(self.hand))

    async def ask(self, number: int) -> Requester | None:
        return await self.ring.requester(key(number))


@asynccontextmanager
async def running() -> AsyncIterator[Setting]:
    setting = Setting()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(setting.ring.run())
        yield setting
        task.cancel()


async def settled() -> None:
    """Let everybody have their turns."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_known_key_is_asked_about_once_while_it_is_trusted() -> None:
    async with running() as here:
        for _ in range(3):
            assert await here.ask(1) == known(1).requester
        assert len(here.lookup.questions) == 1


async def test_a_revoked_key_is_found_out_after_its_trust() -> None:
    async with running() as here:
        assert await here.ask(1)
        here.lookup.live.clear()
        here.hand.now += TRUST_SECONDS - 0.3
        assert await here.ask(1)
        here.hand.now += 0.3
        assert await here.ask(1) is None


async def test_a_key_in_use_is_asked_about_ahead_and_nobody_waits() -> None:
    async with running() as here:
        assert await here.ask(1)
        here.hand.now += AHEAD_SECONDS
        here.lookup.open.clear()
        assert await here.ask(1)
        await settled()
        assert len(here.lookup.questions) == 2
        here.lookup.open.set()
        await settled()
        here.hand.now += TRUST_SECONDS - 0.01  # from the second question on
        assert await here.ask(1)
        assert len(here.lookup.questions) == 2


async def test_trust_begins_with_the_question_and_not_with_its_answer() -> None:
    async with running() as here:
        here.lookup.open.clear()
        first = asyncio.ensure_future(here.ask(1))
        await settled()
        here.lookup.live.clear()  # revoked while the answer is on its way
        here.hand.now += TRUST_SECONDS
        late = asyncio.ensure_future(here.ask(1))
        await settled()
        here.lookup.open.set()
        assert await first  # it came before the key was revoked
        assert await late is None  # it came after: a new question was asked
        assert len(here.lookup.questions) == 2


async def test_those_who_come_together_share_a_question() -> None:
    async with running() as here:
        here.lookup.open.clear()
        asked = [asyncio.ensure_future(here.ask(n)) for n in (1, 2, 3) * 20]
        await settled()
        asked[0].cancel()  # whoever goes takes nothing from the others
        here.lookup.open.set()
        answers = await asyncio.gather(*asked[1:])
        assert [a is not None for a in answers[:2]] == [True, False]
        assert len(here.lookup.questions) == 1


async def test_an_unknown_key_is_not_asked_about_at_every_try() -> None:
    async with running() as here:
        for _ in range(3):
            assert await here.ask(3) is None
        here.lookup.live[hash_of(key(3))] = known(3)
        here.hand.now += TRUST_SECONDS
        assert await here.ask(3)
        assert len(here.lookup.questions) == 2


async def test_what_cannot_be_a_key_is_never_asked_about() -> None:
    async with running() as here:
        for text in (key(1)[:-1], key(1)[:-1] + "?", "gn_", ""):
            assert await here.ring.requester(text) is None
        assert here.lookup.questions == []


async def test_nobody_is_let_in_without_an_answer() -> None:
    async with running() as here:
        assert await here.ask(1)
        here.lookup.away = True
        here.hand.now += TRUST_SECONDS
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await here.ask(1)
        here.lookup.away = False
        assert await here.ask(1)


async def test_unknown_keys_push_no_known_one_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "MOST_REMEMBERED", 2)
    async with running() as here:
        assert await here.ask(1)
        for number in range(10, 20):
            assert await here.ask(number) is None
        questions = len(here.lookup.questions)
        assert await here.ask(1)
        assert len(here.lookup.questions) == questions
        assert await here.ask(10) is None  # forgotten meanwhile
        assert len(here.lookup.questions) == questions + 1


async def test_a_flood_of_unknown_keys_refuses_no_known_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_cache, "MOST_WAITING", 3)
    monkeypatch.setattr(key_cache, "MOST_TOGETHER", 2)
    async with running() as here, asyncio.TaskGroup() as group:
        assert await here.ask(1)
        assert await here.ask(2)
        here.lookup.open.clear()
        flood = [group.create_task(here.ask(number)) for number in (10, 11)]
        await settled()  # these are being asked about, and three more wait
        flood += [group.create_task(here.ask(number)) for number in (12, 13, 14)]
        await settled()
        with pytest.raises(Overloaded):
            await here.ask(20)
        here.hand.now += AHEAD_SECONDS
        assert await here.ask(1)  # trusted still, and asked about ahead
        here.hand.now += TRUST_SECONDS
        late = group.create_task(here.ask(2))  # not trusted any more
        await settled()
        here.lookup.open.set()
        assert await late
        assert here.lookup.questions[3] == {hash_of(key(1)), hash_of(key(2))}
        assert [await each for each in flood] == [None] * 5

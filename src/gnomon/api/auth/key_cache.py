"""API keys in the memory of a process: at most half a second old, looked up in batches."""

import asyncio
from collections.abc import Iterable
from enum import Enum
from itertools import islice
from uuid import UUID

import msgspec
import structlog

from gnomon.access.api_key import KEY_CHARACTERS, ApiKey, hash_of, is_key
from gnomon.access.principal import Requester
from gnomon.clock import Clock
from gnomon.model.errors import Overloaded, StoreError
from gnomon.store.postgres.identity.api_keys import PostgresKeys

TRUST_SECONDS = 0.5  # counted from the start of the question: whatever was revoked before is found
AHEAD_SECONDS = 0.25  # from then on a key in use is asked about again, before anybody must wait
ASK_SECONDS = 2.0
MOST_REMEMBERED = 10_000  # known ones, and as many unknown ones, which push no known one out
MOST_WAITING = 10_000
MOST_TOGETHER = 500
NOTE_SECONDS = 5.0  # between looks at which keys were used
NOTED_SECONDS = 60.0

log = structlog.get_logger("gnomon.api")


class Recognition(Enum):
    """What this process knows of a key or token without a lookup."""

    GOOD = 1  # it was good when it was last asked about
    WRONG = 2  # it was not, a moment ago; or nothing of that kind is ever good
    UNKNOWN = 3


class _Lookup(msgspec.Struct, frozen=True):
    """The result of a lookup."""

    asked_at: float
    key_id: UUID | None = None
    requester: Requester | None = None


class KeyRing:
    """Live keys by their hash. Needs `run` to be running."""

    def __init__(self, lookup: PostgresKeys, clock: Clock) -> None:
        self._lookup = lookup
        self._clock = clock
        self._known: dict[bytes, _Lookup] = {}
        self._unknown: dict[bytes, _Lookup] = {}
        # Known ones are looked up first, and always: a flood of made-up keys must not delay them.
        self._known_waiting: dict[bytes, asyncio.Future[_Lookup]] = {}
        self._waiting: dict[bytes, asyncio.Future[_Lookup]] = {}
        self._asked: dict[bytes, asyncio.Future[_Lookup]] = {}
        self._filled = asyncio.Event()
        self._used: set[UUID] = set()
        self._noted: dict[UUID, float] = {}

    async def requester(self, key: str) -> Requester | None:
        """The holder of a live key; None for any other. Raises StoreUnavailable."""
        if len(key) != KEY_CHARACTERS:
            return None
        digest = hash_of(key)
        now = self._clock.monotonic()
        answer = self._known.get(digest) or self._unknown.get(digest)
        if answer is None or now >= answer.asked_at + TRUST_SECONDS:
            if not is_key(key):  # costs more than to look it up here, and less than to ask
                return None
            answer = await self._told(digest, now)
        elif answer.key_id is not None and now >= answer.asked_at + AHEAD_SECONDS:
            self._ask(digest)
        if answer.key_id is not None:
            self._used.add(answer.key_id)
        return answer.requester

    def recognise(self, key: str) -> tuple[Recognition, UUID | None]:
        """What is known of a key without a lookup, and its id where it is good."""
        if len(key) != KEY_CHARACTERS:
            return Recognition.WRONG, None
        digest = hash_of(key)
        answer = self._known.get(digest)
        if answer is not None:
            return Recognition.GOOD, answer.key_id
        answer = self._unknown.get(digest)
        if answer is not None and self._clock.monotonic() < answer.asked_at + TRUST_SECONDS:
            return Recognition.WRONG, None
        return Recognition.UNKNOWN, None

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._ask_on())
                group.create_task(self._note_on())
        finally:
            for asked in (self._known_waiting, self._waiting, self._asked):
                for told in asked.values():
                    told.cancel()

    async def _told(self, digest: bytes, since: float) -> _Lookup:
        """The result of a lookup that began after `since`, or is fresh enough."""
        while True:
            # Shielded: a request that is cancelled must not cancel the lookup of the others.
            answer = await asyncio.shield(self._ask(digest))
            fresh = self._clock.monotonic() < answer.asked_at + TRUST_SECONDS
            if fresh or answer.asked_at >= since:
                return answer

    def _ask(self, digest: bytes) -> asyncio.Future[_Lookup]:
        """All requests with the same key share one lookup."""
        waiting = self._known_waiting if digest in self._known else self._waiting
        told = self._asked.get(digest) or waiting.get(digest)
        if told is None:
            if waiting is self._waiting and len(waiting) >= MOST_WAITING:
                raise Overloaded("too many keys wait to be looked up; slow down")
            told = asyncio.get_running_loop().create_future()
            waiting[digest] = told
            self._filled.set()
        return told

    async def _ask_on(self) -> None:
        while True:
            await self._filled.wait()
            for waiting in (self._known_waiting, self._waiting):
                room = MOST_TOGETHER - len(self._asked)
                for digest in list(islice(waiting, room)):
                    self._asked[digest] = waiting.pop(digest)
            if not self._known_waiting and not self._waiting:
                self._filled.clear()
            await self._ask_together()
            self._asked = {}

    async def _ask_together(self) -> None:
        asked_at = self._clock.monotonic()
        try:
            found = await self._lookup.find(list(self._asked), ASK_SECONDS)
        except Exception as error:  # noqa: BLE001 - whoever waits answers: 503, or 500 and a log
            self._fail(error)
        else:
            for digest, told in self._asked.items():
                answer = self._remember(digest, found.get(digest), asked_at)
                if not told.done():
                    told.set_result(answer)

    def _remember(self, digest: bytes, key: ApiKey | None, asked_at: float) -> _Lookup:
        self._known.pop(digest, None)
        self._unknown.pop(digest, None)
        if key is None:
            answer, kept = _Lookup(asked_at), self._unknown
        else:
            answer, kept = _Lookup(asked_at, key.id, key.requester), self._known
        kept[digest] = answer
        if len(kept) > MOST_REMEMBERED:
            del kept[next(iter(kept))]
        return answer

    def _fail(self, error: Exception) -> None:
        for told in self._asked.values():
            if not told.done():
                told.set_exception(error)
                told.exception()  # nobody need be waiting for it

    async def _note_on(self) -> None:
        while True:
            await self._clock.sleep(NOTE_SECONDS)
            now = self._clock.monotonic()
            self._noted = {k: at for k, at in self._noted.items() if now < at + NOTED_SECONDS}
            await self._note([key_id for key_id in self._used if key_id not in self._noted], now)

    async def _note(self, ids: Iterable[UUID], now: float) -> None:
        due = list(ids)
        if not due:
            return
        try:
            await self._lookup.note_use(due)
        except StoreError as error:
            log.debug("the last use of keys could not be recorded", why=str(error))
            return
        self._used.difference_update(due)
        self._noted.update(dict.fromkeys(due, now))

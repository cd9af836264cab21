"""Goes on with bulk operations, on one node at a time.

A chunk is one short transaction, which also says how far the operation is: so whoever goes on after
a node that was killed begins where its last commit ended, and two nodes that both take themselves
for the holder only do each other's next chunk. All operations take turns, with a rest as long as
the chunk in between, so that at most half of one connection's time goes to them.
"""

from collections.abc import Awaitable, Callable

import structlog

from gnomon.chores import About, Troubles
from gnomon.clock import Clock
from gnomon.model.errors import StatementRefused, StoreError, Unstorable
from gnomon.node.membership.lease import Lease
from gnomon.store.ports.work.bulk import BulkKey
from gnomon.store.ports.work.tasks import LOWEST_ID
from gnomon.store.postgres.bulk.bulk_store import PostgresBulk
from gnomon.store.postgres.dispatch.roster import PostgresChores

log = structlog.get_logger("gnomon.node")

CHORE = "bulk"
EVERY_SECONDS = 0.5
_HELD_SECONDS = 5.0
_PASS_SECONDS = 10.0
_MOST_AT_ONCE = 100  # operations, in turn
CHUNK = 500  # tasks

# Does a chunk of so many tasks, or passes over them; gives whether there may be more.
DoChunk = Callable[[BulkKey, int, bool], Awaitable[bool]]


class BulkRunner:
    """Does the chunks of all operations that are under way."""

    def __init__(
        self,
        store: PostgresBulk,
        chores: PostgresChores,
        lease: Lease,
        do_chunk: DoChunk,
        clock: Clock,
        troubles: Troubles,
    ) -> None:
        self._store = store
        self._chores = chores
        self._lease = lease
        self._do_chunk = do_chunk
        self._clock = clock
        self._troubles = troubles
        self._after = LOWEST_ID
        self._sizes: dict[BulkKey, int] = {}

    async def run_once(self) -> int:
        """Gives how many chunks were done."""
        deadline = self._clock.monotonic() + _PASS_SECONDS
        chunks = 0
        while self._clock.monotonic() < deadline:
            done = await self._round()
            if not done:
                break
            chunks += done
        return chunks

    async def _round(self) -> int:
        """A chunk of each operation; 0 where there is nothing to do, or another does it."""
        found = await self._store.under_way(self._after, _MOST_AT_ONCE)
        if not found and self._after != LOWEST_ID:
            found = await self._store.under_way(LOWEST_ID, _MOST_AT_ONCE)
        self._after = found[-1].operation_id if len(found) == _MOST_AT_ONCE else LOWEST_ID
        if not found:
            self._sizes.clear()
            return 0
        aside = self._troubles.aside(CHORE)
        done = 0
        for key in found:
            if _about(key) in aside:
                continue
            if not await self._chores.hold(CHORE, self._lease.incarnation, _HELD_SECONDS):
                return 0
            started_at = self._clock.monotonic()
            done += await self._chunk(key)
            await self._clock.sleep(min(self._clock.monotonic() - started_at, 1.0))
        return done

    async def _chunk(self, key: BulkKey) -> bool:
        """An operation that fails keeps none of the others back; nor does a task that PostgreSQL
        refuses, the other tasks of its operation: it is found by halving, and passed over."""
        size = self._sizes.get(key, CHUNK)
        try:
            more = await self._do_chunk(key, size, False)
        except (StatementRefused, Unstorable) as error:
            if size == 1:
                log.warning("a bulk operation passes over a task", error=str(error), **_named(key))
                return await self._passed_over(key)
            self._sizes[key] = size // 2
            return True
        except StoreError as error:
            self._troubles.note(CHORE, error, _about(key))
            return False
        self._troubles.over(CHORE, _about(key))
        if not more:
            self._sizes.pop(key, None)
        elif size < CHUNK:
            self._sizes[key] = min(CHUNK, size * 2)
        return True

    async def _passed_over(self, key: BulkKey) -> bool:
        try:
            await self._do_chunk(key, 1, True)
        except StoreError as error:
            self._troubles.note(CHORE, error, _about(key))
            return False
        return True


def _about(key: BulkKey) -> About:
    return About(key.tenant_id, f"bulk operation {key.operation_id}")


def _named(key: BulkKey) -> dict[str, str]:
    return {"tenant": key.tenant_id, "operation": str(key.operation_id)}

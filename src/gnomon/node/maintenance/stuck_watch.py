"""Finds stuck tasks: tells once that they are, and once that it is over."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from itertools import islice
from typing import NamedTuple

from gnomon.chores import Troubles, about_task
from gnomon.model.errors import StoreUnavailable
from gnomon.model.insight.stuck import Stuck
from gnomon.model.tasks.task import Task, TaskKey
from gnomon.node.membership.lease import Lease
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.levels.stuck_store import FlowPlace, PostgresStuck

CHORE = "stuck"
EVERY_SECONDS = 15.0
MOST_TOLD = 200  # tasks that are told to be stuck at once
MOST_OF_TENANT = 20  # of them: others' are told, however many one tenant has
_HOLD_SECONDS = 45.0
_FLOWS = 1_000  # that are looked at in one pass
_EXAMINED = 20  # of their first tasks, and of those that run for too long
_OVERRUN = 1_000  # that run for too long, of which some are examined
_REMEDY = "whether it is stuck is not known meanwhile: see `gnomon tasks show`"
_GONE = "DELETED"

Examine = Callable[[TaskKey], Awaitable[tuple[Task | None, Stuck | None]]]


class StuckResult(NamedTuple):
    """How many tasks became stuck in a pass, and how many are not any more."""

    begun: int = 0
    ended: int = 0


class StuckWatch:
    """Examines the first task of each flow, some at a time, and again those that were told."""

    def __init__(
        self,
        store: PostgresStuck,
        chores: PostgresChores,
        lease: Lease,
        after_seconds: float,
        begin: Callable[[], Awaitable[Examine]],
        troubles: Troubles,
    ) -> None:
        self._store = store
        self._chores = chores
        self._lease = lease
        self._after = after_seconds
        self._begin = begin  # a pass: what all examinations of it share is read once
        self._troubles = troubles
        self._place = FlowPlace()

    async def run_once(self) -> StuckResult:
        """Nothing where another node has the chore."""
        if not await self._chores.hold(CHORE, self._lease.incarnation, _HOLD_SECONDS):
            return StuckResult()
        told = await self._store.told(MOST_TOLD)
        of_tenants = Counter(key.tenant_id for key in told)
        fresh = await self._candidates(set(told), of_tenants)
        if not told and not fresh:
            return StuckResult()
        examine = await self._begin()
        ended = 0
        for key in told:
            ended += await self._apart(key, self._end(examine, key))
        begun = 0
        for key in fresh[: max(0, MOST_TOLD - len(told) + ended)]:
            if of_tenants[key.tenant_id] < MOST_OF_TENANT:
                is_told = await self._apart(key, self._tell(examine, key))
                begun += is_told
                of_tenants[key.tenant_id] += is_told
        return StuckResult(begun, ended)

    async def _end(self, examine: Examine, key: TaskKey) -> bool:
        task, found = await examine(key)
        if found is not None:
            return False
        return await self._store.end(key, _GONE if task is None else task.status)

    async def _tell(self, examine: Examine, key: TaskKey) -> bool:
        task, found = await examine(key)
        if task is None or found is None:
            return False
        return await self._store.begin(task, found)

    async def _apart(self, key: TaskKey, work: Awaitable[bool]) -> bool:
        """The result of work about one task. An error of it concerns no other: plain SQL stores
        what it likes."""
        try:
            done = await work
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about this task
            self._troubles.note(CHORE, error, about_task(key), _REMEDY)
            return False
        self._troubles.over(CHORE, about_task(key))
        return done

    async def _candidates(
        self, told: Collection[TaskKey], of_tenants: Counter[str]
    ) -> list[TaskKey]:
        """Tasks that may be stuck. Flows that were not reached are for the next pass. Those of a
        tenant that has been told of enough are passed over."""
        aside = set(self._troubles.aside(CHORE))

        def is_wanted(key: TaskKey) -> bool:
            is_full = of_tenants[key.tenant_id] >= MOST_OF_TENANT
            return not is_full and key not in told and about_task(key) not in aside

        overrun = list(islice(filter(is_wanted, await self._store.overrun(_OVERRUN)), _EXAMINED))
        heads, after = await self._store.waiting(self._place, self._after, _FLOWS)
        wanted = list(islice((h for h in heads if is_wanted(h.key)), _EXAMINED))
        if len(wanted) == _EXAMINED:
            after = wanted[-1].place
        if after is not None and of_tenants[after.tenant_id] >= MOST_OF_TENANT:
            after = after.end_of_tenant
        self._place = after or FlowPlace()
        return [*overrun, *(head.key for head in wanted)]

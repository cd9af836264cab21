"""Finds stuck tasks: tells once that they are, and once that it is over."""

from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple

from gnomon.model.stuck import Stuck
from gnomon.model.task import Task, TaskKey
from gnomon.node.membership.lease import Lease
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.levels.stuck_store import FlowPlace, PostgresStuck

CHORE = "stuck"
EVERY_SECONDS = 15.0
MOST_TOLD = 200  # tasks that are told to be stuck at once
_HOLD_SECONDS = 45.0
_FLOWS = 1_000  # that are looked at in one pass
_EXAMINED = 20  # of their first tasks
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
    ) -> None:
        self._store = store
        self._chores = chores
        self._lease = lease
        self._after = after_seconds
        self._begin = begin  # a pass: what all examinations of it share is read once
        self._place = FlowPlace()

    async def run_once(self) -> StuckResult:
        """Nothing where another node has the chore."""
        if not await self._chores.hold(CHORE, self._lease.incarnation, _HOLD_SECONDS):
            return StuckResult()
        told = await self._store.told(MOST_TOLD)
        fresh = await self._candidates(set(told))
        if not told and not fresh:
            return StuckResult()
        examine = await self._begin()
        ended = 0
        for key in told:
            task, found = await examine(key)
            if found is None:
                ended += await self._store.end(key, _GONE if task is None else task.status)
        begun = 0
        for key in fresh[: MOST_TOLD - len(told) + ended]:
            task, found = await examine(key)
            if task is not None and found is not None:
                begun += await self._store.begin(task, found)
        return StuckResult(begun, ended)

    async def _candidates(self, told: Collection[TaskKey]) -> list[TaskKey]:
        """Tasks that may be stuck. Flows that were not reached are for the next pass."""
        overrun = await self._store.overrun(_EXAMINED)
        waiting, after = await self._store.waiting(self._place, self._after, _FLOWS)
        self._place = after or FlowPlace()
        fresh = [key for key in (*overrun, *waiting) if key not in told]
        return fresh[: 2 * _EXAMINED]

"""The store that a contract suite is run against: its ports, and the little that they do not offer.

A suite sets everything up through the ports where they can, and through these methods where they
cannot: submitting, cancelling and reading tasks is the API's side of a store, time is its own.
"""

from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from gnomon.clock import new_id, new_incarnation
from gnomon.cron.job import CronJob, CronRun, Definition
from gnomon.model.fleet.shard import SHARDS
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE, Verdict
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.execution import Execution
from gnomon.model.tasks.task import DEFAULT_TENANT, Submission, Task, TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.dispatch import BEGINNING, Cursor, DispatchStore, Entry, Settlement
from gnomon.store.ports.planning import PlanningStore
from gnomon.store.ports.roster import RosterStore
from gnomon.store.ports.work.tasks import LOWEST_ID

GRACE = 10.0  # seconds after a task's timeout, as the store under test must be set up with
HOUR = timedelta(hours=1)


class DispatchWorld(Protocol):
    """An empty store with its dispatch port."""

    @property
    def roster(self) -> RosterStore: ...

    @property
    def dispatch(self) -> DispatchStore: ...

    async def now(self) -> datetime:
        """The store's time."""

    async def turn(self, seconds: float) -> None:
        """Set the store's clock forward."""

    async def submit(self, *submissions: Submission) -> None:
        """Store tasks."""

    async def cancel(self, key: TaskKey) -> None:
        """Ask for the cancelling of a running task."""

    async def task(self, key: TaskKey) -> Task:
        """A task as the API shows it."""

    async def executions(self, key: TaskKey) -> list[Execution]:
        """Its executions, oldest first."""


class PlanningWorld(DispatchWorld, Protocol):
    """The same with its planning port."""

    @property
    def planning(self) -> PlanningStore: ...

    async def create(self, definition: Definition) -> CronJob:
        """Store a cron job. What fires in the next seconds may be planned with it."""

    async def trigger(self, job_id: UUID) -> None:
        """Run a cron job by hand, now."""

    async def job(self, job_id: UUID) -> CronJob:
        """A cron job as it stands."""

    async def runs(self, job_id: UUID) -> list[CronRun]:
        """The entries of its ledger, latest fire first."""


async def joined(roster: RosterStore, name: str = "node") -> UUID:
    """A node that is alive."""
    incarnation = new_incarnation()
    await roster.join(incarnation, name, 10, 3600.0)
    return incarnation


async def declared_dead(roster: RosterStore, incarnation: UUID) -> None:
    (beat,) = [node.beat for node in await roster.roster() if node.incarnation == incarnation]
    assert await roster.declare_dead(incarnation, beat)


def a_submission(now: datetime, due_in: float = -1.0, **values: Any) -> Submission:
    """A task that is due as soon as it is stored, unless told otherwise."""
    due = now + timedelta(seconds=due_in)
    fields: dict[str, Any] = {
        "tenant_id": DEFAULT_TENANT,
        "id": new_id(now),
        "task_type": "test",
        "target": PythonTarget("nothing"),
        "execute_at": due,
        "due_at": due,
    }
    return Submission(**(fields | values))


async def submitted(
    world: DispatchWorld, count: int, due_in: float = -1.0, **values: Any
) -> list[TaskKey]:
    """The keys of so many tasks."""
    now = await world.now()
    tasks = [a_submission(now, due_in, **values) for _ in range(count)]
    await world.submit(*tasks)
    return [TaskKey(task.tenant_id, task.id) for task in tasks]


async def claimed(
    world: DispatchWorld, node: UUID, count: int = 1, **values: Any
) -> list[Delivery]:
    """So many new tasks that this node has claimed."""
    keys = await submitted(world, count, **values)
    deliveries = (await world.dispatch.claim(node, keys)).deliveries
    assert len(deliveries) == count
    return deliveries


def settlement(
    delivery: Delivery,
    verdict: Verdict = COMPLETE,
    outcome: OutcomeKind | None = OutcomeKind.SUCCEEDED,
    **values: Any,
) -> Settlement:
    """The settlement of a delivery by the node that claimed it."""
    fields: dict[str, Any] = {"fence": delivery.fence, "incarnation": delivery.incarnation}
    return Settlement(key=delivery.key, verdict=verdict, outcome=outcome, **(fields | values))


def all_shards() -> list[Cursor]:
    """Cursors at the beginning of every shard."""
    return [Cursor(shard, BEGINNING, LOWEST_ID) for shard in range(SHARDS)]


async def waiting(world: DispatchWorld, within: float = 3600.0) -> dict[TaskKey, Entry]:
    """The tasks that a scan of everything finds."""
    until = await world.now() + timedelta(seconds=within)
    return {entry.key: entry for entry in await world.dispatch.scan(all_shards(), until, 1000)}

"""A remote worker for one session: its parts, and how they run together until it ends."""

import asyncio

import structlog

from gnomon.chores import Chores, Troubles, every
from gnomon.client.errors import ClientError
from gnomon.clock import Chance, Clock
from gnomon.model.errors import LeaseLost
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.drain import Drain
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease_keeper import LeaseKeeper
from gnomon.node.run.payloads import Payloads
from gnomon.node.run.runner import Runner
from gnomon.node.run.starter import Starter
from gnomon.node.run.targets import Callers
from gnomon.node.run.worker import Worker
from gnomon.observe.events import Observer
from gnomon.pipe.memory import MemoryPipe
from gnomon.remote.gateway_calls import GatewayCalls
from gnomon.remote.held import HeldDeliveries
from gnomon.remote.poller import Ends, HeldSession, Poller
from gnomon.remote.progress import ProgressNotes
from gnomon.settings import Settings

log = structlog.get_logger("gnomon.worker")


class PollingWorker:
    """One session, from its opening to its end: a node's worker, and the poll loop in place of
    all its other stages."""

    def __init__(
        self,
        gateway: GatewayCalls,
        session: HeldSession,
        callers: Callers,
        settings: Settings,
        clock: Clock,
        chance: Chance,
        emit: Observer,
    ) -> None:
        node = settings.node
        self.lease = session.lease
        self._gateway = gateway
        self._session = session.opened
        self._clock = clock
        self._lost = asyncio.Event()
        self._told_to_drain = asyncio.Event()
        self._troubles = Troubles(clock, emit)
        held = HeldTasks(SuspectRoom(settings.targets.quarantine_processes, node.slots))
        pipe = MemoryPipe(node.slots, lambda: None, node.prefetch, settling=2 * node.batch)
        self.poller = Poller(
            session,
            pipe,
            HeldDeliveries(held),
            clock,
            chance,
            Ends(self.on_lease_lost, self._told_to_drain.set),
        )
        payloads = Payloads(_none_apart, node.payload_memory_bytes, self._troubles)
        runner = Runner(callers, payloads, clock, node.timeout_grace_seconds / 2, emit)
        starter = Starter(self.poller.grants.begin, self._troubles)
        self.worker = Worker(pipe, runner, starter, session.lease, clock, node.slots)
        self.progress = ProgressNotes(runner)
        self._drain = Drain(held, self.worker, clock, node.drain_seconds)

    def on_lease_lost(self) -> None:
        """The session is over, whatever it runs."""
        self.lease.lost = True
        self._lost.set()

    async def run(self, keeper: LeaseKeeper, stop: asyncio.Event) -> None:
        """Serve until `stop` is set or the gateway says so, then drain, and leave. Raises
        LeaseLost when the session has ended before."""
        keeper.start()
        chores = Chores(self._clock, self._troubles)
        progress = every("progress", keeper.progress, self._clock, self.lease.ttl / 5)
        try:
            async with asyncio.TaskGroup() as group:
                work = (chores.run(progress), self.worker.run(), self.poller.run())
                running = [group.create_task(each) for each in work]
                await self._until_end(stop, group)
                if self._lost.is_set():
                    self.worker.interrupt_all("the session of this worker has ended")
                else:
                    if self._told_to_drain.is_set():
                        log.info("the gateway asks this worker to leave")
                    self.worker.drain()
                    self.poller.say_now()  # it takes nothing more
                    await self._drain.run()
                for task in running:
                    task.cancel()
        finally:
            await keeper.stop()
        if self._lost.is_set():
            raise LeaseLost("the session of this worker has ended")
        if self._told_to_drain.is_set():
            stop.set()
        await self._leave()

    async def _until_end(self, stop: asyncio.Event, group: asyncio.TaskGroup) -> None:
        events = (stop, self._lost, self._told_to_drain)
        waits = [group.create_task(event.wait()) for event in events]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in waits:
            task.cancel()

    async def _leave(self) -> None:
        if self._drain.held:
            log.warning("leaving before all reports were acknowledged", held=self._drain.held)
        try:
            await self._gateway.leave(self._session)
        except ClientError as error:
            log.warning("the session could not be ended: its lease will run out", why=str(error))


async def _none_apart(key: TaskKey) -> bytes | None:
    """Payloads come with their deliveries."""
    raise AssertionError(f"task {key.id} has its payload with it")

"""A dispatcher to be turned by hand, and what it is made of."""

from dataclasses import dataclass

from gnomon.chores import Troubles
from gnomon.clock import Clock
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.planner import Planner
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.stage import AheadStage
from gnomon.node.claims import Claims
from gnomon.node.dispatch.claim_store import ClaimStore
from gnomon.node.dispatch.claimer import Claimer
from gnomon.node.dispatch.dispatcher import Dispatcher
from gnomon.node.dispatch.requeue import Requeue
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.node.settle.follow_up import FollowUp
from gnomon.node.signals import Signals
from gnomon.node.start_checks import StartChecks
from gnomon.observe.events import Observer, nobody
from gnomon.pipe.memory import MemoryPipe
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import DispatchStore
from gnomon.store.ports.planning import PlanningStore


@dataclass
class Parts:
    """What a test builds by itself."""

    store: DispatchStore
    planning: PlanningStore
    agenda: Agenda
    scanner: Scanner
    pipe: MemoryPipe
    held: HeldTasks
    lease: Lease
    clock: Clock
    emit: Observer = nobody

    def claims(self, *checks_of: StartChecks) -> Claims:
        (checks,) = checks_of or (StartChecks(),)
        return Claims(self.held, self.agenda, checks)

    def dispatcher(self, claims: Claims, batch: int) -> Dispatcher:
        requeue = Requeue(self.agenda, self.scanner, self.clock)
        claimer = self.claimer(claims, requeue)
        return Dispatcher(claimer, claims, requeue, self.pipe, None, batch)

    def claimer(self, claims: Claims, requeue: Requeue | None = None) -> Claimer:
        requeue = requeue or Requeue(self.agenda, self.scanner, self.clock)
        store = ClaimStore(self.store, self.planning, self.lease, self.clock)
        return Claimer(store, claims, requeue, self.pipe, Troubles(self.clock, nobody), self.emit)

    def follow_up(self) -> FollowUp:
        settings, troubles = NodeSettings(), Troubles(self.clock, nobody)
        planner = Planner(self.planning, self.scanner, self.clock, settings, troubles)
        ahead = AheadStage(self.scanner, self.agenda, planner, Signals(), self.clock, settings)
        return FollowUp(ahead, self.clock, settings.horizon_seconds, self.emit)

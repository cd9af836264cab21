"""How a gateway is put together: a node whose slots are the sessions of remote workers."""

from datetime import timedelta
from functools import cached_property

from gnomon.chores import Chores, Service, every
from gnomon.clock import chance
from gnomon.fairness import FairQueue, LaneRound
from gnomon.model.fleet.pool import NOTHING, Pool
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.tasks.priority import Lane
from gnomon.model.text import storable
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.dispatch.accountant import EVERY_SECONDS as ACCOUNT_SECONDS
from gnomon.node.dispatch.accountant import Accountant
from gnomon.node.dispatch.claim_store import ClaimStore
from gnomon.node.dispatch.session_check import SessionCheck
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.maintenance.reporter import EVERY_SECONDS as REPORT_SECONDS
from gnomon.node.maintenance.reporter import NodeReporter
from gnomon.node.membership.roster import Roster
from gnomon.node.membership.stage import Membership, RosterEntry
from gnomon.node.node import Node
from gnomon.node.remote.adoption import Adoption
from gnomon.node.remote.conversation import Conversation
from gnomon.node.remote.delivery_gate import DeliveryGate
from gnomon.node.remote.desk import SessionDesk
from gnomon.node.remote.drain import GatewayDrain
from gnomon.node.remote.preemption import SessionPreemption
from gnomon.node.remote.remote_worker import RemoteWorker
from gnomon.node.remote.renewals import SessionRenewals
from gnomon.node.remote.session_keeper import SessionKeeper
from gnomon.node.remote.session_reporter import SessionReporter
from gnomon.node.run.payloads import Payloads
from gnomon.node.run.starter import Starter
from gnomon.node.settle.recorder import Settle
from gnomon.node.settle.verdicts import settlement_of
from gnomon.node.start_checks import StartChecks
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.http.http_pipe import HttpPipe
from gnomon.pipe.http.session import WorkerSession
from gnomon.store.ports.dispatch import Entry, Settlement
from gnomon.store.ports.roster import NodeKind
from gnomon.store.postgres.dispatch.progress import PostgresProgress
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.store.postgres.dispatch.worker_sessions import PostgresWorkerSessions
from gnomon.store.tenant_cache import TenantCache
from gnomon.wiring.checks import CheckAssembly, CheckInputs
from gnomon.wiring.node import Assembly

_MOST_SUSPECTS = 1_000


class GatewayChecks(CheckAssembly):
    """Breakers and permits as in every node, and a session that can take the task."""

    def __init__(self, pipe: HttpPipe, inputs: CheckInputs) -> None:
        super().__init__(*inputs)
        self._pipe = pipe

    @cached_property
    def checks(self) -> StartChecks:
        return StartChecks([self._breakers, self._permits, self.sessions])

    @cached_property
    def sessions(self) -> SessionCheck:
        return SessionCheck(self._pipe, self.flows, self._agenda, self._permits.wanted.set)


class GatewayAssembly(Assembly):
    """The parts of one incarnation of a gateway: a node whose slots are the sessions of remote
    workers."""

    def node(self) -> Node:
        drain = GatewayDrain(self._held, self._worker, self._sessions, self._clock)
        chores = Chores(self._clock, self._troubles)
        return Node(self._membership, self._services(), self._worker, drain, chores, self._clock)

    @cached_property
    def desk(self) -> SessionDesk:
        return SessionDesk(
            self._conversation,
            self._renewals,
            self._adoption,
            self._clock,
            self._inputs.settings.gateway,
            self._keeper.changed.set,
        )

    def _services(self) -> list[Service]:
        clock, worker = self._clock, self._remote_worker
        progress = PostgresProgress(self._database)
        sessions = SessionReporter(self._sessions, progress, clock, self._emit)
        accountant = Accountant(self._agenda, worker, clock, self._emit)
        reporter = NodeReporter(self._membership, worker, clock, self._database.use, self._emit)
        return [
            *self._membership.services(),
            *self._ahead.services(),
            *self._dispatch.services(),
            *self._settle.services(),
            *self._checks.services(self._pipe),
            *self._keeper.services(),
            *sessions.services(),
            every("account", accountant.run_once, clock, ACCOUNT_SECONDS),
            every("report", reporter.run_once, clock, REPORT_SECONDS),
        ]

    @cached_property
    def _keeper(self) -> SessionKeeper:
        return SessionKeeper(
            self._conversation,
            self._adoption,
            self._membership,
            self._takeover,
            self._clock,
            self._inputs.settings.gateway.lease_seconds,
        )

    @cached_property
    def _membership(self) -> Membership:
        store = PostgresRoster(self._database)
        name = f"{self._inputs.name} gateway"
        entry = RosterEntry(name, 0, NOTHING, kind=NodeKind.GATEWAY)
        roster = Roster(store, self._lease, self._clock)
        return Membership(entry, store, roster, self._lease, self._clock, self._ahead.serve)

    # Sessions

    @cached_property
    def _sessions(self) -> HttpPipe:
        return HttpPipe(self._clock.monotonic, self._signals.made_room, self._tell)

    def _tell(self, session: WorkerSession) -> None:
        self._conversation.tell(session)

    @property
    def _pipe(self) -> HttpPipe:
        return self._sessions

    @cached_property
    def _session_store(self) -> PostgresWorkerSessions:
        return PostgresWorkerSessions(self._database)

    @cached_property
    def _conversation(self) -> Conversation:
        return Conversation(
            self._sessions,
            self._starter,
            self._gate,
            self._checks.sessions.let_in,
            self._clock,
            self._inputs.settings.gateway.answer_bytes,
        )

    @cached_property
    def _gate(self) -> DeliveryGate:
        refusal = _Allowed(self._inputs.directory).refusal
        return DeliveryGate(self._checks.checks, refusal, self._lease, self._clock)

    @cached_property
    def _starter(self) -> Starter:
        return Starter(self._store.begin, self._troubles)

    @cached_property
    def _renewals(self) -> SessionRenewals:
        seconds = self._inputs.settings.gateway.lease_seconds
        return SessionRenewals(self._session_store, self._clock, self._troubles, seconds)

    @cached_property
    def _adoption(self) -> Adoption:
        return Adoption(
            self._sessions,
            self._conversation,
            self._claims,
            self._session_store,
            self._lease,
            self._clock,
        )

    @cached_property
    def _remote_worker(self) -> RemoteWorker:
        settings = self._settings
        return RemoteWorker(
            self._conversation,
            self._checks.sessions,
            self._starter,
            self._renewals,
            Payloads(self._store.payload, settings.payload_memory_bytes, self._troubles),
            self._clock,
        )

    @property
    def _worker(self) -> RemoteWorker:
        return self._remote_worker

    # What differs from a node

    @cached_property
    def _claim_store(self) -> ClaimStore:
        return ClaimStore(
            self._store, self._planning, self._lease, self._clock, self._sessions.taken_for
        )

    @property
    def _child_claimer(self) -> None:
        """What is claimed here is claimed for a session, which is chosen before."""

    @cached_property
    def _preemption(self) -> SessionPreemption:
        return SessionPreemption(self._sessions, self._conversation, self._emit)

    @cached_property
    def _settlement_of(self) -> Settle:
        def settlement(report: Report) -> Settlement:
            session = self._sessions.sessions.get(report.delivery.incarnation)
            worker = self._inputs.name if session is None else session.name
            return settlement_of(report, worker, chance)

        return settlement

    def _ready_queue(self) -> FairQueue[Entry]:
        # A session is one tenant's: no tenant can take the slots of another.
        sharing, directory = self._inputs.settings.sharing, self._inputs.directory
        return FairQueue(
            LaneRound({Lane[name]: weight for name, weight in sharing.lane_weights.items()}),
            timedelta(seconds=sharing.aging_seconds),
            None,
            directory.weight,
            directory.others_than,
        )

    @cached_property
    def _held(self) -> HeldTasks:
        # How many suspects run is decided by the sessions that can take one.
        return HeldTasks(SuspectRoom(_MOST_SUSPECTS, 2 * _MOST_SUSPECTS))

    @cached_property
    def _checks(self) -> GatewayChecks:
        return GatewayChecks(
            self._sessions,
            (self._inputs, self._lease, self._agenda, self._held, self._pool, self._troubles),
        )

    @cached_property
    def _pool(self) -> Pool:
        return NOTHING  # until a session opens


class _Allowed:
    """Refuses what a tenant may not call, whoever stored the task, and when."""

    def __init__(self, directory: TenantCache) -> None:
        self._allow_lists = directory.allow_lists  # mostly empty, and asked for every task

    def refusal(self, delivery: Delivery) -> Outcome | None:
        if not self._allow_lists:
            return None
        allow = self._allow_lists.get(delivery.key.tenant_id)
        if allow is None or allow.allows(delivery.target):
            return None
        error = f"it is not called: it {allow.refusal(delivery.target, 'its tenant')}"
        return Outcome(
            OutcomeKind.FAILED, error=storable(error[:2000]), retryable=False, uncalled=True
        )

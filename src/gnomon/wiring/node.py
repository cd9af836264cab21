"""How a node is put together: each of its parts once, and what each is made of."""

from datetime import timedelta
from functools import cached_property, partial

from gnomon.chores import Chores, Service, Troubles, every, one_by_one, whenever
from gnomon.clock import chance
from gnomon.fairness import FairQueue, LaneRound, SlotShares
from gnomon.model.fleet.pool import Pool
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.planner import Planner
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.stage import AheadStage
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.claims import Claims
from gnomon.node.dispatch.accountant import EVERY_SECONDS as ACCOUNT_SECONDS
from gnomon.node.dispatch.accountant import Accountant
from gnomon.node.dispatch.claim_store import ClaimStore
from gnomon.node.dispatch.claimer import Claimer
from gnomon.node.dispatch.dispatcher import Dispatcher, Preempting
from gnomon.node.dispatch.early_starts import EarlyStarts
from gnomon.node.dispatch.preemption import Preemption
from gnomon.node.dispatch.requeue import Requeue
from gnomon.node.dispatch.short_flows import ShortFlows
from gnomon.node.dispatch.stage import DispatchStage
from gnomon.node.dispatch.stealer import Stealer
from gnomon.node.drain import Drain
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.maintenance.reporter import EVERY_SECONDS as REPORT_SECONDS
from gnomon.node.maintenance.reporter import NodeReporter
from gnomon.node.membership.lease import Lease
from gnomon.node.membership.roster import Roster
from gnomon.node.membership.stage import Membership, RosterEntry
from gnomon.node.node import Node
from gnomon.node.run.payloads import Payloads
from gnomon.node.run.progress_keeper import EVERY_SECONDS as PROGRESS_SECONDS
from gnomon.node.run.progress_keeper import ProgressKeeper
from gnomon.node.run.runner import Runner
from gnomon.node.run.starter import Starter
from gnomon.node.run.worker import Worker
from gnomon.node.settle.child_claimer import ChildClaimer
from gnomon.node.settle.follow_up import FollowUp
from gnomon.node.settle.reconciler import Reconciler
from gnomon.node.settle.recorder import Recorder, Settle
from gnomon.node.settle.settlement_writer import SettlementWriter
from gnomon.node.settle.stage import SettleStage
from gnomon.node.settle.sweeper import Sweeper
from gnomon.node.settle.takeover import Takeover
from gnomon.node.settle.verdicts import settlement_of
from gnomon.node.settle.workflow_stepper import CHORE as STEPS
from gnomon.node.settle.workflow_stepper import EVERY_SECONDS as STEP_SECONDS
from gnomon.node.settle.workflow_stepper import WorkflowStepper
from gnomon.node.signals import Signals
from gnomon.node.workers import Workers
from gnomon.pipe.memory import MemoryPipe
from gnomon.pipe.port import Pipe
from gnomon.store.guards import Guards
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.batches.batch_steps import PostgresBatchSteps
from gnomon.store.postgres.bulk.bulk_store import CollectedHints
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.progress import PostgresProgress
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.store.postgres.workflows.node_limits import TenantLimits
from gnomon.store.postgres.workflows.spawning import SpawnRules
from gnomon.store.postgres.workflows.workflow_steps import PostgresWorkflowSteps
from gnomon.usecases.checks.payload_check import payload_check_of
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.workflows.spawns import WorkflowSpawns
from gnomon.wiring.checks import CheckAssembly
from gnomon.wiring.feeding import feeding
from gnomon.wiring.maintenance import maintenance
from gnomon.wiring.node_inputs import NodeInputs
from gnomon.wiring.notifying import notifying

_BEGIN_SECONDS = 1.0  # within which all chores have begun: a node has tasks to claim first


class Assembly:
    """The parts of one incarnation. A part is made when the first other part asks for it, so that
    each names what it needs and nothing has to be listed in order."""

    def __init__(self, inputs: NodeInputs, lease: Lease) -> None:
        self._inputs = inputs
        self._settings = inputs.settings.node
        self._database = inputs.database
        self._clock = inputs.clock
        self._emit = inputs.emit
        self._signals = Signals()
        self._troubles = Troubles(self._clock, self._emit)
        self._lease = lease

    def node(self) -> Node:
        """All of them, at work together."""
        drain = Drain(self._held, self._worker, self._clock, self._settings.drain_seconds)
        chores = Chores(self._clock, self._troubles)
        return Node(self._membership, self._services(), self._worker, drain, chores, self._clock)

    def on_due(self, entries: list[Entry] | None) -> None:
        self._ahead.hear(entries)
        if entries is None:  # hints were lost
            self.on_steps()

    def on_steps(self) -> None:
        self._signals.steps.set()

    def on_cancel(self, key: TaskKey) -> None:
        self._worker.interrupt(key, "cancelled")

    def _services(self) -> list[Service]:
        """In the order in which a task meets them, and then those that look after all of them."""
        progress = ProgressKeeper(self._runner, PostgresProgress(self._database))
        accountant = Accountant(self._agenda, self._runner, self._clock, self._emit)
        reporter = NodeReporter(
            self._membership, self._runner, self._clock, self._database.use, self._emit
        )
        return [
            *self._membership.services(),
            *self._ahead.services(),
            *self._dispatch.services(),
            *self._early.services(self._signals),
            *self._settle.services(),
            *self._checks.services(self._pipe),
            every("progress", progress.run_once, self._clock, PROGRESS_SECONDS),
            every("account", accountant.run_once, self._clock, ACCOUNT_SECONDS),
            every("report", reporter.run_once, self._clock, REPORT_SECONDS),
            whenever(STEPS, self._stepper.run_once, self._clock, self._signals.steps, STEP_SECONDS),
            *one_by_one(self._looking_after(), _BEGIN_SECONDS),
            *([] if self._inputs.registrar is None else self._inputs.registrar.services()),
        ]

    def _looking_after(self) -> list[Service]:
        """Those that no task waits for."""
        return [
            *maintenance(self._inputs, self._lease, self._troubles),
            *notifying(self._inputs, self._lease),
            *feeding(self._inputs, self._lease),
        ]

    # The stages of a task, in order

    @cached_property
    def _membership(self) -> Membership:
        store = PostgresRoster(self._database)
        registrar = self._inputs.registrar
        app = None if registrar is None else registrar.version
        entry = RosterEntry(self._inputs.name, self._settings.slots, self._pool, app)
        roster = Roster(store, self._lease, self._clock)
        return Membership(entry, store, roster, self._lease, self._clock, self._ahead.serve)

    @cached_property
    def _ahead(self) -> AheadStage:
        planner = Planner(
            self._planning, self._scanner, self._clock, self._settings, self._troubles, self._emit
        )
        return AheadStage(
            self._scanner, self._agenda, planner, self._signals, self._clock, self._settings
        )

    @cached_property
    def _dispatch(self) -> DispatchStage:
        settings = self._settings
        dispatcher = Dispatcher(
            self._claimer, self._claims, self._requeue, self._pipe, self._preemption, settings.batch
        )
        stealer = Stealer(self._store, self._scanner, dispatcher, chance, settings)
        return DispatchStage(
            dispatcher, stealer, self._ahead, self._signals, self._clock, settings.steal_seconds
        )

    @cached_property
    def _early(self) -> EarlyStarts:
        return EarlyStarts(
            self._claim_store, self._claimer, self._slots,
            self._clock, self._troubles, self._emit,
        )  # fmt: skip

    @cached_property
    def _worker(self) -> Workers:
        starter = Starter(self._store.begin, self._troubles)
        slots = self._settings.slots
        return Worker(self._slots, self._runner, starter, self._lease, self._clock, slots)

    @cached_property
    def _settle(self) -> SettleStage:
        clock, troubles, follow_up = self._clock, self._troubles, self._follow_up
        recorder = Recorder(
            self._pipe,
            self._settlement_of,
            SettlementWriter(
                self._store, self._held, clock, troubles, follow_up.buried, self._emit
            ),
            self._claims,
            follow_up,
            self._child_claimer,
        )
        sweeper = Sweeper(self._store, self._takeover, self._lease, clock, chance)
        reconciler = Reconciler(self._store, self._takeover, self._held, self._worker, self._lease)
        return SettleStage(recorder, sweeper, reconciler, clock, self._settings)

    # What the stages are made of

    @cached_property
    def _claimer(self) -> Claimer:
        return Claimer(
            self._claim_store, self._claims, self._requeue, self._pipe, self._troubles, self._emit
        )

    @cached_property
    def _requeue(self) -> Requeue:
        return Requeue(self._agenda, self._scanner, self._clock)

    @cached_property
    def _claim_store(self) -> ClaimStore:
        return ClaimStore(self._store, self._planning, self._lease, self._clock)

    @cached_property
    def _child_claimer(self) -> ChildClaimer | None:
        return ChildClaimer(
            self._store,
            self._claimer,
            self._scanner,
            self._pipe,
            self._lease,
            self._clock,
        )

    @cached_property
    def _preemption(self) -> Preempting:
        return Preemption(self._pipe, self._runner, self._clock, self._emit)

    @cached_property
    def _settlement_of(self) -> Settle:
        return partial(settlement_of, worker=self._inputs.name, chance=chance)

    @cached_property
    def _follow_up(self) -> FollowUp:
        return FollowUp(
            self._ahead,
            self._clock,
            self._settings.horizon_seconds,
            self._emit,
            self._signals.steps.set,
        )

    @cached_property
    def _takeover(self) -> Takeover:
        return Takeover(self._store, self._follow_up, self._troubles, self._emit)

    @cached_property
    def _stepper(self) -> WorkflowStepper:
        steps = PostgresWorkflowSteps(self._database, self._tenant_limits)
        hints = CollectedHints(self._database)
        batches = PostgresBatchSteps(self._database)
        return WorkflowStepper(steps, batches, hints, self._ahead.hear, self._clock, self._troubles)

    # What the stages share

    @cached_property
    def _agenda(self) -> Agenda:
        wake, startable = self._signals.ready.set, self._short_flows.startable
        window = self._settings.window
        return Agenda(self._ready_queue(), self._clock.now(), window, wake, startable)

    @cached_property
    def _short_flows(self) -> ShortFlows:
        return ShortFlows()

    def _ready_queue(self) -> FairQueue[Entry]:
        settings, directory = self._settings, self._inputs.directory
        reserved, sharing = settings.reserved_slots, self._inputs.settings.sharing
        return FairQueue(
            LaneRound({Lane[name]: weight for name, weight in sharing.lane_weights.items()}),
            timedelta(seconds=sharing.aging_seconds),
            SlotShares(settings.slots - reserved, reserved, sharing.tenant_share),
            directory.weight,
            directory.others_than,
        )

    @cached_property
    def _scanner(self) -> Scanner:
        flows, look = self._checks.flows, self._signals.look.set
        return Scanner(self._store, self._agenda, self._clock, self._settings, flows, look)

    @cached_property
    def _claims(self) -> Claims:
        return Claims(self._held, self._agenda, self._checks.checks)

    @cached_property
    def _held(self) -> HeldTasks:
        processes = self._inputs.settings.targets.quarantine_processes
        room = SuspectRoom(processes, self._settings.slots, self._inputs.takes_suspects)
        return HeldTasks(room)

    @cached_property
    def _checks(self) -> CheckAssembly:
        checks = CheckAssembly(
            self._inputs, self._lease, self._agenda, self._held, self._pool, self._troubles
        )
        checks.listening.append(self._short_flows)
        return checks

    @cached_property
    def _pool(self) -> Pool:
        settings = self._settings
        return Pool(
            tenants=frozenset(settings.serve_tenants),
            types=frozenset(settings.serve_types),
            queues=frozenset(settings.serve_queues),
            lanes=frozenset(Lane[name] for name in settings.serve_lanes),
            webhooks=self._inputs.served.webhooks,
            handlers=self._inputs.served.handlers,
        )

    @property
    def _pipe(self) -> Pipe:
        return self._slots

    @cached_property
    def _slots(self) -> MemoryPipe:
        settings = self._settings
        return MemoryPipe(
            settings.slots,
            self._signals.made_room,
            settings.prefetch,
            settings.reserved_slots,
            settling=2 * settings.batch,
        )

    @cached_property
    def _runner(self) -> Runner:
        settings, callers = self._settings, self._inputs.callers
        assert callers is not None, "a gateway has no runner"
        return Runner(
            callers,
            Payloads(self._store.payload, settings.payload_memory_bytes, self._troubles),
            self._clock,
            # The other half is for the claim to reach a slot, and for the report to be written.
            patience=settings.timeout_grace_seconds / 2,
            emit=self._emit,
            checks=self._checks.checks,
        )

    # Store ports

    @cached_property
    def _rules(self) -> TenantRules:
        settings, known = self._inputs.settings, self._inputs.directory
        guards = Guards(known, settings.targets.allow)
        return TenantRules(
            self._clock,
            known,
            guards,
            settings.api.max_payload_bytes,
            queues=settings.targets.queues or None,
        )

    @cached_property
    def _store(self) -> PostgresDispatch:
        spawning = SpawnRules(WorkflowSpawns(self._rules).accept, self._tenant_limits)
        return PostgresDispatch(self._database, self._settings.timeout_grace_seconds, spawning)

    @cached_property
    def _tenant_limits(self) -> TenantLimits:
        api, known = self._inputs.settings.api, self._inputs.directory
        check_of = partial(payload_check_of, self._rules)
        return TenantLimits(
            api.max_payload_bytes, known.quotas, known.limiters, api.max_run_nodes, check_of
        )

    @cached_property
    def _planning(self) -> PostgresPlanning:
        grace = self._settings.timeout_grace_seconds
        known = self._inputs.directory
        inserted = self._inputs.activity.tally.submitted
        return PostgresPlanning(
            self._database, self._clock, grace, known.limiters, known.quotas, known.is_full,
            inserted,
        )  # fmt: skip

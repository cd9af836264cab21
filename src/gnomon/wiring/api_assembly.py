"""How the context of an API process is put together: each of its parts once."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from gnomon.api.auth.authentication import TrustedCaller, authenticator_of
from gnomon.api.auth.sessions import Sessions
from gnomon.api.context import Context
from gnomon.api.http.answers.shared_answers import SharedAnswers
from gnomon.api.http.bounds.bodies import Bodies
from gnomon.api.http.bounds.refusals import Refusals
from gnomon.api.http.bounds.request_limits import RequestLimits
from gnomon.clock import Clock
from gnomon.model.tasks.task import Submission
from gnomon.observe.metrics.api import ApiMetrics
from gnomon.observe.siblings import Siblings
from gnomon.settings import Settings
from gnomon.store.activity_writer import ActivityWriter
from gnomon.store.guards import Guards
from gnomon.store.postgres.activity.activity import PostgresActivity
from gnomon.store.postgres.batches.batch_store import PostgresBatches
from gnomon.store.postgres.bulk.bulk_store import PostgresBulk
from gnomon.store.postgres.cron.jobs import PostgresCronJobs
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.node_reader import PostgresNodeReader
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.store.postgres.dispatch.worker_sessions import PostgresWorkerSessions
from gnomon.store.postgres.events.event_log import PostgresEventLog
from gnomon.store.postgres.events.event_reader import PostgresEvents
from gnomon.store.postgres.events.transition_log import PostgresTransitionLog
from gnomon.store.postgres.feeds.feed_store import PostgresFeeds
from gnomon.store.postgres.hints import Announcer
from gnomon.store.postgres.identity.api_keys import PostgresKeys
from gnomon.store.postgres.identity.sessions import PostgresSessions
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.postgres.identity.tenants import PostgresTenants
from gnomon.store.postgres.identity.webhook_secrets import PostgresSecrets
from gnomon.store.postgres.levels.level_report import PostgresLevelReport
from gnomon.store.postgres.limits.limiters import PostgresLimiters
from gnomon.store.postgres.live.signs import PostgresSigns
from gnomon.store.postgres.notify.subscription_store import PostgresSubscriptions
from gnomon.store.postgres.saved_views.saved_view_store import PostgresSavedViews
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.store.postgres.tasks.task_types import PostgresTaskTypes
from gnomon.store.postgres.usage.usage import PostgresUsage
from gnomon.store.postgres.workflows.workflow_store import PostgresWorkflows
from gnomon.store.tenant_cache import TenantCache, plans_of
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.live.event_feed import EventFeed
from gnomon.usecases.live.seats import StreamSeats
from gnomon.usecases.live.shared_reads import SharedReads
from gnomon.usecases.live.transition_feed import TransitionFeed
from gnomon.usecases.live.watch import LiveWatch
from gnomon.usecases.notify.subscriptions import SubscriptionDesk
from gnomon.usecases.tasks.end_watch import EndWatch
from gnomon.usecases.tasks.live_handlers import LiveHandlers
from gnomon.usecases.tasks.submission_batcher import SubmissionBatcher
from gnomon.wiring.gateway_host import GatewayHost

UPCOMING_SECONDS = 10.0  # the load of a day changes slowly, and counting it is dear
PROBE_SECONDS = 0.5


class ApiAssembly:
    """The parts of one API process. Those that others need are made when the first one asks."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        announcer: Announcer,
        activity: ActivityWriter,
        clock: Clock,
        requests: int,  # at once
    ) -> None:
        self._settings = settings
        self._database = database
        self._announcer = announcer
        self._activity = activity
        self._clock = clock
        self._requests = requests
        self._metrics = ApiMetrics()
        self._seats = StreamSeats(requests)
        self._event_log = PostgresEventLog(database)
        self._keys = PostgresKeys(database)

    async def context(self, trusted: TrustedCaller | None) -> Context:
        """All of them. Every request is of the trusted caller, if there is one."""
        settings, database, clock = self._settings, self._database, self._clock
        await self._directory.load()
        authenticator = trusted or await authenticator_of(
            settings.auth, self._keys, self._directory, clock
        )
        return Context(
            settings=settings,
            clock=clock,
            store=self._store,
            batcher=SubmissionBatcher(self._store),
            ends=EndWatch(self._store, clock, self._requests),
            run_ends=EndWatch(PostgresWorkflows(database), clock, self._requests),
            batch_ends=EndWatch(PostgresBatches(database), clock, self._requests),
            live=LiveWatch(PostgresSigns(database), clock, self._seats),
            feed=EventFeed(self._event_log, clock, self._seats),
            transitions=TransitionFeed(PostgresTransitionLog(database), clock, self._seats),
            shared=SharedAnswers(clock),
            upcoming=SharedReads(clock, UPCOMING_SECONDS),
            handlers=LiveHandlers(PostgresRoster(database)),
            bulk=PostgresBulk(database),
            saved_views=PostgresSavedViews(database),
            workflows=PostgresWorkflows(database),
            batches=PostgresBatches(database),
            cron=PostgresCronJobs(database),
            events=PostgresEvents(database),
            event_log=self._event_log,
            subscriptions=self._subscriptions,
            roster=PostgresRoster(database),
            metrics=self._metrics,
            directory=self._directory,
            rules=self._rules,
            keys=self._keys,
            authenticator=authenticator,
            sessions=Sessions(PostgresSessions(database), clock),
            task_types=PostgresTaskTypes(database),
            usage=PostgresUsage(database),
            activity=PostgresActivity(database),
            levels=PostgresLevelReport(database),
            limiters=PostgresLimiters(database),
            outcome_feeds=PostgresFeeds(database),
            secrets=PostgresSecrets(database),
            tenants=PostgresTenants(database),
            nodes=PostgresNodeReader(database),
            bodies=Bodies(settings, clock, self._requests),
            refusals=Refusals(clock),
            limits=RequestLimits(settings.api, clock, authenticator, self._metrics, self._requests),
            under_way=set(),
            connections=database.use,
            gateway=self.gateway,
            worker_sessions=PostgresWorkerSessions(database),
            siblings=self._siblings,
            probes=SharedReads(clock, PROBE_SECONDS),
        )

    # What several of them use

    @cached_property
    def gateway(self) -> GatewayHost:
        return GatewayHost(
            self._settings,
            self._database.dsn,
            self._directory,
            self._activity,
            self._clock,
            self._metrics,
        )

    @cached_property
    def _store(self) -> PostgresTasks:
        return PostgresTasks(
            self._database,
            self._announcer,
            self._settings.api.idempotency_seconds,
            self._directory.quotas,
            self._directory.limiters,
            self._inserted,
        )

    @cached_property
    def _directory(self) -> TenantCache:
        tenants = PostgresTenantReader(self._database)
        return TenantCache(tenants, self._clock, plans_of(self._settings.sharing))

    @cached_property
    def _rules(self) -> TenantRules:
        guards = Guards(self._directory, self._settings.targets.allow)
        api = self._settings.api
        return TenantRules(
            self._clock,
            self._directory,
            guards,
            api.max_payload_bytes,
            api.max_run_nodes,
            self._settings.targets.queues,
        )

    @cached_property
    def _subscriptions(self) -> SubscriptionDesk:
        store = PostgresSubscriptions(self._database, self._announcer)
        return SubscriptionDesk(store, self._rules, self._settings.notify)

    @property
    def _siblings(self) -> Siblings | None:
        own = self._settings.output.metrics_socket
        return Siblings(Path(own)) if own else None

    def _inserted(self, submissions: Sequence[Submission]) -> None:
        self._metrics.traffic.submitted(submissions)
        self._activity.tally.submitted(submissions)

"""The parts of an API process, and of a request, that handlers use."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import litestar
import msgspec

from gnomon.access.principal import Operator, Principal, Requester
from gnomon.api.auth.authentication import Authenticator, TrustedCaller
from gnomon.api.auth.sessions import Sessions
from gnomon.api.http.answers.shared_answers import SharedAnswers
from gnomon.api.http.bounds.bodies import Bodies
from gnomon.api.http.bounds.connections import Client
from gnomon.api.http.bounds.refusals import Refusals
from gnomon.api.http.bounds.request_limits import RequestLimits
from gnomon.api.http.requests.headers import headers_of
from gnomon.clock import Clock
from gnomon.model.errors import TaskNotFound
from gnomon.model.job_errors import CronJobNotFound
from gnomon.node.remote.gateway import Gateway
from gnomon.observe.metrics.api import ApiMetrics
from gnomon.observe.node_events import PoolUse
from gnomon.observe.siblings import Siblings
from gnomon.settings import Settings
from gnomon.store.ports.insight.activity import UpcomingHour
from gnomon.store.ports.roster import RosterStore
from gnomon.store.postgres.activity.activity import PostgresActivity
from gnomon.store.postgres.batches.batch_store import PostgresBatches
from gnomon.store.postgres.bulk.bulk_store import PostgresBulk
from gnomon.store.postgres.cron.jobs import PostgresCronJobs
from gnomon.store.postgres.dispatch.node_reader import PostgresNodeReader
from gnomon.store.postgres.dispatch.worker_sessions import PostgresWorkerSessions
from gnomon.store.postgres.events.event_log import PostgresEventLog
from gnomon.store.postgres.events.event_reader import PostgresEvents
from gnomon.store.postgres.feeds.feed_store import PostgresFeeds
from gnomon.store.postgres.identity.api_keys import PostgresKeys
from gnomon.store.postgres.identity.tenants import PostgresTenants
from gnomon.store.postgres.identity.webhook_secrets import PostgresSecrets
from gnomon.store.postgres.levels.level_report import PostgresLevelReport
from gnomon.store.postgres.limits.limiters import PostgresLimiters
from gnomon.store.postgres.saved_views.saved_view_store import PostgresSavedViews
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.store.postgres.tasks.task_types import PostgresTaskTypes
from gnomon.store.postgres.usage.usage import PostgresUsage
from gnomon.store.postgres.workflows.workflow_store import PostgresWorkflows
from gnomon.store.tenant_cache import TenantCache
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.live.event_feed import EventFeed
from gnomon.usecases.live.shared_reads import SharedReads
from gnomon.usecases.live.transition_feed import TransitionFeed
from gnomon.usecases.live.watch import LiveWatch
from gnomon.usecases.notify.subscriptions import SubscriptionDesk
from gnomon.usecases.tasks.end_watch import EndWatch
from gnomon.usecases.tasks.live_handlers import LiveHandlers
from gnomon.usecases.tasks.submission_batcher import SubmissionBatcher

if TYPE_CHECKING:
    from gnomon.observe.tracing import Tracing

Request: TypeAlias = litestar.Request[Any, Any, Any]

CONTEXT = "gnomon.context"  # in the scope of a request
_UUID_LENGTH = 36


class Context(msgspec.Struct, frozen=True):
    """The parts of one API process."""

    settings: Settings
    clock: Clock
    store: PostgresTasks
    batcher: SubmissionBatcher
    ends: EndWatch
    run_ends: EndWatch  # of workflows
    batch_ends: EndWatch
    live: LiveWatch
    feed: EventFeed
    transitions: TransitionFeed
    shared: SharedAnswers
    upcoming: SharedReads[list[UpcomingHour]]
    handlers: LiveHandlers
    bulk: PostgresBulk
    saved_views: PostgresSavedViews
    workflows: PostgresWorkflows
    batches: PostgresBatches
    cron: PostgresCronJobs
    events: PostgresEvents
    event_log: PostgresEventLog
    subscriptions: SubscriptionDesk
    roster: RosterStore
    metrics: ApiMetrics
    directory: TenantCache
    rules: TenantRules
    keys: PostgresKeys
    authenticator: Authenticator | TrustedCaller | None  # None: authentication is off
    sessions: Sessions
    task_types: PostgresTaskTypes
    usage: PostgresUsage
    activity: PostgresActivity
    levels: PostgresLevelReport
    limiters: PostgresLimiters
    outcome_feeds: PostgresFeeds
    secrets: PostgresSecrets
    tenants: PostgresTenants
    nodes: PostgresNodeReader
    bodies: Bodies
    refusals: Refusals
    limits: RequestLimits
    under_way: set[Client]  # clients with a request in progress
    connections: Callable[[], PoolUse]  # to the database
    gateway: Gateway  # of remote workers
    worker_sessions: PostgresWorkerSessions
    siblings: Siblings | None  # processes that are scraped with this one
    probes: SharedReads[bool]  # whether one of them is stuck
    tracing: "Tracing | None" = None  # None: no submission has a span


def context_of(request: Request) -> Context:
    context: Context = request.scope[CONTEXT]  # type: ignore[literal-required]
    return context


def header_of(request: Request, name: bytes) -> str | None:
    """A header by its name in lower case."""
    value = headers_of(request.scope).get(name)  # type: ignore[arg-type]
    return None if value is None else value.decode("latin-1")


def principal_of(request: Request) -> Principal:
    """The requester within a tenant, as access control found out."""
    principal: Principal = request.scope["auth"]
    return principal


def requester_of(request: Request) -> Requester:
    """The requester, of a tenant or of the installation."""
    requester: Requester = request.scope["auth"]
    return requester


def operator_of(request: Request) -> Operator:
    """The requester of an operation of the role `operator`."""
    operator: Operator = request.scope["auth"]
    return operator


def share_of(request: Request) -> str:
    """Whose share of the memory for bodies a request uses: a tenant's, or '' for operators and
    for those who need no key."""
    requester = request.scope.get("auth")
    return requester.tenant_id if isinstance(requester, Principal) else ""


def tenant_of(request: Request) -> str:
    """The tenant of the caller."""
    return principal_of(request).tenant_id


def id_of(request: Request, name: str, not_found: Callable[[str], Exception]) -> UUID:
    """The id of this name in the path. Raises `not_found` for text that is not an id."""
    text: str = request.path_params[name]
    try:
        if len(text) == _UUID_LENGTH:
            return UUID(text)
    except ValueError:
        pass
    raise not_found(text)


def task_id_of(request: Request) -> UUID:
    """The task id in the path. Raises TaskNotFound for text that is not an id."""
    return id_of(request, "task_id", TaskNotFound)


def cron_ref_of(request: Request) -> str:
    """The id or name in the path. Raises CronJobNotFound for text that can be neither."""
    ref: str = request.path_params["ref"]
    if not ref.isprintable():
        raise CronJobNotFound(repr(ref))
    return ref

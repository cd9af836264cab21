"""The application: all routes, one handler of errors, and the context of who serves them."""

from collections.abc import Awaitable, Sequence
from functools import cache, partial

from litestar import Litestar
from litestar.types import ASGIApp, ControllerRouterHandler, Receive, Scope, Send

from gnomon.api.admin import (
    breakers,
    event_streams,
    events,
    feeds,
    installation,
    keys,
    limiters,
    operator_keys,
    task_types,
    tenant_metrics,
    tenants,
    transition_streams,
    usage,
    webhook_secrets,
)
from gnomon.api.auth import access
from gnomon.api.context import CONTEXT, Context
from gnomon.api.cron import cron_jobs
from gnomon.api.http import health
from gnomon.api.http.answers.problems import answer_error
from gnomon.api.http.document import documents
from gnomon.api.http.document.openapi import document, made_once
from gnomon.api.http.requests.paths import keep_names_whole
from gnomon.api.notify import subscriptions
from gnomon.api.operation_calls import OperationCalls
from gnomon.api.tasks import (
    activity,
    batches,
    bulk_operations,
    dead_letters,
    explain,
    labels,
    related,
    saved_views,
    service_levels,
    stats,
    tasks,
)
from gnomon.api.workers import worker_sessions
from gnomon.api.workflows import batches as task_batches
from gnomon.api.workflows import runs, signals, workflows
from gnomon.version import VERSION


def create_app(context: Context, pages: Sequence[ControllerRouterHandler] = ()) -> ASGIApp:
    """The application of a process, with the pages that it shows to people."""
    routes = OperationCalls(_routes(tuple(pages)))

    def answer(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        scope[CONTEXT] = context  # type: ignore[literal-required]
        keep_names_whole(scope)  # type: ignore[arg-type]
        return routes(scope, receive, send)

    return answer


_OPERATIONS: tuple[ControllerRouterHandler, ...] = (
    tasks.router,
    batches.submit_batch,
    explain.explain_task,
    related.list_related_tasks,
    stats.get_task_stats,
    labels.get_task_labels,
    saved_views.router,
    activity.get_activity,
    activity.get_tenant_activity,
    activity.get_upcoming_tasks,
    service_levels.get_service_levels,
    dead_letters.router,
    bulk_operations.router,
    cron_jobs.router,
    workflows.router,
    signals.router,
    runs.router,
    task_batches.router,
    events.router,
    events.installation_router,
    event_streams.router,
    transition_streams.router,
    subscriptions.router,
    subscriptions.installation_router,
    subscriptions.list_all_notifications,
    breakers.list_breakers,
    keys.router,
    operator_keys.router,
    installation.router,
    task_types.router,
    limiters.router,
    feeds.router,
    usage.get_usage,
    usage.list_tenant_usage,
    tenants.get_tenant,
    webhook_secrets.router,
    webhook_secrets.list_webhook_keys,
    worker_sessions.router,
    health.healthz,
    health.readyz,
    health.metrics,
    tenant_metrics.get_metrics,
    tenant_metrics.get_metrics_of_tenant,
    documents.openapi_json,
    documents.docs,
)


@cache  # they are the same for every context, and take a quarter of a second
def _routes(pages: tuple[ControllerRouterHandler, ...]) -> Litestar:
    app = Litestar(
        route_handlers=[*_OPERATIONS, *pages],
        before_request=access.admit,
        exception_handlers={Exception: answer_error},
        openapi_config=None,  # see openapi.py
        logging_config=None,
    )
    access.check(app)
    app.state.openapi = made_once(partial(document, app, VERSION))
    return app

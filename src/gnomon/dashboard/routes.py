"""All pages of the dashboard."""

from litestar import Response, Router

from gnomon.access.grant_errors import TenantNeeded
from gnomon.access.principal import Requester, Role
from gnomon.api.auth.access import session_in
from gnomon.api.auth.sessions import set_cookie
from gnomon.api.context import Request
from gnomon.api.http.answers.page_reads import STATEMENT_SECONDS, is_fragment
from gnomon.api.http.answers.problems import answer_error, described
from gnomon.dashboard import live, signing_in, static_files
from gnomon.dashboard.pages import overview
from gnomon.dashboard.pages.admin import (
    events,
    fair_share,
    keys,
    limits,
    nodes,
    task_types,
    tenants,
    usage,
    webhook_secrets,
)
from gnomon.dashboard.pages.cron import cron_backfill, cron_editor, cron_jobs
from gnomon.dashboard.pages.notify import subscriptions
from gnomon.dashboard.pages.tasks import (
    bulk,
    dead_letters,
    submit,
    task,
    task_selection,
    task_views,
    tasks,
)
from gnomon.dashboard.pages.workflows import batches, workflow_runs, workflows
from gnomon.dashboard.rendering import POLICIES, rendered
from gnomon.dashboard.signing_in import sign_in_url
from gnomon.model.errors import QUERY_CANCELED, RoleMissing, StoreUnavailable, Unauthenticated

_KEPT = ("retry-after", "allow")
_TOO_LONG = (
    f"PostgreSQL did not find an answer within {STATEMENT_SECONDS:g} seconds, and was told to give "
    "up, so that looking costs no work. Add a condition to the filter, or a shorter time; if every "
    "page is slow, see whether the database is overloaded, or waits for its autovacuum "
    "(`gnomon doctor`)."
)


def answer_page_error(request: Request, error: Exception) -> Response[bytes]:
    """An error as a page, for people."""
    found, headers = described(error)
    if found.status == 500:
        answer_error(request, error)  # logs it
    if isinstance(error, Unauthenticated) and _by_a_person(request):
        # A cookie that is no good any more is removed.
        stale = session_in(request) is not None
        removed = {"set-cookie": set_cookie(None, secure=False)} if stale else {}
        return _redirect({"location": sign_in_url(request), **removed})
    if request.scope["path"] == "/" and (first := _first_page(request, error)):
        return _redirect({"location": first})
    title, detail = found.title, found.detail
    if isinstance(error, StoreUnavailable) and error.sqlstate == QUERY_CANCELED:
        title, detail = "This took too long", _TOO_LONG
    text = rendered(request, "error.html", title=title, detail=detail, code=found.status)
    kept = {name: value for name, value in headers.items() if name.lower() in _KEPT}
    return Response(text, status_code=found.status, headers=kept | POLICIES, media_type="text/html")


def _first_page(request: Request, error: Exception) -> str | None:
    """Where somebody begins who may not see the overview."""
    if isinstance(error, TenantNeeded):
        return "/nodes"
    if not isinstance(error, RoleMissing) or not _by_a_person(request):
        return None
    by: Requester | None = request.scope.get("auth")
    return "/tasks/new" if by is not None and by.may(Role.SUBMIT) else None


def _by_a_person(request: Request) -> bool:
    """Whether a browser asks for a whole page. Scripts are told by the status, and go there."""
    return request.method in ("GET", "HEAD") and not (
        is_fragment(request) or request.scope["path"].startswith(live.PATH)
    )


def _redirect(headers: dict[str, str]) -> Response[bytes]:
    return Response(b"", status_code=303, headers=headers, media_type="text/html")


_pages = Router(
    "/",
    route_handlers=[
        *overview.ROUTES,
        *tasks.ROUTES,
        *task_selection.ROUTES,
        *task_views.ROUTES,
        *submit.ROUTES,
        *task.ROUTES,
        *dead_letters.ROUTES,
        *bulk.ROUTES,
        *events.ROUTES,
        *subscriptions.ROUTES,
        *cron_jobs.ROUTES,
        *cron_editor.ROUTES,
        *cron_backfill.ROUTES,
        *workflows.ROUTES,
        *workflow_runs.ROUTES,
        *batches.ROUTES,
        *nodes.ROUTES,
        *limits.ROUTES,
        *task_types.ROUTES,
        *usage.ROUTES,
        *keys.ROUTES,
        *webhook_secrets.ROUTES,
        *tenants.ROUTES,
        *fair_share.ROUTES,
        *live.ROUTES,
        *signing_in.ROUTES,
        static_files.serve,
    ],
    exception_handlers={Exception: answer_page_error},
)
ROUTES = (_pages,)

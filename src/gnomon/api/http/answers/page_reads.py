"""How pages read: within a time, and fragments of pages for all who see the same at once."""

from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import suppress
from functools import partial, wraps

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Operator, Principal, Requester, Role
from gnomon.api.context import Request, context_of
from gnomon.model.errors import StoreUnavailable
from gnomon.model.insight.event_kinds import INSTALLATION
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.postgres.database import statements_within

# In the scope of a request, for its page: how many events nobody has taken note of, by the page
# that lists them.
OPEN_EVENTS = "gnomon.open_events"
EVENTS_PAGE, INSTALLATION_EVENTS_PAGE = "/events", "/installation/events"
STATEMENT_SECONDS = 2.0  # a statement that takes longer would only be waited for by nobody

Handler = Callable[[Request], Awaitable[ASGIResponse]]


def shown(handler: Handler) -> Handler:
    """The handler of a page that reads, and changes nothing."""

    @wraps(handler)
    async def answered(request: Request) -> ASGIResponse:
        with statements_within(STATEMENT_SECONDS):
            if request.method == "GET" and is_fragment(request):
                make = partial(handler, request)
                return await context_of(request).shared.read(_key(request), make)
            await _count_open_events(request)
            return await handler(request)

    return answered


def is_fragment(request: Request) -> bool:
    """Whether only the part of the page is asked for that changes by itself."""
    return request.query_params.get("fragment") == "1"


async def _count_open_events(request: Request) -> None:
    """For the badges in the bar. A page is worth showing without them."""
    found: dict[str, int] = {}
    with suppress(StoreUnavailable):
        for path, log in _logs_of(request):
            found[path] = await context_of(request).events.open(log)
    request.scope[OPEN_EVENTS] = found  # type: ignore[literal-required]


def _logs_of(request: Request) -> Iterator[tuple[str, str]]:
    """The pages of events that somebody is offered, and whose events each has."""
    by: Requester = request.scope["auth"]
    if context_of(request).authenticator is None:  # the same person is both
        yield EVENTS_PAGE, DEFAULT_TENANT
        yield INSTALLATION_EVENTS_PAGE, INSTALLATION
    elif isinstance(by, Operator):
        yield INSTALLATION_EVENTS_PAGE, INSTALLATION
    elif isinstance(by, Principal) and by.may(Role.READ):
        yield EVENTS_PAGE, by.tenant_id


def _key(request: Request) -> Hashable:
    """Everything that a fragment depends on: who has the same rights sees the same."""
    by: Requester = request.scope["auth"]
    tenant_id = by.tenant_id if isinstance(by, Principal) else None
    version = context_of(request).live.version(tenant_id)
    rights = (type(by), tenant_id, by.roles, by.task_types, by.allow)
    return rights, version, request.scope["path"], request.scope["query_string"]

"""`/feeds`: outcomes of tasks, published to brokers."""

from typing import Annotated

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import NoQuery
from gnomon.api.tasks.stats import CountView
from gnomon.model.insight.outcome_feed import FeedOutcome, FeedState, OutcomeFeed
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.admin import feeds
from gnomon.usecases.checks.request_fields import Moment, Strict, TaskType

_MOST_TYPES = 100


class PutFeed(Strict):
    """Where outcomes go, and which."""

    url: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=400, description="queue://connection/topic, as of tasks"
        ),
    ]
    task_types: Annotated[
        Annotated[tuple[TaskType, ...], msgspec.Meta(max_length=_MOST_TYPES)] | None,
        msgspec.Meta(description="Only tasks of these types; all without it"),
    ] = None
    outcomes: Annotated[tuple[FeedOutcome, ...], msgspec.Meta(max_length=len(FeedOutcome))] = tuple(
        FeedOutcome
    )


class FeedView(msgspec.Struct, kw_only=True):
    """A feed, what it has published, and what waits."""

    name: str
    url: str
    task_types: list[str] | None
    outcomes: list[FeedOutcome]
    published: int
    published_at: Moment | None  # the last time
    backlog: CountView
    waiting_since: Moment | None  # the first outcome that is not published
    failing_since: Moment | None
    last_error: str | None
    gap_since: Moment | None  # too much waits: outcomes since then are not told
    created_at: Moment
    updated_at: Moment


class FeedList(msgspec.Struct):
    """All feeds, by name."""

    feeds: list[FeedView]


@Operation(
    "GET",
    "/",
    name="list_feeds",
    role=Role.READ,
    summary="List feeds of outcomes, and what waits for them",
    query=NoQuery,
    answers={200: FeedList},
)
async def list_feeds(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    found = await feeds.list_all(context_of(request).outcome_feeds, tenant_of(request))
    return respond(answer(200, FeedList([_view(each) for each in found])))


@Operation(
    "GET",
    "/{name:str}",
    name="get_feed",
    role=Role.READ,
    summary="Read a feed of outcomes, and what waits for it",
    query=NoQuery,
    answers={200: FeedView},
    errors=(404,),
)
async def get_feed(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    return await _shown(request, 200)


@Operation(
    "PUT",
    "/{name:str}",
    name="put_feed",
    role=Role.ADMIN,
    summary="Create a feed of outcomes, or replace it, for all tasks that end from now on",
    body=PutFeed,
    body_required=True,
    answers={200: FeedView, 201: FeedView},
    errors=(409,),
)
async def put_feed(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), PutFeed)
    feed = OutcomeFeed(
        tenant_id=by.tenant_id,
        name=request.path_params["name"],
        url=asked.url,
        task_types=asked.task_types,
        outcomes=asked.outcomes,
    )
    created = await feeds.put(context.outcome_feeds, context.rules, by, feed)
    return await _shown(request, 201 if created else 200)


@Operation(
    "DELETE",
    "/{name:str}",
    name="delete_feed",
    role=Role.ADMIN,
    summary="Remove a feed of outcomes, with what waits for it",
    answers={204: None},
    errors=(404,),
)
async def delete_feed(request: Request) -> ASGIResponse:
    by, name = principal_of(request), request.path_params["name"]
    await feeds.delete(context_of(request).outcome_feeds, by, name)
    return respond(answer(204))


async def _shown(request: Request, status: int) -> ASGIResponse:
    store, by = context_of(request).outcome_feeds, principal_of(request)
    found = await feeds.get(store, by, request.path_params["name"])
    return respond(answer(status, _view(found)))


def _view(state: FeedState) -> FeedView:
    feed = state.feed
    return FeedView(
        name=feed.name,
        url=feed.url,
        task_types=None if feed.task_types is None else list(feed.task_types),
        outcomes=list(feed.outcomes),
        published=state.published,
        published_at=state.published_at,
        backlog=CountView(state.backlog, state.backlog_capped),
        waiting_since=state.waiting_since,
        failing_since=state.failing_since,
        last_error=state.last_error,
        gap_since=state.gap_since,
        created_at=state.created_at,
        updated_at=state.updated_at,
    )


router = Router(
    "/api/v1/feeds",
    route_handlers=[list_feeds, get_feed, put_feed, delete_feed],
)

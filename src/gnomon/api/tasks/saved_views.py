"""`/saved-views`: named filters of the list of tasks, shared by the people of a tenant."""

from typing import Annotated

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import NoQuery, TaskFilterQuery
from gnomon.model.errors import InvalidTask
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.insight.saved_views import SavedView
from gnomon.usecases.checks.request_fields import Json, Moment, Strict
from gnomon.usecases.checks.text_check import check_line
from gnomon.usecases.tasks import saved_views

_Column = Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
_Columns = Annotated[
    list[_Column],
    msgspec.Meta(max_length=30, description="Of the dashboard's page of tasks, in their order"),
]


class PutSavedView(Strict):
    """A filter of tasks, as of their list, and the columns that are shown with it."""

    filter: TaskFilterQuery = msgspec.field(default_factory=TaskFilterQuery)
    columns: _Columns = msgspec.field(default_factory=list)

    def kept_filter(self) -> bytes:
        """The filter as it is kept, checked. Raises InvalidTask, with the place."""
        for number, column in enumerate(self.columns):
            check_line(column, f"/columns/{number}")
        try:
            self.filter.chosen()
        except InvalidTask as error:
            raise error.within("/filter") from error
        given = msgspec.structs.asdict(self.filter)
        return msgspec.json.encode({n: value for n, value in given.items() if value is not None})


class SavedViewDocument(msgspec.Struct, kw_only=True):
    """A saved view, and who saved it."""

    name: str
    filter: Json
    columns: list[str]
    created_by: str | None
    created_at: Moment


class SavedViewList(msgspec.Struct):
    """All saved views, by name."""

    saved_views: list[SavedViewDocument]


@Operation(
    "GET",
    "/",
    name="list_saved_views",
    role=Role.READ,
    summary="List saved views",
    query=NoQuery,
    answers={200: SavedViewList},
)
async def list_saved_views(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    found = await context_of(request).saved_views.list(tenant_of(request))
    return respond(answer(200, SavedViewList([_document(each) for each in found])))


@Operation(
    "PUT",
    "/{name:str}",
    name="put_saved_view",
    role=Role.OPERATE,
    summary="Save a view: a filter of tasks under a name, for all people of the tenant",
    body=PutSavedView,
    body_required=True,
    answers={200: SavedViewDocument, 201: SavedViewDocument},
    errors=(409,),
    grows=True,
)
async def put_saved_view(request: Request) -> ASGIResponse:
    context, by, name = context_of(request), principal_of(request), request.path_params["name"]
    asked = decoded(await read_body(request, OVERHEAD_BYTES), PutSavedView)
    found, created = await saved_views.put(
        context.saved_views, by, name, asked.kept_filter(), asked.columns
    )
    return respond(answer(201 if created else 200, _document(found)))


@Operation(
    "DELETE",
    "/{name:str}",
    name="delete_saved_view",
    role=Role.OPERATE,
    summary="Remove a saved view",
    answers={204: None},
    errors=(404,),
)
async def delete_saved_view(request: Request) -> ASGIResponse:
    by, name = principal_of(request), request.path_params["name"]
    await saved_views.delete(context_of(request).saved_views, by, name)
    return respond(answer(204))


def _document(view: SavedView) -> SavedViewDocument:
    return SavedViewDocument(
        name=view.name,
        filter=msgspec.Raw(view.filter),
        columns=list(view.columns),
        created_by=view.created_by,
        created_at=view.created_at,
    )


router = Router(
    "/api/v1/saved-views", route_handlers=[list_saved_views, put_saved_view, delete_saved_view]
)

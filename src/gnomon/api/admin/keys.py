"""`/keys`: the API keys of the requester's tenant."""

from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.admin.key_documents import (
    CreateKey,
    KeyPage,
    KeyQuery,
    MadeKey,
    RevokeQuery,
    RotateKey,
    check_no_idempotency,
    key_id_of,
    key_page,
    made,
    wanted_key,
)
from gnomon.api.context import Request, context_of, principal_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.cursors import cursor_of
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.admin import keys


@Operation(
    "POST",
    "/",
    name="create_key",
    role=Role.ADMIN,
    summary="Create an API key",
    body=CreateKey,
    body_required=True,
    answers={201: MadeKey},
    errors=(409,),
    needs_authentication=True,
)
async def create_key(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    check_no_idempotency(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), CreateKey)
    return made(await keys.create(context.keys, context.clock, by, wanted_key(asked)))


@Operation(
    "GET",
    "/",
    name="list_keys",
    role=Role.ADMIN,
    summary="List the API keys that may do no more than yours, newest first",
    query=KeyQuery,
    answers={200: KeyPage},
    needs_authentication=True,
)
async def list_keys(request: Request) -> ASGIResponse:
    asked, by = queried(request, KeyQuery), principal_of(request)
    cursor = cursor_of(asked.cursor)
    return await key_page(
        await keys.list_covered(context_of(request).keys, by, cursor, asked.limit)
    )


@Operation(
    "POST",
    "/{key_id:str}/rotate",
    name="rotate_key",
    role=Role.ADMIN,
    summary="Create a key that takes the place of this one, which ends after an overlap",
    body=RotateKey,
    answers={201: MadeKey},
    errors=(404, 409),
    needs_authentication=True,
)
async def rotate_key(request: Request) -> ASGIResponse:
    context, by, key_id = context_of(request), principal_of(request), key_id_of(request)
    check_no_idempotency(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), RotateKey)
    overlap = asked.overlap_seconds
    return made(await keys.rotate(context.keys, context.clock, by, key_id, overlap))


@Operation(
    "DELETE",
    "/{key_id:str}",
    name="revoke_key",
    role=Role.ADMIN,
    summary="Revoke a key: within a second it is refused everywhere",
    query=RevokeQuery,
    answers={204: None},
    errors=(404,),
    needs_authentication=True,
)
async def revoke_key(request: Request) -> ASGIResponse:
    context, by, key_id = context_of(request), principal_of(request), key_id_of(request)
    cascade = queried(request, RevokeQuery).cascade
    await keys.revoke(context.keys, by, key_id, cascade=cascade)
    return respond(answer(204))


router = Router(
    "/api/v1/keys",
    route_handlers=[create_key, list_keys, rotate_key, revoke_key],
)

"""`/operator-keys`: the API keys of operators, who belong to no tenant."""

from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.admin.key_documents import (
    CreateOperatorKey,
    KeyPage,
    KeyQuery,
    MadeKey,
    RevokeQuery,
    RotateKey,
    check_no_idempotency,
    key_id_of,
    key_page,
    made,
    wanted_operator_key,
)
from gnomon.api.context import Request, context_of, operator_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.cursors import cursor_of
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.admin import keys


@Operation(
    "POST",
    "/",
    name="create_operator_key",
    role=Role.OPERATOR,
    summary="Create an operator's API key",
    body=CreateOperatorKey,
    body_required=True,
    answers={201: MadeKey},
    errors=(409,),
    needs_authentication=True,
)
async def create_operator_key(request: Request) -> ASGIResponse:
    context, by = context_of(request), operator_of(request)
    check_no_idempotency(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), CreateOperatorKey)
    return made(await keys.create(context.keys, context.clock, by, wanted_operator_key(asked)))


@Operation(
    "GET",
    "/",
    name="list_operator_keys",
    role=Role.OPERATOR,
    summary="List the API keys of operators, newest first",
    query=KeyQuery,
    answers={200: KeyPage},
    needs_authentication=True,
)
async def list_operator_keys(request: Request) -> ASGIResponse:
    asked, by = queried(request, KeyQuery), operator_of(request)
    cursor = cursor_of(asked.cursor)
    return await key_page(
        await keys.list_covered(context_of(request).keys, by, cursor, asked.limit)
    )


@Operation(
    "POST",
    "/{key_id:str}/rotate",
    name="rotate_operator_key",
    role=Role.OPERATOR,
    summary="Create a key that takes the place of an operator's, which ends after an overlap",
    body=RotateKey,
    answers={201: MadeKey},
    errors=(404, 409),
    needs_authentication=True,
)
async def rotate_operator_key(request: Request) -> ASGIResponse:
    context, by, key_id = context_of(request), operator_of(request), key_id_of(request)
    check_no_idempotency(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), RotateKey)
    overlap = asked.overlap_seconds
    return made(await keys.rotate(context.keys, context.clock, by, key_id, overlap))


@Operation(
    "DELETE",
    "/{key_id:str}",
    name="revoke_operator_key",
    role=Role.OPERATOR,
    summary="Revoke an operator's key: within a second it is refused everywhere",
    query=RevokeQuery,
    answers={204: None},
    errors=(404,),
    needs_authentication=True,
)
async def revoke_operator_key(request: Request) -> ASGIResponse:
    context, by, key_id = context_of(request), operator_of(request), key_id_of(request)
    cascade = queried(request, RevokeQuery).cascade
    await keys.revoke(context.keys, by, key_id, cascade=cascade)
    return respond(answer(204))


router = Router(
    "/api/v1/operator-keys",
    route_handlers=[
        create_operator_key,
        list_operator_keys,
        rotate_operator_key,
        revoke_operator_key,
    ],
)

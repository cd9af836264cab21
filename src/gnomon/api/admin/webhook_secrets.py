"""`/webhook-secrets`, which sign the calls of a tenant, and `/webhook-keys`, which check them."""

from typing import Annotated
from uuid import UUID

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.access.secret_errors import SecretNotFound
from gnomon.access.webhook_secret import MOST_HOST_CHARACTERS, Scheme, WebhookSecret
from gnomon.api.context import Request, context_of, header_of, id_of, principal_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import HEADER, answer, respond
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import NoQuery
from gnomon.model.errors import InvalidTask
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.tenancy.secrets import ShownSecret
from gnomon.usecases.admin import webhook_secrets
from gnomon.usecases.admin.webhook_secrets import DEFAULT_OVERLAP, LONGEST_OVERLAP, WantedSecret
from gnomon.usecases.checks.request_fields import Moment, Strict

# Other answers say `no-store` (see response_headers.py); what is public may be kept.
_CACHED = {"Cache-Control": "public, max-age=60"}

Overlap = Annotated[float, msgspec.Meta(ge=0, le=LONGEST_OVERLAP)]
Value = Annotated[
    str,
    msgspec.Meta(
        max_length=100,
        pattern="^whsec_",
        description="A v1 secret of one's own: 24 to 64 bytes in base64. Without it one is made",
    ),
]


class CreateWebhookSecret(Strict):
    """A secret to be created."""

    host: Annotated[
        Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_HOST_CHARACTERS)] | None,
        msgspec.Meta(
            description="Sign calls to this host, which get no other secret; null: to all others"
        ),
    ] = None
    scheme: Scheme = Scheme.V1
    secret: Value | None = None
    overlap_seconds: Annotated[
        Overlap,
        msgspec.Meta(description="With a host: how long the tenant's secrets sign beside it"),
    ] = DEFAULT_OVERLAP


class RotateWebhookSecret(Strict):
    """How long the old secret and the new one sign side by side."""

    overlap_seconds: Overlap = DEFAULT_OVERLAP
    secret: Value | None = None


class WebhookSecretView(msgspec.Struct, kw_only=True):
    """The record of a secret, without its value."""

    secret_id: UUID
    tenant_id: str
    host: str | None
    scheme: Scheme
    public_key: str | None
    created_at: Moment
    created_by: str | None
    shared_until: Moment | None
    expires_at: Moment | None
    revoked_at: Moment | None


class ShownWebhookSecret(WebhookSecretView):
    """A secret with its value; null of v1a, whose private key is shown to nobody, and of one that
    has ended."""

    secret: str | None


class WebhookSecretList(msgspec.Struct):
    """Newest first, the last that have ended among them."""

    webhook_secrets: list[WebhookSecretView]


class WebhookKey(msgspec.Struct):
    """A public key of v1a signatures."""

    key_id: UUID
    public_key: str
    expires_at: Moment | None


class WebhookKeyList(msgspec.Struct):
    """Public keys that sign the calls of a tenant; empty where it has none, or is unknown."""

    keys: list[WebhookKey]


@Operation(
    "POST",
    "/",
    name="create_webhook_secret",
    role=Role.ADMIN,
    summary="Create a webhook secret, for all hosts or for one",
    body=CreateWebhookSecret,
    answers={201: ShownWebhookSecret},
    errors=(409,),
    needs_authentication=True,
)
async def create_webhook_secret(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    _check_no_idempotency(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), CreateWebhookSecret)
    wanted = WantedSecret(
        host=asked.host,
        scheme=asked.scheme,
        value=asked.secret,
        overlap_seconds=asked.overlap_seconds,
    )
    return _shown(201, await webhook_secrets.create(context.secrets, context.clock, by, wanted))


@Operation(
    "GET",
    "/",
    name="list_webhook_secrets",
    role=Role.ADMIN,
    summary="List the webhook secrets of the tenant, newest first, without their values",
    query=NoQuery,
    answers={200: WebhookSecretList},
    needs_authentication=True,
)
async def list_webhook_secrets(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    found = await webhook_secrets.list_all(context_of(request).secrets, principal_of(request))
    return respond(answer(200, WebhookSecretList([_view(secret) for secret in found])))


@Operation(
    "GET",
    "/{secret_id:str}",
    name="show_webhook_secret",
    role=Role.ADMIN,
    summary="Read a webhook secret with its value",
    query=NoQuery,
    answers={200: ShownWebhookSecret},
    errors=(404,),
    needs_authentication=True,
)
async def show_webhook_secret(request: Request) -> ASGIResponse:
    context, by, secret_id = context_of(request), principal_of(request), secret_id_of(request)
    queried(request, NoQuery)
    return _shown(200, await webhook_secrets.show(context.secrets, by, secret_id))


@Operation(
    "POST",
    "/{secret_id:str}/rotate",
    name="rotate_webhook_secret",
    role=Role.ADMIN,
    summary="Create a secret that takes the place of this one; both sign during an overlap",
    body=RotateWebhookSecret,
    answers={201: ShownWebhookSecret},
    errors=(404, 409),
    needs_authentication=True,
)
async def rotate_webhook_secret(request: Request) -> ASGIResponse:
    context, by, secret_id = context_of(request), principal_of(request), secret_id_of(request)
    _check_no_idempotency(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), RotateWebhookSecret)
    rotated = await webhook_secrets.rotate(
        context.secrets, context.clock, by, secret_id, asked.secret, asked.overlap_seconds
    )
    return _shown(201, rotated)


@Operation(
    "DELETE",
    "/{secret_id:str}",
    name="revoke_webhook_secret",
    role=Role.ADMIN,
    summary="Revoke a webhook secret: within a second no node signs with it",
    answers={204: None},
    errors=(404, 409),
    needs_authentication=True,
)
async def revoke_webhook_secret(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    await webhook_secrets.revoke(context.secrets, by, secret_id_of(request))
    return respond(answer(204))


@Operation(
    "GET",
    "/api/v1/webhook-keys/{tenant_id:str}",
    name="list_webhook_keys",
    role=None,
    summary="List the public keys that a tenant's v1a signatures are checked with",
    query=NoQuery,
    answers={200: WebhookKeyList},
    errors=(429, 503),
)
async def list_webhook_keys(request: Request) -> ASGIResponse:
    """An unknown tenant answers like one without public keys: so nobody can ask who there is."""
    queried(request, NoQuery)
    context = context_of(request)
    now = context.clock.now()
    found = context.directory.public_keys(request.path_params["tenant_id"])
    live = [key for key in found if key.expires_at is None or now < key.expires_at]
    keys = [WebhookKey(key.id, key.public_key, key.expires_at) for key in live]
    return respond(answer(200, WebhookKeyList(keys)), headers=_CACHED)


def _check_no_idempotency(request: Request) -> None:
    if header_of(request, HEADER) is not None:
        raise InvalidTask(
            "leave out the header Idempotency-Key: an answer with a secret in it is not stored, so "
            "it could not be replayed"
        )


def secret_id_of(request: Request) -> UUID:
    return id_of(request, "secret_id", SecretNotFound)


def _shown(status: int, secret: ShownSecret) -> ASGIResponse:
    known = msgspec.structs.asdict(_view(secret.known))
    return respond(answer(status, ShownWebhookSecret(**known, secret=secret.value)))


def _view(secret: WebhookSecret) -> WebhookSecretView:
    return WebhookSecretView(
        secret_id=secret.id,
        tenant_id=secret.tenant_id,
        host=secret.host,
        scheme=secret.scheme,
        public_key=secret.public_key,
        created_at=secret.created_at,
        created_by=secret.created_by,
        shared_until=secret.shared_until,
        expires_at=secret.expires_at,
        revoked_at=secret.revoked_at,
    )


router = Router(
    "/api/v1/webhook-secrets",
    route_handlers=[
        create_webhook_secret,
        list_webhook_secrets,
        show_webhook_secret,
        rotate_webhook_secret,
        revoke_webhook_secret,
    ],
)

"""Webhook secrets for tests, and the official library's opinion of calls."""

from uuid import UUID

from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from tests.integration.nodes import Call
from tests.integration.support import Connection

from gnomon.access.webhook_secret import Scheme, key_pair
from gnomon.clock import SystemClock, new_id
from gnomon.store.ports.tenancy.secrets import NewSecret, ReplacingSecret, ShownSecret
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.webhook_secrets import PostgresSecrets

_VALUE = """
SELECT secret FROM gnomon.webhook_secret
WHERE tenant_id = $1 AND scheme = 'v1' AND host IS NULL AND revoked_at IS NULL
    AND expires_at IS NULL
"""


async def secret_of(connection: Connection, tenant_id: str) -> str:
    """The one that a tenant was born with."""
    (row,) = await connection.fetch(_VALUE, tenant_id)
    value: str = row["secret"]
    return value


def id_now() -> UUID:
    return new_id(SystemClock().now())


async def create(
    database: Database,
    tenant_id: str = "default",
    host: str | None = None,
    shared: float = 0.0,
    secret: str | None = None,
) -> ShownSecret:
    new = NewSecret(
        id=id_now(),
        tenant_id=tenant_id,
        host=host,
        secret=secret,
        shared_seconds=None if host is None else shared,
    )
    return await PostgresSecrets(database).create(new)


async def create_pair(database: Database, tenant_id: str, host: str | None = None) -> ShownSecret:
    """A secret of v1a."""
    private, public = key_pair(id_now().bytes * 2)
    new = NewSecret(
        id=id_now(),
        tenant_id=tenant_id,
        host=host,
        scheme=Scheme.V1A,
        secret=private,
        public_key=public,
    )
    return await PostgresSecrets(database).create(new)


async def rotate(
    database: Database, secret_id: UUID, overlap: float, tenant_id: str = "default"
) -> ShownSecret:
    replacing = ReplacingSecret(id=id_now())
    return await PostgresSecrets(database).rotate(tenant_id, secret_id, replacing, overlap)


def verifies(secret: str | None, call: Call) -> bool:
    """What the official library says. (It reads the body as JSON, where there is one.)"""
    assert secret is not None
    try:
        Webhook(secret).verify(call.body, dict(call.headers), json_parse=bool(call.body))
    except WebhookVerificationError:
        return False
    return True


def signed_by(call: Call, secrets: dict[str, str]) -> set[str]:
    """Names of the secrets that a call verifies with; every signature must be of one of them."""
    found = {name for name, secret in secrets.items() if verifies(secret, call)}
    assert len(found) == len(call.headers["webhook-signature"].split(" ")), found
    return found

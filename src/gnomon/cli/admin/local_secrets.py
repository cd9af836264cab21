"""Webhook secrets on the database, where authentication is off.

The API does not show them then: it would show them to every user of its machine.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID

from gnomon.access.principal import TENANT_ROLES, Principal
from gnomon.access.webhook_secret import Scheme
from gnomon.cli.shared import values
from gnomon.cli.shared.output import CommandFailed
from gnomon.model.tasks.task import DEFAULT_TENANT

if TYPE_CHECKING:
    from datetime import datetime

    from gnomon.access.webhook_secret import WebhookSecret
    from gnomon.store.ports.tenancy.secrets import ShownSecret
    from gnomon.store.postgres.database import Database
    from gnomon.store.postgres.identity.webhook_secrets import PostgresSecrets

Json = dict[str, Any]

_T = TypeVar("_T")
_BY = Principal(tenant_id=DEFAULT_TENANT, name=None, roles=TENANT_ROLES)
_NEEDS_KEY = (
    "authentication is on: give the key of an administrator with --key-file, or in GNOMON_API_KEY "
    "or GNOMON_API_KEY_FILE"
)


class SecretCalls(Protocol):
    """The calls of the API that `gnomon secrets` makes, wherever they are answered."""

    async def list_webhook_secrets(self) -> Json: ...

    async def show_webhook_secret(self, secret_id: str) -> Json: ...

    async def create_webhook_secret(self, secret: Json) -> Json: ...

    async def rotate_webhook_secret(
        self, secret_id: str, *, overlap_seconds: float, secret: str | None = None
    ) -> Json: ...

    async def revoke_webhook_secret(self, secret_id: str) -> None: ...


async def on_database(opened: "Database", use: Callable[[SecretCalls], Awaitable[_T]]) -> _T:
    """Let `use` make its calls on the database. CommandFailed where authentication is on."""
    from gnomon.store.postgres.identity.installation import PostgresInstallation
    from gnomon.store.postgres.identity.webhook_secrets import PostgresSecrets

    if await PostgresInstallation(opened).authentication():
        raise CommandFailed(_NEEDS_KEY)
    return await use(LocalSecrets(PostgresSecrets(opened)))


class LocalSecrets:
    """`SecretCalls` on the store, for the tenant `default`."""

    def __init__(self, store: "PostgresSecrets") -> None:
        from gnomon.clock import SystemClock
        from gnomon.usecases.admin import webhook_secrets

        self._store = store
        self._clock = SystemClock()
        self._secrets = webhook_secrets

    async def list_webhook_secrets(self) -> Json:
        found = await self._secrets.list_all(self._store, _BY)
        return {"webhook_secrets": [_record(secret) for secret in found]}

    async def show_webhook_secret(self, secret_id: str) -> Json:
        return _shown(await self._secrets.show(self._store, _BY, UUID(secret_id)))

    async def create_webhook_secret(self, secret: Json) -> Json:
        wanted = self._secrets.WantedSecret(
            host=secret.get("host"),
            scheme=Scheme(secret["scheme"]),
            value=secret.get("secret"),
            overlap_seconds=secret["overlap_seconds"],
        )
        return _shown(await self._secrets.create(self._store, self._clock, _BY, wanted))

    async def rotate_webhook_secret(
        self, secret_id: str, *, overlap_seconds: float, secret: str | None = None
    ) -> Json:
        return _shown(
            await self._secrets.rotate(
                self._store, self._clock, _BY, UUID(secret_id), secret, overlap_seconds
            )
        )

    async def revoke_webhook_secret(self, secret_id: str) -> None:
        await self._secrets.revoke(self._store, _BY, UUID(secret_id))


def _shown(secret: "ShownSecret") -> Json:
    return {**_record(secret.known), "secret": secret.value}


def _record(secret: "WebhookSecret") -> Json:
    return {
        "secret_id": str(secret.id),
        "tenant_id": secret.tenant_id,
        "host": secret.host,
        "scheme": secret.scheme,
        "public_key": secret.public_key,
        "created_at": _moment(secret.created_at),
        "created_by": secret.created_by,
        "shared_until": _moment(secret.shared_until),
        "expires_at": _moment(secret.expires_at),
        "revoked_at": _moment(secret.revoked_at),
    }


def _moment(at: "datetime | None") -> str | None:
    return None if at is None else values.rfc3339(at)

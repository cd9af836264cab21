"""Webhook secrets in PostgreSQL."""

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from gnomon.access.secret_errors import LastSecret, SecretEnded, SecretNotFound, TooManySecrets
from gnomon.access.webhook_secret import MOST_ENDED, MOST_LIVE, MOST_TOGETHER, Scheme, WebhookSecret
from gnomon.model.errors import TenantNotFound
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.ports.tenancy.secrets import NewSecret, ReplacingSecret, ShownSecret
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

_FIELDS = WebhookSecret.__struct_fields__


class PostgresSecrets:
    """Stores webhook secrets. An unknown id raises SecretNotFound."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, tenant_id: str) -> list[WebhookSecret]:
        """All live ones and the newest ended ones, newest first."""
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(query("list_webhook_secrets"), tenant_id, None)
        return [_known(row) for row in rows]

    async def get(self, tenant_id: str, secret_id: UUID) -> WebhookSecret:
        """Its record."""
        async with self._database.scoped(tenant_id) as connection:
            return _known(await _row(connection, tenant_id, secret_id))

    async def show(self, tenant_id: str, secret_id: UUID) -> ShownSecret:
        """Its record and its value."""
        async with self._database.scoped(tenant_id) as connection:
            known = _known(await _row(connection, tenant_id, secret_id))
            value = await connection.fetchval(query("webhook_secret_value"), tenant_id, secret_id)
            return ShownSecret(known, value)

    async def create(self, new: NewSecret) -> ShownSecret:
        """Store a secret. Raises TooManySecrets, TenantNotFound."""
        async with self._database.scoped(new.tenant_id) as connection:
            return await _insert(connection, new)

    async def rotate(
        self, tenant_id: str, secret_id: UUID, replacing: ReplacingSecret, overlap_seconds: float
    ) -> ShownSecret:
        """Create a second one like this, and let this one end after the overlap. Returns the new
        one. Raises TooManySecrets, SecretEnded."""
        async with self._database.scoped(tenant_id) as connection:
            await connection.execute(query("lock_webhook_secrets"), tenant_id)
            row = await _row(connection, tenant_id, secret_id)
            old = _known(row)
            if not row["live"] or old.expires_at is not None:
                raise SecretEnded(secret_id)
            statement = query("expire_webhook_secret")
            await connection.execute(statement, tenant_id, secret_id, overlap_seconds)
            return await _insert(
                connection,
                NewSecret(
                    id=replacing.id,
                    tenant_id=tenant_id,
                    host=old.host,
                    scheme=old.scheme,
                    secret=replacing.secret,
                    public_key=replacing.public_key,
                    created_by=replacing.created_by,
                    # Whoever is new to the host's secrets has the old one's time for it.
                    shared_seconds=_seconds_left(row),
                ),
            )

    async def revoke(self, tenant_id: str, secret_id: UUID) -> None:
        """Revoke it. One that has ended stays as it is. Raises LastSecret."""
        async with self._database.scoped(tenant_id) as connection:
            await connection.execute(query("lock_webhook_secrets"), tenant_id)
            row = await _row(connection, tenant_id, secret_id)
            if not row["live"]:
                return
            others = await connection.fetch(query("list_webhook_secrets"), tenant_id, None)
            if _lasts(row) and not any(_lasts(each) for each in others if each["id"] != secret_id):
                raise LastSecret(secret_id)
            await connection.execute(query("revoke_webhook_secret"), tenant_id, secret_id)


async def give_default(
    connection: "asyncpg.Connection[asyncpg.Record]", new_id: UUID, given: str | None
) -> bool | None:
    """Give the tenant `default` its first secret: the one given, else a new one. True: it was
    done; None: it has others, and the one given is not among them."""
    async with connection.transaction():
        await connection.execute(query("lock_webhook_secrets"), DEFAULT_TENANT)
        made = await connection.fetchrow(
            query("first_webhook_secret"), new_id, DEFAULT_TENANT, given
        )
        if made is not None or given is None:
            return made is not None
        known = await connection.fetchrow(query("signs_with"), DEFAULT_TENANT, given)
        return None if known is None else False


async def _row(connection: "Connection", tenant_id: str, secret_id: UUID) -> asyncpg.Record:
    row = await connection.fetchrow(query("list_webhook_secrets"), tenant_id, secret_id)
    if row is None:
        raise SecretNotFound(secret_id)
    return row


async def _insert(connection: "Connection", new: NewSecret) -> ShownSecret:
    await connection.execute(query("lock_webhook_secrets"), new.tenant_id)
    rows = await connection.fetch(query("list_webhook_secrets"), new.tenant_id, None)
    _check_room([row for row in rows if row["live"]], new.host)
    await connection.execute(query("forget_webhook_secrets"), new.tenant_id, MOST_ENDED)
    try:
        row = await connection.fetchrow(
            query("insert_webhook_secret"),
            new.id,
            new.tenant_id,
            new.host,
            new.scheme,
            new.secret,
            new.public_key,
            new.created_by,
            new.shared_seconds,
        )
    except asyncpg.ForeignKeyViolationError as error:
        raise TenantNotFound(new.tenant_id) from error
    assert row is not None, "an insert returns its row"
    return ShownSecret(_known(row), row["secret"] if new.scheme is Scheme.V1 else None)


def _check_room(live: Iterable[asyncpg.Record], host: str | None) -> None:
    hosts = [row["host"] for row in live]
    if len(hosts) >= MOST_LIVE:
        raise TooManySecrets(f"the tenant has {MOST_LIVE} webhook secrets, the most that it may")
    if hosts.count(host) >= MOST_TOGETHER:
        whose = "the tenant itself" if host is None else host
        raise TooManySecrets(
            f"{MOST_TOGETHER} webhook secrets sign the calls of {whose}, the most that may"
        )


def _lasts(row: asyncpg.Record) -> bool:
    """Whether it is for all hosts of a tenant, and has no end."""
    return bool(row["live"] and row["host"] is None and row["expires_at"] is None)


def _seconds_left(row: asyncpg.Record) -> float | None:
    if row["host"] is None:
        return None
    seconds: float = row["shared_seconds"]
    return seconds


def _known(row: asyncpg.Record) -> WebhookSecret:
    values = {name: row[name] for name in _FIELDS} | {"scheme": Scheme(row["scheme"])}
    return WebhookSecret(**values)

"""Checks `targets.webhook_secret`, and signatures of the calls that `gnomon listen` receives."""

from collections.abc import Mapping
from datetime import datetime

from gnomon.cli.shared import database
from gnomon.cli.shared.output import CommandFailed
from gnomon.settings import Settings


def checked(secret: str) -> str:
    """A secret or public key that signatures can be checked with."""
    from gnomon.client.signature import check_secret

    try:
        check_secret(secret)
    except ValueError as error:
        raise CommandFailed(str(error)) from error
    return secret


def check_setting(settings: Settings) -> None:
    """Raise CommandFailed if `targets.webhook_secret` cannot be the first secret of a tenant."""
    from gnomon.access.webhook_secret import secret_bytes

    try:
        if settings.targets.webhook_secret is not None:
            secret_bytes(settings.targets.webhook_secret)
    except ValueError as error:
        raise CommandFailed(f"targets.webhook_secret cannot be used: {error}") from error


class Keyring:
    """The given secret, and those of the database where this machine can reach it. The database may
    start later, and secrets may be rotated, so a failed check looks them up once more."""

    def __init__(self, secret: str | None, settings: Settings) -> None:
        text = secret or settings.targets.webhook_secret
        self._given = [] if text is None else [checked(text)]
        self._settings = settings
        self._known: dict[str, list[str]] = {}

    async def secrets(self, tenant_id: str) -> list[str]:
        """The secrets that sign a tenant's calls; public keys for those of v1a."""
        self._known[tenant_id] = await self._read(tenant_id)
        return self._given + self._known[tenant_id]

    async def check(
        self, tenant_id: str, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> bool | None:
        """Whether a call is signed with a secret of the tenant. None: none of them is known."""
        from gnomon.client.signature import verify

        if verify(self._given + self._known.get(tenant_id, []), headers, body, now):
            return True
        secrets = await self.secrets(tenant_id)
        return verify(secrets, headers, body, now) if secrets else None

    async def _read(self, tenant_id: str) -> list[str]:
        import asyncpg

        from gnomon.model.errors import StoreUnavailable
        from gnomon.store.postgres.queries import query

        dsn = database.known_dsn(self._settings)
        if dsn is None:
            return []
        try:
            async with database.connection(dsn) as opened:
                rows = await opened.fetch(query("checking_secrets"), tenant_id)
        except (CommandFailed, StoreUnavailable, asyncpg.PostgresError):
            return []
        return [row["secret"] for row in rows]

"""What is asked of the store about webhook secrets: the contract that every store keeps.

A tenant that has a row always has a secret of its own that lasts: one is made with it, and the last
one can be replaced, not revoked. Every process hears of a change as of any of the directory's.
"""

from typing import Protocol
from uuid import UUID

import msgspec

from gnomon.access.webhook_secret import Scheme, WebhookSecret


class NewSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret about to be kept."""

    id: UUID
    tenant_id: str
    host: str | None = None
    scheme: Scheme = Scheme.V1
    secret: str | None = None  # None: the store makes one, for v1
    public_key: str | None = None
    created_by: str | None = None
    shared_seconds: float | None = None  # of a host's: how long the tenant's sign beside it

    def __repr__(self) -> str:
        return f"NewSecret({self.id})"


class ReplacingSecret(msgspec.Struct, frozen=True, kw_only=True):
    """What a rotated secret gets in its place; host and scheme it hands down."""

    id: UUID
    secret: str | None = None
    public_key: str | None = None
    created_by: str | None = None

    def __repr__(self) -> str:
        return f"ReplacingSecret({self.id})"


class ShownSecret(msgspec.Struct, frozen=True):
    """A secret with its value. None: nobody is shown it, or it has ended."""

    known: WebhookSecret
    value: str | None

    def __repr__(self) -> str:
        return f"ShownSecret({self.known.id})"


class SecretStore(Protocol):
    """What is asked on behalf of a tenant. An unknown id raises SecretNotFound."""

    async def list(self, tenant_id: str) -> list[WebhookSecret]:
        """All that are live and the newest of those that have ended; newest first."""

    async def get(self, tenant_id: str, secret_id: UUID) -> WebhookSecret:
        """One of them."""

    async def show(self, tenant_id: str, secret_id: UUID) -> ShownSecret:
        """One of them with its value."""

    async def create(self, new: NewSecret) -> ShownSecret:
        """Keep a secret. Raises TooManySecrets, TenantNotFound."""

    async def rotate(
        self, tenant_id: str, secret_id: UUID, replacing: ReplacingSecret, overlap_seconds: float
    ) -> ShownSecret:
        """Make a second one like this, and let this one end after the overlap. Gives the new one.
        Raises TooManySecrets, SecretEnded."""

    async def revoke(self, tenant_id: str, secret_id: UUID) -> None:
        """End it at once. One that has ended stays as it is. Raises LastSecret."""

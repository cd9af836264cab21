"""Values of the webhook secret store.

A tenant that has a row always has a secret of its own that lasts: one is made with it, and the last
one can be replaced, not revoked. Every process hears of a change as of any of the directory's.
"""

from uuid import UUID

import msgspec

from gnomon.access.webhook_secret import Scheme, WebhookSecret


class NewSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret about to be stored."""

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
    """The new values of a rotated secret; it inherits host and scheme."""

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
